//! What surrounds a node's own call: other nodes that run inside its job, leave that is asked for before. A node that has
//! nothing of the kind has no [`Work`], and nobody looks further.

use serde_json::Value as Json;

use super::{NodeIx, RetryConfig};
use crate::nodes::hooks::Hooks;
use crate::value::Selector;

/// What is done in a node's job besides its own call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Work {
    /// How often a child that has failed is tried again, and after how long: the node's own `retry_config`, whether or
    /// not the node itself is ever tried again.
    pub child_retry: RetryConfig,
    /// Somebody must give leave before the node's own call is made.
    pub confirm: Option<Box<Confirm>>,
    /// Inputs of the node that say what stands for nothing.
    pub inputs: Vec<FedInput>,
    /// Events that its author wants to be told before it and behind it.
    pub hooks: Hooks,
}

/// Why somebody is to give leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirm {
    /// `low`, `medium` or `high`.
    pub risk: String,
    /// In the author's words; may be empty.
    pub reason: String,
}

/// An input that says what stands for nothing. The node reads it as the variable of its name under [`INPUTS`].
#[derive(Debug, Clone, PartialEq)]
pub struct FedInput {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub selector: Selector,
    /// What stands for nothing; none: the node fails.
    pub default: Option<Json>,
}

/// The namespace of such inputs. No node has an id like that.
pub const INPUTS: &str = "#inputs";

/// A node that runs inside the job of another. It has an id, a state, events and outputs like any node, but no edges, and
/// no job of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// The node it belongs to.
    pub of: NodeIx,
    /// Its id within that node; the id of the node is that of its parent, `_` and this.
    pub local: String,
    /// What it is there for.
    pub kind: ChildKind,
}

/// What a child is there for.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildKind {
    /// It asks a model for something out of a list of messages.
    Extraction(Box<Extraction>),
    /// It is a node of any allowed type.
    Virtual,
    /// It fills in what is missing in the parent's parameters.
    Slot,
}

/// What an extraction reads and asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Extraction {
    /// The variable with the messages: node and name.
    pub source: (String, String),
    /// What is asked about them.
    pub prompt: String,
    /// Whether a model is known for it: its own, or that of the source.
    pub has_model: bool,
    /// What its text is when it has failed and the node's strategy is `default-value`; without it an empty one.
    pub default_value: Option<Json>,
}

impl Extraction {
    /// The source as events name it: `llm1.context`.
    pub fn source_name(&self) -> String {
        format!("{}.{}", self.source.0, self.source.1)
    }
}
