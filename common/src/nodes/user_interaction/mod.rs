//! A question to the user: leave, a value, a choice, or a message that is merely shown.
//!
//! The node evaluates to what is asked; the engine asks it, or goes on at once where nothing is to be asked (a message, an
//! answer that the workflow brings along). What an answer means is in [`answer`], what it changes in [`on_answer`].

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
use crate::value::template::Template;
use crate::value::{JsonMap, Variables};

pub use on_answer::{Expression, OnAnswer, Scope};

/// The handle of a question that nobody answered in time.
pub const TIMEOUT_HANDLE: &str = "timeout";

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InteractionType {
    /// Leave.
    Approval,
    /// A value.
    Input,
    /// One of several.
    Selection,
    /// Nothing: a message is shown.
    Message,
}

impl InteractionType {
    /// Every type.
    pub const ALL: [Self; 4] = [Self::Approval, Self::Input, Self::Selection, Self::Message];
    /// Its name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Approval => "ask_for_approval",
            Self::Input => "ask_for_input",
            Self::Selection => "ask_for_selection",
            Self::Message => "show_message",
        }
    }
    /// The one of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }
    /// What is said where the workflow says nothing.
    const fn default_prompt(self) -> &'static str {
        match self {
            Self::Approval => "Please approve this action",
            Self::Input => "Please provide input",
            Self::Selection => "Please make a selection",
            Self::Message => "Show message",
        }
    }
    /// What a model is asked, in front of the rest.
    const fn for_model(self) -> &'static str {
        match self {
            Self::Approval => "Ask for approval: ",
            Self::Input => "Ask for input: ",
            Self::Selection => "Ask for selection: ",
            Self::Message => "",
        }
    }
}

/// Something to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choosable {
    /// Its id: the answer, and the handle.
    pub id: String,
    /// What people read.
    pub label: String,
}

/// A model answers instead of a person (`execution: llm`).
#[derive(Debug, Clone, PartialEq)]
pub struct ByModel {
    /// Its profile.
    pub profile: String,
    /// Parameters over those of the profile.
    pub parameters: JsonMap,
}

/// Configuration of `user-interaction`.
#[derive(Debug, Clone)]
pub struct UserInteractionData {
    /// What is asked.
    pub interaction: InteractionType,
    /// The text that is shown; none for the usual one.
    pub prompt: Option<Template>,
    /// An answer that the workflow brings along: nobody is asked.
    pub preset: Option<Expression>,
    /// What an answer must be; null for anything.
    pub schema: Json,
    /// What there is to choose from.
    pub options: Vec<Choosable>,
    /// A message waits until somebody has seen it.
    pub require_ack: bool,
    /// Milliseconds after which nobody is waited for; 0 for never.
    pub timeout_ms: u64,
    /// What happens then.
    pub on_timeout: OnTimeout,
    /// The answer then, where that is wanted; proposed before.
    pub defaults: Json,
    /// What an answer changes.
    pub on_answer: OnAnswer,
    /// A model answers instead.
    pub by_model: Option<Box<ByModel>>,
}

impl UserInteractionData {
    /// Reads `data` of the node; reports what is wrong and returns nothing when it cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut crate::dsl::Problems) -> Option<Self> {
        parse::parse(data, problems)
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        self.prompt.iter().for_each(|prompt| prompt.mentions(into));
        self.preset.iter().for_each(|preset| preset.mentions(into));
        self.on_answer.mentions(into);
    }

    /// The handles that it may leave by where an edge carries them.
    pub fn chooses(&self, handle: &str) -> bool {
        let by_answer = match self.interaction {
            InteractionType::Approval => handle == APPROVE || handle == REJECT,
            InteractionType::Selection => self.options.iter().any(|option| option.id == handle),
            InteractionType::Input | InteractionType::Message => false,
        };
        by_answer || handle == TIMEOUT_HANDLE && self.on_timeout == OnTimeout::Branch && self.timeout_ms > 0
    }

    /// The text that people are shown. A secret in it comes masked.
    fn text(&self, variables: &dyn Variables) -> String {
        match &self.prompt {
            Some(prompt) => prompt.render_text(&Masked(variables)),
            None => self.interaction.default_prompt().to_string(),
        }
    }

    /// What a model is asked where it answers instead.
    pub fn model_prompt(&self, variables: &dyn Variables) -> String {
        format!("{}{}", self.interaction.for_model(), self.text(variables))
    }

    /// Runs the node: it says what is to be asked, and `preset` beside it where nobody is.
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
