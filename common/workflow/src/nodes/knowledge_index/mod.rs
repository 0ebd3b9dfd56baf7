//! The `knowledge-index` node: writes a run's chunks to a knowledge base as the segments of a document.
//!
//! This file holds the part without a store: Dify's checks in Dify's order, the preview (`sys.invoke_from` is
//! `debugger`), and the document to store ([`Order`]). The worker stores it, with vectors if the dataset has them.

use serde_json::{Value as Json, json};

use super::NodeResult;
use super::fields::{INVALID_NODE_DATA, required, selector, text};
use crate::dsl::Problems;
use crate::knowledge::Piece;
use crate::knowledge::notes::DocumentNotes;
use crate::knowledge::process::ProcessRule;
use crate::knowledge::records::UPLOAD;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::template::mention;
use tidemill_base::value::{JsonMap, Segment, Selector, Variables};

const ERROR: &str = "KnowledgeIndexNodeError";
/// The system variables that the node reads.
const SYSTEM: [&str; 4] = ["dataset_id", "document_id", "batch", "invoke_from"];

/// A document to store.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The dataset's id or name.
    pub dataset: String,
    /// The document's id.
    pub document: String,
    /// The batch it belongs to. Only recorded.
    pub batch: String,
    /// The document's name; defaults to its id.
    pub name: String,
    pub data_source_type: String,
    /// `None`: that of the version before.
    pub doc_metadata: Option<JsonMap>,
    pub notes: DocumentNotes,
    /// The generation that the segments were derived from. If another one is published now, nothing is stored.
    pub based_on: Option<String>,
    /// The run that the caller recorded as the newest for this document.
    pub noted_run: Option<String>,
    /// The segments, at least one.
    pub pieces: Vec<Piece>,
    /// The node's inputs, for the record only.
    pub inputs: Vec<(String, Segment)>,
}

/// The work for the worker.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Store a document.
    Keep(Box<Order>),
    /// Nothing to do: this is the node's result.
    Done(Box<NodeResult>),
}

/// The structure of the chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkStructure {
    /// A list of texts.
    Text,
    /// Texts, each with its parts.
    Hierarchical,
    /// Questions with answers.
    Qa,
}

impl ChunkStructure {
    const ALL: [Self; 3] = [Self::Text, Self::Hierarchical, Self::Qa];

    /// Dify's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text_model",
            Self::Hierarchical => "hierarchical_model",
            Self::Qa => "qa_model",
        }
    }
}

/// Configuration of `knowledge-index`.
#[derive(Debug, Clone)]
pub struct KnowledgeIndexData {
    pub structure: ChunkStructure,
    pub chunks: Selector,
    /// A text that is split here, by the `process_rule` beside the document. Only our own workflows have it.
    pub text: Option<Selector>,
}

impl KnowledgeIndexData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let structure = required(data, "chunk_structure", problems, structure);
        let chunks = required(data, "index_chunk_variable_selector", problems, selector);
        let is_technique_known = match data.get("indexing_technique") {
            None | Some(Json::Null) => true,
            Some(Json::String(name)) => matches!(name.as_str(), "high_quality" | "economy"),
            Some(_) => false,
        };
        if !is_technique_known {
            problems.within("indexing_technique", |problems| {
                problems.error(INVALID_NODE_DATA, "must be high_quality, economy or null".to_owned());
            });
            return None;
        }
        let text = data.get("text_variable_selector").and_then(|value| selector(value, problems));
        Some(Self { structure: structure?, chunks: chunks?, text })
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        mention(&self.chunks, into);
        self.text.iter().for_each(|text| mention(text, into));
        into.extend(SYSTEM.map(|name| ("sys".to_owned(), name.to_owned())));
    }

    /// Checks the inputs and returns the document to store, or the result when there is nothing to store.
    pub fn work(&self, variables: &dyn Variables) -> Work {
        let done = |result: NodeResult| Work::Done(Box::new(result));
        let sys = |name: &str| {
            let value = variables.found(&["sys".to_owned(), name.to_owned()]);
            value.filter(|value| !value.is_falsy()).map(|value| value.text().into_owned())
        };
        let escaped = |message: &str| done(NodeResult::failed(NodeFailure::escaped(message)));
        let Some(dataset) = sys("dataset_id") else { return escaped("Dataset ID is required.") };
        let Some(chunks) = variables.found(&self.chunks) else {
            return escaped("Index chunk variable is required.");
        };
        let inputs = vec![("chunks".to_owned(), chunks.clone().into_owned())];
        let failed = |message: String| {
            done(NodeResult { inputs: inputs.clone(), ..NodeResult::failed(failure(message)) })
        };
        if chunks.is_falsy() {
            return failed("Chunks is required.".into());
        }
        if sys("invoke_from").as_deref() == Some("debugger") {
            return match preview(self.structure, &chunks.value) {
                Ok(outputs) => done(NodeResult { inputs, ..NodeResult::outputs(outputs) }),
                Err(message) => failed(message),
            };
        }
        let Some(batch) = sys("batch") else { return failed("Batch is required.".into()) };
        let Some(document) = sys("document_id") else { return failed("document_id is required.".into()) };
        let text = self.text.as_ref().and_then(|text| variables.found(text));
        let pieces = match text {
            Some(text) => pieces_of_text(&text.text(), &chunks.value),
            None => pieces(self.structure, &chunks.value),
        };
        let pieces = match pieces {
            Ok(pieces) if pieces.is_empty() => return failed("Chunks is required.".into()),
            Ok(pieces) => pieces,
            Err(message) => return failed(message),
        };
        let about = chunks.value.get("document");
        let said = |key: &str| about?.get(key)?.as_str().map(str::to_owned);
        Work::Keep(Box::new(Order {
            dataset,
            batch,
            name: said("name").unwrap_or_else(|| document.clone()),
            document,
            data_source_type: said("data_source_type").unwrap_or_else(|| UPLOAD.into()),
            doc_metadata: match about {
                Some(about) => about.get("doc_metadata").and_then(Json::as_object).cloned(),
                None => Some(JsonMap::new()),
            },
            notes: about
                .and_then(|it| serde_json::from_value(it.get("notes")?.clone()).ok())
                .unwrap_or_default(),
            based_on: said("based_on"),
            noted_run: said("noted_run"),
            pieces,
            inputs,
        }))
    }
}

/// A failure of this node.
pub fn failure(message: impl Into<String>) -> NodeFailure {
    NodeFailure::new(ERROR, message)
}

/// Splits a text by the rule beside the document.
fn pieces_of_text(text: &str, chunks: &Json) -> Result<Vec<Piece>, String> {
    let rule = match chunks.get("process_rule").filter(|rule| !rule.is_null()) {
        Some(rule) => ProcessRule::parse(rule).map_err(|error| error.to_string())?,
        None => ProcessRule::default(),
    };
    let pieces = rule.pieces(text);
    if pieces.is_empty() {
        return Err("there is no text in the file".into());
    }
    Ok(pieces.into_iter().map(|content| Piece { content, ..Piece::default() }).collect())
}

/// Turns chunks into segments. Besides Dify's structures we accept `segments` in all of them: a list of objects with
/// `content` and optionally `answer`.
fn pieces(structure: ChunkStructure, chunks: &Json) -> Result<Vec<Piece>, String> {
    let text =
        |value: &Json| value.as_str().map(str::to_owned).ok_or_else(|| "A chunk is not a text".to_owned());
    let plain = |content: &Json| Ok(Piece { content: text(content)?, ..Piece::default() });
    let pieces: Vec<Piece> = match (structure, chunks.get("segments").and_then(Json::as_array)) {
        (_, Some(segments)) => segments
            .iter()
            .map(|it| {
                let answer = it.get("answer").filter(|answer| !answer.is_null()).map(text).transpose()?;
                Ok(Piece {
                    content: text(part(it, "content")?)?,
                    answer,
                    id: it.get("id").and_then(Json::as_str).map(str::to_owned),
                    is_disabled: it.get("enabled").and_then(Json::as_bool) == Some(false),
                })
            })
            .collect::<Result<_, String>>()?,
        (ChunkStructure::Text, None) => {
            let items = chunks.as_array().ok_or("Chunks is not a list")?;
            items.iter().map(plain).collect::<Result<_, String>>()?
        }
        (ChunkStructure::Hierarchical, None) => {
            let items = list(chunks, "parent_child_chunks")?;
            items.iter().map(|it| plain(part(it, "parent_content")?)).collect::<Result<_, String>>()?
        }
        (ChunkStructure::Qa, None) => list(chunks, "qa_chunks")?
            .iter()
            .map(|it| {
                let answer = Some(text(part(it, "answer")?)?);
                Ok(Piece { content: text(part(it, "question")?)?, answer, ..Piece::default() })
            })
            .collect::<Result<_, String>>()?,
    };
    Ok(pieces.into_iter().filter(|piece| !piece.content.trim().is_empty()).collect())
}

fn structure(value: &Json, problems: &mut Problems) -> Option<ChunkStructure> {
    let name = text(value, problems)?;
    let found = ChunkStructure::ALL.into_iter().find(|it| it.name() == name);
    if found.is_none() {
        let known = ChunkStructure::ALL.map(ChunkStructure::name).join(", ");
        problems
            .error(INVALID_NODE_DATA, format!("{name:?} is not a structure of chunks; use one of {known}"));
    }
    found
}

/// The chunks as an editor shows them.
///
/// # Errors
/// The message when the chunks do not fit the structure.
fn preview(structure: ChunkStructure, chunks: &Json) -> Result<Vec<(String, Segment)>, String> {
    let mut outputs = vec![("chunk_structure".to_owned(), Segment::string(structure.name()))];
    let mut add = |name: &str, value: Json| outputs.push((name.to_owned(), Segment::infer(value)));
    let total = match structure {
        ChunkStructure::Text => {
            let items = chunks.as_array().ok_or("Chunks is not a list")?;
            let shown = items.iter().map(|content| json!({ "content": content }));
            add("preview", shown.collect());
            items.len()
        }
        ChunkStructure::Hierarchical => {
            let items = list(chunks, "parent_child_chunks")?;
            let shown = items.iter().map(|it| {
                Ok(json!({"content": part(it, "parent_content")?, "child_chunks": part(it, "child_contents")?}))
            });
            let shown = shown.collect::<Result<Json, String>>()?;
            add("parent_mode", chunks.get("parent_mode").cloned().unwrap_or_else(|| "paragraph".into()));
            add("preview", shown);
            items.len()
        }
        ChunkStructure::Qa => {
            let items = list(chunks, "qa_chunks")?;
            let shown = items
                .iter()
                .map(|it| Ok(json!({"question": part(it, "question")?, "answer": part(it, "answer")?})));
            add("qa_preview", shown.collect::<Result<Json, String>>()?);
            items.len()
        }
    };
    add("total_segments", total.into());
    Ok(outputs)
}

fn list<'a>(chunks: &'a Json, key: &str) -> Result<&'a [Json], String> {
    let items = chunks.get(key).and_then(Json::as_array);
    items.map(Vec::as_slice).ok_or_else(|| format!("Chunks have no list {key}"))
}

fn part<'a>(chunk: &'a Json, key: &str) -> Result<&'a Json, String> {
    chunk.get(key).ok_or_else(|| format!("A chunk has no {key}"))
}

#[cfg(test)]
mod tests;
