//! What surrounds a node's own call: other nodes that run inside its job. A node that has nothing of the kind has no
//! [`Work`], and nobody looks further.

use super::{NodeIx, RetryConfig};

/// What is done in a node's job besides its own call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Work {
    /// How often a child that has failed is tried again, and after how long: the node's own `retry_config`, whether or
    /// not the node itself is ever tried again.
    pub child_retry: RetryConfig,
}

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
}

impl Extraction {
    /// The source as events name it: `llm1.context`.
    pub fn source_name(&self) -> String {
        format!("{}.{}", self.source.0, self.source.1)
    }
}
