//! The profile form of `llm`: a profile (a model with parameters, identified by an id) and one prompt with variables by
//! name. Dify's files do not have it; [`is_form_of`] distinguishes it from Dify's form.
//!
//! `parse` reads the node's `data`. The worker makes the call and processes the answer.

mod error;
mod parse;
pub mod text_calls;
pub mod tool_mode;
mod tools;

use crate::dsl::Problems;
use crate::messages::MESSAGES;
use crate::nodes::agent::parameters::AgentTool;
use tidemill_base::value::JsonMap;
use tidemill_base::value::names::{NamedText, Names};
use tidemill_base::value::template::Template;

use super::{ReasoningFormat, Role};

pub use error::{CallErrorType, LLM_ERROR, NOT_FOUND, TOOL_ERROR, TOOL_ROUNDS_EXCEEDED, VALIDATION};
pub use parse::is_form_of;

/// The error for a configuration without profile or prompt.
pub const INCOMPLETE: &str = "LLM node must have profileId and prompt";

/// Configuration of the profile form of `llm`.
#[derive(Debug, Clone)]
pub struct ProfileData {
    /// The profile's id; `default` is the namespace's default profile.
    pub profile_id: String,
    /// The prompt's text.
    pub prompt: NamedText,
    /// The variables that names in the prompt can refer to.
    pub names: Names,
    /// Another model of the profile's provider.
    pub model: Option<String>,
    /// Parameters, merged into the profile's.
    pub parameters: JsonMap,
    /// True when the reply is streamed.
    pub stream: bool,
    /// Treatment of `<think>` blocks.
    pub reasoning: ReasoningFormat,
    pub tools: Vec<AgentTool>,
    /// Settings for tool calls.
    pub calling: Calling,
    /// The list of messages to continue. `None`: the model gets only the prompt.
    pub conversation: Option<Conversation>,
    /// True when the node has the output `context` even if no node reads it.
    pub emits_context: bool,
}

/// Settings for tool calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calling {
    /// Most calls of one reply.
    pub calls_max: u32,
    /// Rounds in which results are sent back; 0: calls are recorded but results are not sent back.
    pub rounds_max: u32,
    /// True when calls of one reply run in parallel.
    pub is_parallel: bool,
    /// True when a failed tool fails the node.
    pub fails: bool,
}

/// A list of messages of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    pub id: String,
    /// The role under which the reply is stored.
    pub output_as: Role,
}

impl ProfileData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
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
