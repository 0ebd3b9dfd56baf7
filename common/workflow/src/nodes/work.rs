//! Work around a node's own call: nodes that run inside its job, approval by a person before the call, hooks.
//! A node without any of these has no [`Work`].

use serde_json::Value as Json;

use super::hooks::Hooks;
use super::node::{NodeIx, RetryConfig};
use tidemill_base::value::Selector;

/// The work in a node's job besides its own call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Work {
    /// The attempts for a failed child, from the node's `retry_config`, even when the node itself is never
    /// tried again.
    pub child_retry: RetryConfig,
    /// Set when a person must approve the node's own call.
    pub confirm: Option<Box<Approval>>,
    /// The inputs of the node that have a strategy for null.
    pub inputs: Vec<FedInput>,
    /// Events before and after the node, as its author defines them.
    pub hooks: Hooks,
}

/// The reason for an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// `low`, `medium` or `high`.
    pub risk: String,
    /// The author's text; may be empty.
    pub reason: String,
}

/// An input with a strategy for null. The node reads it as the variable `name` under [`INPUTS`].
#[derive(Debug, Clone, PartialEq)]
pub struct FedInput {
    pub name: String,
    /// The variable that it comes from.
    pub selector: Selector,
    /// The value instead of null; `None` means that the node fails.
    pub default: Option<Json>,
}

/// The namespace of such inputs. No node can have this id.
pub const INPUTS: &str = "#inputs";

/// A node that runs inside the job of another. It has an id, a state, events and outputs like any node, but
/// no edges and no separate job.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// The parent.
    pub of: NodeIx,
    /// Its id within the parent. The global id is `<parent>_<local>`.
    pub local: String,
    pub kind: ChildKind,
}

/// The purpose of a child.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildKind {
    /// Asks a model a question about a list of messages.
    Extraction(Box<Extraction>),
    /// A node of any allowed type.
    Virtual,
    /// Finds missing parameters of the parent.
    Slot,
}

/// The source and the question of an extraction.
#[derive(Debug, Clone, PartialEq)]
pub struct Extraction {
    /// The variable with the messages: node and name.
    pub source: (String, String),
    /// The question to the model.
    pub prompt: String,
    /// True when it has a model: its own, or that of the source.
    pub has_model: bool,
    /// Its text when it has failed and the node's strategy is `default-value`; without it the text is empty.
    pub default_value: Option<Json>,
}

impl Extraction {
    /// Returns the source as events name it: `llm1.context`.
    pub fn source_name(&self) -> String {
        format!("{}.{}", self.source.0, self.source.1)
    }
}
