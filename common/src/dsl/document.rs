//! A workflow file in its one form, before it is a graph. This is what is stored beside the runs, and what names a
//! version.

use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::{Diagnostic, ParseLimits, stored};
use crate::graph::{AppMode, DocumentVariable, GraphHash};
use crate::value::{JsonMap, SegmentType};

/// A node as the file has it.
#[derive(Debug, Clone)]
pub struct DocumentNode {
    /// Its id.
    pub id: String,
    /// `parentId`: the container it is drawn in.
    pub parent: Option<String>,
    /// `data`, without what the editor remembers.
    pub data: JsonMap,
    /// Its place among the file's nodes, notes counted; for messages only.
    pub(crate) place: usize,
}

impl DocumentNode {
    /// `data.type`.
    pub fn type_name(&self) -> &str {
        self.data.get("type").and_then(Json::as_str).unwrap_or_default()
    }
}

/// An edge as the file has it.
#[derive(Debug, Clone)]
pub struct DocumentEdge {
    /// Its id in the file, if any.
    pub id: Option<String>,
    /// Dify's number of it: its internal id is `edge_<number>`.
    pub number: u32,
    /// The node it leaves.
    pub source: String,
    /// The node it reaches.
    pub target: String,
    /// The handle it leaves by.
    pub handle: Arc<str>,
    /// Its place among the file's edges; for messages only.
    pub(crate) place: usize,
}

/// A workflow file, read and brought into one form. It may still be wrong in what it means.
///
/// Two documents are equal when their canonical texts are.
#[derive(Clone)]
pub struct Document {
    /// Version of the export format; empty for a bare graph.
    pub version: String,
    /// The app's name; empty for a bare graph.
    pub name: String,
    /// The app's description.
    pub description: String,
    /// The app's mode; of a bare graph, what its nodes suggest.
    pub mode: AppMode,
    /// Nodes in file order, notes left out.
    pub nodes: Vec<DocumentNode>,
    /// Edges in file order.
    pub edges: Vec<DocumentEdge>,
    /// Environment variables.
    pub environment: Vec<DocumentVariable>,
    /// Conversation variables.
    pub conversation: Vec<DocumentVariable>,
    /// `workflow.features` as it stands in the file.
    pub features: JsonMap,
    /// `workflow.tidemill`: the run options, as they stand in the file.
    pub options: JsonMap,
    /// The path to the graph in the file; for messages only.
    pub(crate) graph_path: &'static str,
}

impl Document {
    /// The one text of this document: the form that `dsl/stored.rs` describes. Secrets stand in it as they are; see
    /// [`Document::seal`].
    pub fn canonical(&self) -> String {
        stored::write(self)
    }
    /// The SHA-256 of the canonical text: the name of this version.
    pub fn hash(&self) -> GraphHash {
        hash_of(&self.canonical())
    }
    /// Reads a canonical text.
    ///
    /// # Errors
    /// What is wrong, when the text is not one that [`Document::canonical`] wrote.
    pub fn from_stored(text: &str) -> Result<Self, Diagnostic> {
        // A stored text was within the limits when it came in; it may have grown by its sealed secrets and by
        // spellings written out.
        let limits = ParseLimits::default();
        let limits = ParseLimits {
            bytes_max: usize::MAX,
            depth_max: limits.depth_max + 8,
            values_max: 2 * limits.values_max,
            text_bytes_max: 2 * limits.text_bytes_max,
            children_max: usize::MAX,
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

/// The name of a version by its canonical text.
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
    /// Names and counts; a whole document would flood a log, and may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document")
            .field("name", &self.name)
            .field("mode", &self.mode.name())
            .field("nodes", &self.nodes.len())
            .field("edges", &self.edges.len())
            .finish_non_exhaustive()
    }
}
