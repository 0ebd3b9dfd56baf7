//! The document: a workflow file in canonical form, before the graph is built. Documents are stored, and
//! their hash names a workflow version.

use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::{Diagnostic, ParseOptions, stored};
use tidemill_base::value::{JsonMap, Segment, SegmentType};

/// The SHA-256 of a workflow document's canonical text, in hex: the name of a version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GraphHash(pub Arc<str>);
impl std::fmt::Display for GraphHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The kind of app that the workflow belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppMode {
    /// Start … End, no conversation (Dify: `workflow`).
    Workflow,
    /// Start … Answer, within a conversation (Dify: `advanced-chat`).
    Chat,
}
impl AppMode {
    /// Returns Dify's name of the mode.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workflow => "workflow",
            Self::Chat => "advanced-chat",
        }
    }
}

/// An environment or conversation variable of the document.
#[derive(Clone, PartialEq)]
pub struct DocumentVariable {
    /// The id in the file, empty when absent.
    pub id: String,
    pub name: Arc<str>,
    /// The value; of type `secret` for secrets (environment only).
    pub value: Segment,
    pub description: String,
}

impl std::fmt::Debug for DocumentVariable {
    /// Leaves out the value, which may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DocumentVariable({:?}: {})", self.name, self.value.ty)
    }
}

/// A node of the file.
#[derive(Debug, Clone)]
pub struct DocumentNode {
    pub id: String,
    /// `parentId`: the container around the node.
    pub parent: Option<String>,
    /// `data`, without the fields that only Dify's editor uses.
    pub data: JsonMap,
    /// Its index among the file's nodes, including notes; for messages only.
    pub(crate) place: usize,
}

impl DocumentNode {
    /// Returns `data.type`.
    pub fn type_name(&self) -> &str {
        self.data.get("type").and_then(Json::as_str).unwrap_or_default()
    }
}

/// An edge of the file.
#[derive(Debug, Clone)]
pub struct DocumentEdge {
    /// The id in the file, if any.
    pub id: Option<String>,
    /// Dify's number of the edge: its internal id is `edge_<number>`.
    pub number: u32,
    /// The id of the node where it begins.
    pub source: String,
    /// The id of the node where it ends.
    pub target: String,
    /// The handle of the source node.
    pub handle: Arc<str>,
    /// Its index among the file's edges; for messages only.
    pub(crate) place: usize,
}

/// A parsed workflow file in canonical form. The graph in it may still be invalid.
///
/// Two documents are equal when their canonical texts are equal.
#[derive(Clone)]
pub struct Document {
    /// The version of the export format; empty for a bare graph.
    pub version: String,
    /// The app's name; empty for a bare graph.
    pub name: String,
    pub description: String,
    /// The app's mode; for a bare graph, the mode that its nodes suggest.
    pub mode: AppMode,
    /// The nodes in file order, without notes.
    pub nodes: Vec<DocumentNode>,
    /// The edges in file order.
    pub edges: Vec<DocumentEdge>,
    pub environment: Vec<DocumentVariable>,
    pub conversation: Vec<DocumentVariable>,
    /// `workflow.features`, unchanged.
    pub features: JsonMap,
    /// `workflow.tidemill`: the run options, unchanged.
    pub options: JsonMap,
    /// The ids of the nodes that could not be read, empty for one without an id: what follows from their absence is not
    /// reported as well.
    pub(crate) refused: Vec<String>,
    /// The path to the graph in the file; for messages only.
    pub(crate) graph_path: &'static str,
}

impl Document {
    /// Returns the canonical text, in the form that `dsl/stored.rs` describes. It contains secrets as they
    /// are in the document; see [`Document::seal`].
    pub fn canonical(&self) -> String {
        stored::write(self)
    }
    /// Returns the SHA-256 of the canonical text: the name of this version.
    pub fn hash(&self) -> GraphHash {
        hash_of(&self.canonical())
    }
    /// Parses a canonical text.
    ///
    /// # Errors
    /// A diagnostic when the text was not written by [`Document::canonical`].
    pub fn from_stored(text: &str) -> Result<Self, Diagnostic> {
        // A stored text was within the limits when it was imported. Sealed secrets and expanded spellings may
        // have made it longer.
        let limits = ParseOptions::default();
        let limits = ParseOptions {
            bytes_max: usize::MAX,
            depth_max: limits.depth_max + 8,
            values_max: 2 * limits.values_max,
            text_bytes_max: 2 * limits.text_bytes_max,
            children_max: usize::MAX,
            migrations: limits.migrations,
            retries: limits.retries,
            served: limits.served,
        };
        stored::read(text, &limits)
    }
    /// True when an environment variable is a secret with a value.
    pub fn has_secrets(&self) -> bool {
        self.environment.iter().any(|variable| {
            variable.value.ty == SegmentType::Secret
                && variable.value.value.as_str().is_some_and(|v| !v.is_empty())
        })
    }
}

/// Returns the name of the version with this canonical text.
pub fn hash_of(canonical: &str) -> GraphHash {
    let digest = Sha256::digest(canonical.as_bytes());
    GraphHash(digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.canonical() == other.canonical()
    }
}

impl fmt::Debug for Document {
    /// Shows names and counts only: a whole document would flood a log, and may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document")
            .field("name", &self.name)
            .field("mode", &self.mode.name())
            .field("nodes", &self.nodes.len())
            .field("edges", &self.edges.len())
            .finish_non_exhaustive()
    }
}
