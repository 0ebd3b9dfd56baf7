//! The `llm` node: its configuration and all parts of a model call that need no network.
//!
//! `parse` reads the node's `data`. [`prompt`] builds messages and parameters from it and the run's variables, step by
//! step: [`context`], [`files`], [`fill`] for the texts, and [`memory`] for the history, within the room that
//! [`tokens`] computes. From the reply [`reasoning`] splits off the model's thoughts, [`structured`] reads JSON,
//! [`usage`] computes the cost. The worker makes the call. Code shared by other nodes with models is here too.

pub(in crate::nodes) mod blocks;
pub mod context;
pub mod conversation;
pub mod decimal;
pub mod files;
pub mod fill;
pub mod history;
pub mod known;
pub mod memory;
pub mod message;
pub mod params;
mod parse;
pub mod profile;
pub mod prompt;
pub mod record;
pub mod structured;
pub mod tokens;
pub mod turns;
pub mod usage;

use crate::dsl::Problems;
use tidemill_base::value::template::{Template, TemplatePiece, mention};
use tidemill_base::value::{JsonMap, Selector};

pub use crate::messages::Role;
pub use tidemill_base::value::reasoning;

/// Configuration of `llm`.
#[derive(Debug, Clone)]
pub struct LlmData {
    /// The model and its parameters.
    pub model: ModelConfig,
    /// The messages, or the single text of a completion.
    pub prompt: PromptTemplate,
    /// Variables for Jinja messages.
    pub jinja_variables: Vec<JinjaVariable>,
    /// Settings for the conversation so far and for the current question.
    pub memory: Option<Memory>,
    /// The variable whose text replaces `{{#context#}}`. `None` when context is off.
    pub context: Option<Selector>,
    /// The files sent with the prompt. `None` when vision is off.
    pub vision: Option<Vision>,
    /// Detail of images, also of those that a text refers to: `high` or `low`.
    pub detail: String,
    /// The JSON schema of the answer. `None` when structured output is off.
    pub structured_output: Option<JsonMap>,
    /// Treatment of `<think>` blocks.
    pub reasoning: ReasoningFormat,
    /// The list of messages that the prompt continues. `None` without the key.
    pub conversation: Option<conversation::Conversation>,
}

/// A model in a workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The provider, such as `langgenius/openai/openai`, exactly as in the file.
    pub provider: String,
    pub name: String,
    /// Only shown in `process_data`; the type of the prompt decides what is sent.
    pub mode: ModelMode,
    /// Parameters as in the file, including `stop`.
    pub completion_params: JsonMap,
}

/// The input format of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelMode {
    /// Messages.
    Chat,
    /// One text.
    Completion,
}

impl ModelMode {
    /// Dify's name of the mode.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completion => "completion",
        }
    }
}

/// The prompt of a model call.
#[derive(Debug, Clone)]
pub enum PromptTemplate {
    /// A list of messages.
    Chat(Vec<MessageTemplate>),
    /// One text, sent as a user message.
    Completion(TextTemplate),
}

/// A message whose variables are not filled in yet.
#[derive(Debug, Clone)]
pub struct MessageTemplate {
    pub role: Role,
    pub text: TextTemplate,
}

/// A text in one of two template languages.
#[derive(Debug, Clone)]
pub enum TextTemplate {
    /// With `{{#node.name#}}` and `{{#context#}}`.
    Basic(String),
    /// Jinja over the declared variables.
    Jinja(String),
    /// Not a text: a list of messages is inserted here.
    Messages(Selector),
}

impl TextTemplate {
    /// The text as written.
    pub fn source(&self) -> &str {
        match self {
            Self::Basic(text) | Self::Jinja(text) => text,
            Self::Messages(_) => "",
        }
    }
}

/// A variable for Jinja messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JinjaVariable {
    /// The name in the template.
    pub name: String,
    /// The variable's selector.
    pub selector: Selector,
}

/// Settings for the conversation so far in the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// True when an `llm` node uses the size; other nodes always do (as on Dify).
    pub enabled: bool,
    /// Most turns of the history.
    pub size: Option<u64>,
    /// Names of the speakers in a completion prompt: user, assistant.
    pub role_prefix: Option<(String, String)>,
    /// The final user message; empty: the text of `sys.query`.
    pub query_template: String,
}

impl Memory {
    /// The turns of an `llm` node's window. `None` when the window is off.
    pub fn window(&self) -> Option<u64> {
        self.size.filter(|_| self.enabled)
    }

    /// Adds the variables that a node with memory reads.
    pub(in crate::nodes) fn mentions(&self, into: &mut Vec<(String, String)>) {
        Template::parse(&self.query_template).mentions(into);
        into.extend(["query", "conversation_id"].map(|name| ("sys".into(), name.into())));
        into.push((history::NODE.into(), history::NAME.into()));
    }
}

/// Files sent with the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vision {
    /// The variable with the files.
    pub selector: Selector,
}

/// Treatment of `<think>` blocks in the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReasoningFormat {
    /// They stay in the text.
    #[default]
    Tagged,
    /// They become a separate output.
    Separated,
}

impl ModelConfig {
    /// False when the author has not chosen a model yet. A profile brings its own.
    pub fn is_chosen(&self) -> bool {
        let names_profile = self.provider.starts_with(profile::tool_mode::PROFILE_PREFIX);
        names_profile || !(self.provider.is_empty() || self.name.is_empty())
    }

    /// The last part of the provider's name, for messages.
    pub fn provider_label(&self) -> &str {
        self.provider.rsplit('/').next().unwrap_or(&self.provider)
    }

    /// Adds the variables that the parameters mention.
    pub(in crate::nodes) fn mentions(&self, into: &mut Vec<(String, String)>) {
        for text in self.completion_params.values().filter_map(|value| value.as_str()) {
            Template::parse(text).mentions(into);
        }
    }
}

impl LlmData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        parse::parse(data, problems)
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        for text in self.texts() {
            Template::parse(text.source()).mentions(into);
            if let TextTemplate::Messages(selector) = text {
                mention(selector, into);
            }
        }
        self.model.mentions(into);
        let jinja = self.jinja_variables.iter().map(|variable| &variable.selector);
        for selector in jinja.chain(&self.context).chain(self.vision.iter().map(|vision| &vision.selector)) {
            mention(selector, into);
        }
        if let Some(memory) = &self.memory {
            memory.mentions(into);
        }
        if let Some(conversation) = &self.conversation {
            conversation.mentions(into);
        }
    }

    /// The texts of the prompt, in order.
    pub fn texts(&self) -> Vec<&TextTemplate> {
        match &self.prompt {
            PromptTemplate::Chat(messages) => messages.iter().map(|m| &m.text).collect(),
            PromptTemplate::Completion(text) => vec![text],
        }
    }
}

/// The references of a text in order, duplicates included. Texts are stored unparsed, since `{{#context#}}` is inserted
/// before references are searched (as on Dify).
fn references(text: &str) -> Vec<Selector> {
    let parts = Template::parse(text);
    let selector = |part: &TemplatePiece| match part {
        TemplatePiece::Variable(selector) => Some(selector.clone()),
        TemplatePiece::Text(_) | TemplatePiece::PerhapsVariable(_) => None,
    };
    parts.parts().iter().filter_map(selector).collect()
}

#[cfg(test)]
mod tests;
