//! A model call: its configuration and everything about it that needs no network.
//!
//! `parse` reads the node's `data`, [`prompt`] makes messages and parameters out of it and the run's variables, step by
//! step: [`context`], [`files`], [`fill`] for the texts, [`memory`] for what was said before within what [`tokens`]
//! leaves room for. Of the reply [`reasoning`] splits off what the model thinks, [`structured`] reads JSON, [`usage`]
//! bills the tokens. The call itself is in the worker. What other nodes that ask models share is here as well.

pub(in crate::nodes) mod blocks;
pub mod context;
pub mod conversation;
pub mod decimal;
pub mod files;
pub mod fill;
pub mod history;
pub mod memory;
pub mod message;
pub mod params;
mod parse;
pub mod profile;
pub mod prompt;
pub mod reasoning;
pub mod record;
pub mod structured;
pub mod tokens;
pub mod turns;
pub mod usage;

use crate::dsl::Problems;
use crate::value::template::{Part, Template, mention};
use crate::value::{JsonMap, Selector};

/// Configuration of `llm`.
#[derive(Debug, Clone)]
pub struct LlmData {
    /// Which model, and with what parameters.
    pub model: ModelConfig,
    /// The messages, or the one text of a completion.
    pub prompt: PromptTemplate,
    /// What Jinja messages may use.
    pub jinja_variables: Vec<JinjaVariable>,
    /// The conversation so far, and how to ask the present question.
    pub memory: Option<Memory>,
    /// The variable whose text replaces `{{#context#}}`; none when context is switched off.
    pub context: Option<Selector>,
    /// The files that go with the prompt; none when vision is switched off.
    pub vision: Option<Vision>,
    /// Detail of pictures, also of those that a text refers to: `high` or `low`.
    pub detail: String,
    /// The JSON schema of the answer; none when structured output is switched off.
    pub structured_output: Option<JsonMap>,
    /// What becomes of `<think>` blocks.
    pub reasoning: ReasoningFormat,
    /// The list of messages that the prompt goes on with; none without the key.
    pub conversation: Option<conversation::Conversation>,
}

/// A model as a workflow names it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The provider, such as `langgenius/openai/openai`, exactly as in the file.
    pub provider: String,
    /// The model's name.
    pub name: String,
    /// Only shown in `process_data`: the shape of the prompt decides what is sent.
    pub mode: ModelMode,
    /// Parameters as in the file, `stop` included.
    pub completion_params: JsonMap,
}

/// How a model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelMode {
    /// With messages.
    Chat,
    /// With one text.
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

/// What the model is given.
#[derive(Debug, Clone)]
pub enum PromptTemplate {
    /// A list of messages.
    Chat(Vec<MessageTemplate>),
    /// One text, sent as a user message.
    Completion(TextTemplate),
}

/// A message, before its variables are filled in.
#[derive(Debug, Clone)]
pub struct MessageTemplate {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub text: TextTemplate,
}

/// A text in one of two template languages.
#[derive(Debug, Clone)]
pub enum TextTemplate {
    /// With `{{#node.name#}}` and `{{#context#}}`.
    Basic(String),
    /// Jinja over the declared variables.
    Jinja(String),
    /// Not a text: the messages of a list stand in its place.
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

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions.
    System,
    /// The one who asks.
    User,
    /// The model.
    Assistant,
    /// The result of a tool; may stand in a file, but cannot be sent (as on Dify).
    Tool,
}

impl Role {
    /// The name in files and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// The one of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::System, Self::User, Self::Assistant, Self::Tool].into_iter().find(|role| role.name() == name)
    }
}

/// A variable that Jinja messages may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JinjaVariable {
    /// Its name in the template.
    pub name: String,
    /// Where it comes from.
    pub selector: Selector,
}

/// How the conversation so far enters the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Whether an `llm` node heeds the size; other nodes always do (Dify).
    pub enabled: bool,
    /// How many turns of the history are taken at most.
    pub size: Option<u64>,
    /// Names of the speakers in a completion prompt: user, assistant.
    pub role_prefix: Option<(String, String)>,
    /// The final user message; empty: the text of `sys.query`.
    pub query_template: String,
}

impl Memory {
    /// The window of an `llm` node: nothing while it is switched off.
    pub fn window(&self) -> Option<u64> {
        self.size.filter(|_| self.enabled)
    }

    /// Adds what a node with memory reads.
    pub(in crate::nodes) fn mentions(&self, into: &mut Vec<(String, String)>) {
        Template::parse(&self.query_template).mentions(into);
        into.extend(["query", "conversation_id"].map(|name| ("sys".into(), name.into())));
        into.push((history::NODE.into(), history::NAME.into()));
    }
}

/// Files that go with the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vision {
    /// Where they come from.
    pub selector: Selector,
}

/// What becomes of `<think>` blocks in the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReasoningFormat {
    /// They stay in the text.
    #[default]
    Tagged,
    /// They become an output of their own.
    Separated,
}

impl ModelConfig {
    /// The last part of the provider's name, as messages show it.
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
    /// Reads `data` of the node; reports what is wrong and returns nothing when it cannot be used.
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

/// The references of a text, in order, as often as they come. Texts are kept unparsed, since `{{#context#}}` is put in
/// before references are looked for (as on Dify).
fn references(text: &str) -> Vec<Selector> {
    let parts = Template::parse(text);
    let selector = |part: &Part| match part {
        Part::Variable(selector) => Some(selector.clone()),
        Part::Text(_) | Part::PerhapsVariable(_) => None,
    };
    parts.parts().iter().filter_map(selector).collect()
}

#[cfg(test)]
mod tests;
