//! `llm` in its profile form: a profile (a model with parameters, known by an id) and one prompt with variables by their
//! names. No file of Dify has it; [`is_form_of`] tells it from the form that those have.
//!
//! `parse` reads the node's `data`. What is asked, and what becomes of the answer, is in the worker.

mod error;
mod parse;
pub mod text_calls;
pub mod tool_mode;
mod tools;

use crate::dsl::Problems;
use crate::nodes::agent::parameters::AgentTool;
use crate::objects::MESSAGES;
use crate::value::JsonMap;
use crate::value::names::{NamedText, Names};
use crate::value::template::Template;

use super::{ReasoningFormat, Role};

pub use error::{CallErrorType, LLM_ERROR, NOT_FOUND, TOOL_ERROR, TOOL_ROUNDS_EXCEEDED, VALIDATION};
pub use parse::is_form_of;

/// What a configuration without a profile or a prompt is refused with.
pub const INCOMPLETE: &str = "LLM node must have profileId and prompt";

/// Configuration of `llm` in its profile form.
#[derive(Debug, Clone)]
pub struct ProfileData {
    /// The profile; `default` for that of the namespace.
    pub profile_id: String,
    /// What is said.
    pub prompt: NamedText,
    /// The variables that names in the prompt may mean.
    pub names: Names,
    /// Another model of the profile's provider.
    pub model: Option<String>,
    /// Parameters, merged into those of the profile.
    pub parameters: JsonMap,
    /// Whether the reply is told as it comes.
    pub stream: bool,
    /// What becomes of `<think>` blocks.
    pub reasoning: ReasoningFormat,
    /// Tools that the model may call.
    pub tools: Vec<AgentTool>,
    /// How its calls are made.
    pub calling: Calling,
    /// The list of messages that it speaks in; none: it is told its prompt and nothing else.
    pub conversation: Option<Conversation>,
    /// Whether the node has an output `context` although nobody reads it.
    pub emits_context: bool,
}

/// How calls of tools are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calling {
    /// Most calls of one reply.
    pub calls_max: u32,
    /// Rounds in which results are sent back; 0: they are only kept.
    pub rounds_max: u32,
    /// Whether calls of one reply are made at the same time.
    pub is_parallel: bool,
    /// Whether a tool that fails fails the node.
    pub fails: bool,
}

/// A list of messages of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Its name.
    pub id: String,
    /// The role under which the reply is kept.
    pub output_as: Role,
}

impl ProfileData {
    /// Reads `data` of the node; reports what is wrong and returns nothing when it cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        parse::parse(data, problems)
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        self.prompt.mentions(&self.names, into);
        for text in self.parameters.values().filter_map(|value| value.as_str()) {
            Template::parse(text).mentions(into);
        }
        if let Some(conversation) = &self.conversation {
            into.push((MESSAGES.into(), conversation.id.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
