//! The `user-interaction` node: asks the user for approval, a value or a choice, or only shows a message.
//!
//! The node evaluates to a request. The engine sends it to the user, or continues at once when no answer is needed (a
//! message, or a preset answer). [`answer`] builds the result from an answer, [`on_answer`] applies its changes.

pub mod answer;
pub mod on_answer;
mod parse;
#[cfg(test)]
mod tests;

use serde_json::{Value as Json, json};

use super::pause::as_form::{APPROVE, REJECT};
use super::pause::input::approval_schema;
use super::{NodeResult, OnTimeout, PauseKind, PauseRequest};
use crate::nodes::human_input::masked::Masked;
use tidemill_base::value::template::Template;
use tidemill_base::value::{JsonMap, Variables};

pub use on_answer::{Expression, OnAnswer, Scope};

/// The handle of a question that was not answered in time.
pub const TIMEOUT_HANDLE: &str = "timeout";

/// The kind of question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InteractionType {
    /// Approval.
    Approval,
    /// A value.
    Input,
    /// One of several choices.
    Selection,
    /// No question: a message is shown.
    Message,
}

impl InteractionType {
    /// All types.
    pub const ALL: [Self; 4] = [Self::Approval, Self::Input, Self::Selection, Self::Message];
    /// The name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Approval => "ask_for_approval",
            Self::Input => "ask_for_input",
            Self::Selection => "ask_for_selection",
            Self::Message => "show_message",
        }
    }
    /// Finds a type by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
    /// The text when the workflow has none.
    const fn default_prompt(self) -> &'static str {
        match self {
            Self::Approval => "Please approve this action",
            Self::Input => "Please provide input",
            Self::Selection => "Please make a selection",
            Self::Message => "Show message",
        }
    }
    /// The prefix of a model's prompt.
    const fn for_model(self) -> &'static str {
        match self {
            Self::Approval => "Ask for approval: ",
            Self::Input => "Ask for input: ",
            Self::Selection => "Ask for selection: ",
            Self::Message => "",
        }
    }
}

/// A choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerOption {
    /// The id: the answer, and the handle.
    pub id: String,
    /// The text for people.
    pub label: String,
}

/// A model answers instead of a person (`execution: llm`).
#[derive(Debug, Clone, PartialEq)]
pub struct ByModel {
    /// The model's profile.
    pub profile: String,
    /// Parameters that override the profile's.
    pub parameters: JsonMap,
}

/// Configuration of `user-interaction`.
#[derive(Debug, Clone)]
pub struct UserInteractionData {
    /// The kind of question.
    pub interaction: InteractionType,
    /// The text to show. `None`: the default text.
    pub prompt: Option<Template>,
    /// An answer set in the workflow: then the user is not asked.
    pub preset: Option<Expression>,
    /// The JSON schema of the answer; null accepts any.
    pub schema: Json,
    /// The choices.
    pub options: Vec<AnswerOption>,
    /// True when a message waits for confirmation by the user.
    pub require_ack: bool,
    /// Milliseconds until the timeout; 0 for none.
    pub timeout_ms: u64,
    /// The behaviour on timeout.
    pub on_timeout: OnTimeout,
    /// The proposed answer; also the answer on timeout with `on_timeout: default`.
    pub defaults: Json,
    /// The changes made by an answer.
    pub on_answer: OnAnswer,
    /// Settings for a model that answers instead.
    pub by_model: Option<Box<ByModel>>,
}

impl UserInteractionData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut crate::dsl::Problems) -> Option<Self> {
        parse::parse(data, problems)
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        self.prompt.iter().for_each(|prompt| prompt.mentions(into));
        self.preset.iter().for_each(|preset| preset.mentions(into));
        self.on_answer.mentions(into);
    }

    /// The handles that the node uses when an edge has them.
    pub fn handles(&self) -> impl Iterator<Item = &str> {
        let approval: &[&str] = match self.interaction {
            InteractionType::Approval => &[APPROVE, REJECT],
            InteractionType::Selection | InteractionType::Input | InteractionType::Message => &[],
        };
        let is_selection = self.interaction == InteractionType::Selection;
        let options = self.options.iter().filter(move |_| is_selection).map(|option| option.id.as_str());
        let timeout = self.on_timeout == OnTimeout::Branch && self.timeout_ms > 0;
        approval.iter().copied().chain(options).chain(timeout.then_some(TIMEOUT_HANDLE))
    }

    /// True for those handles.
    pub fn chooses(&self, handle: &str) -> bool {
        self.handles().any(|known| known == handle)
    }

    /// The text for the user; secrets are masked.
    fn text(&self, variables: &dyn Variables) -> String {
        match &self.prompt {
            Some(prompt) => prompt.render_text(&Masked(variables)),
            None => self.interaction.default_prompt().to_string(),
        }
    }

    /// The prompt of a model that answers instead.
    pub fn model_prompt(&self, variables: &dyn Variables) -> String {
        format!("{}{}", self.interaction.for_model(), self.text(variables))
    }

    /// Runs the node: returns the request, with `preset` when the user is not asked.
    pub fn evaluate(&self, variables: &dyn Variables) -> NodeResult {
        let mut request = PauseRequest {
            options: self.shown_options(),
            timeout_ms: (self.timeout_ms > 0).then_some(self.timeout_ms),
            on_timeout: self.on_timeout,
            defaults: self.defaults.clone(),
            ..PauseRequest::asking(PauseKind::UserInteraction, self.text(variables), self.answer_schema())
        };
        request.details.insert("interaction_type".into(), self.interaction.name().into());
        if let Some(preset) = &self.preset {
            request.details.insert(answer::PRESET.into(), preset.value(&Json::Null, &Masked(variables)));
        } else if self.interaction == InteractionType::Message && !self.require_ack {
            request.details.insert(answer::PRESET.into(), Json::Null);
        }
        NodeResult::waiting(request)
    }

    fn answer_schema(&self) -> Json {
        match self.interaction {
            InteractionType::Approval => approval_schema(),
            InteractionType::Selection if self.options.is_empty() => json!({"type": "string"}),
            InteractionType::Selection => {
                json!({"enum": self.options.iter().map(|option| option.id.as_str()).collect::<Vec<_>>()})
            }
            InteractionType::Input => self.schema.clone(),
            InteractionType::Message => Json::Null,
        }
    }

    fn shown_options(&self) -> Json {
        if self.options.is_empty() {
            return Json::Null;
        }
        self.options.iter().map(|option| json!({"id": option.id, "label": option.label})).collect()
    }
}
