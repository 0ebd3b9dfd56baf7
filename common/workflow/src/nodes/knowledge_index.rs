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
mod tests {
    use super::*;
    use tidemill_base::value::pool::Pool;

    fn work(structure: &str, sys: Json, chunks: Json) -> Work {
        let data = json!({"chunk_structure": structure, "index_chunk_variable_selector": ["c", "result"]});
        let mut problems = Problems::new();
        let data = KnowledgeIndexData::parse(data.as_object().expect("a mapping"), &mut problems);
        let pool = match chunks {
            Json::Null => json!({ "sys": sys }),
            chunks => json!({"sys": sys, "c": {"result": chunks}}),
        };
        data.expect("usable").work(&Pool::new(pool))
    }

    fn run(structure: &str, sys: Json, chunks: Json) -> NodeResult {
        match work(structure, sys, chunks) {
            Work::Done(result) => *result,
            Work::Keep(order) => panic!("{order:?}"),
        }
    }

    #[test]
    fn missing_inputs_fail_in_difys_order_with_difys_messages() {
        let set = json!({"dataset_id": "d"});
        for (sys, chunks, error_type, message) in [
            (json!({}), json!(null), "WorkflowNodeError", "Dataset ID is required."),
            (set.clone(), json!(null), "WorkflowNodeError", "Index chunk variable is required."),
            (set.clone(), json!([]), ERROR, "Chunks is required."),
            (set, json!(["x"]), ERROR, "Batch is required."),
            (json!({"dataset_id": "d", "batch": "b"}), json!(["x"]), ERROR, "document_id is required."),
            (
                json!({"dataset_id": "d", "batch": "b", "document_id": "o", "invoke_from": "published"}),
                json!([1]),
                ERROR,
                "A chunk is not a text",
            ),
            (
                json!({"dataset_id": "d", "invoke_from": "debugger"}),
                json!("x"),
                ERROR,
                "Chunks is not a list",
            ),
        ] {
            let result = run("text_model", sys, chunks.clone());
            let failure = result.failure.expect("a failure");
            assert_eq!((failure.error_type.as_str(), failure.message.as_str()), (error_type, message));
            assert_eq!(result.inputs.is_empty(), error_type != ERROR, "{message}");
        }
    }

    #[test]
    fn the_preview_shows_chunks_by_their_structure() {
        let sys = json!({"dataset_id": "d", "invoke_from": "debugger"});
        for (structure, chunks, shown) in [
            (
                "text_model",
                json!(["a", "b"]),
                json!({"preview": [{"content": "a"}, {"content": "b"}], "total_segments": 2}),
            ),
            (
                "hierarchical_model",
                json!({"parent_mode": "full-doc", "parent_child_chunks": [{"parent_content": "p", "child_contents": ["c"]}]}),
                json!({"parent_mode": "full-doc", "preview": [{"content": "p", "child_chunks": ["c"]}], "total_segments": 1}),
            ),
            (
                "qa_model",
                json!({"qa_chunks": [{"question": "q", "answer": "a"}]}),
                json!({"qa_preview": [{"question": "q", "answer": "a"}], "total_segments": 1}),
            ),
        ] {
            let result = run(structure, sys.clone(), chunks);
            assert_eq!(result.failure, None, "{structure}");
            let mut outputs: JsonMap =
                result.outputs.into_iter().map(|(name, value)| (name, value.value)).collect();
            assert_eq!(outputs.shift_remove("chunk_structure"), Some(json!(structure)));
            assert_eq!(Json::Object(outputs), shown);
        }
    }

    #[test]
    fn chunks_of_every_structure_become_pieces_of_a_document() {
        let sys = json!({"dataset_id": "d", "document_id": "o", "batch": "b"});
        let piece = |content: &str, answer: Option<&str>| Piece {
            content: content.into(),
            answer: answer.map(Into::into),
            ..Piece::default()
        };
        for (structure, chunks, expected) in [
            ("text_model", json!(["a", " ", "b"]), vec![piece("a", None), piece("b", None)]),
            (
                "hierarchical_model",
                json!({"parent_child_chunks": [{"parent_content": "p", "child_contents": ["c"]}]}),
                vec![piece("p", None)],
            ),
            (
                "qa_model",
                json!({"qa_chunks": [{"question": "q", "answer": "a"}]}),
                vec![piece("q", Some("a"))],
            ),
            (
                "text_model",
                json!({"segments": [{"content": "q", "answer": "a"}, {"content": "c", "answer": null}]}),
                vec![piece("q", Some("a")), piece("c", None)],
            ),
        ] {
            let Work::Keep(order) = work(structure, sys.clone(), chunks) else { panic!("{structure}") };
            assert_eq!(order.pieces, expected, "{structure}");
            assert_eq!((order.name.as_str(), order.data_source_type.as_str()), ("o", "upload_file"));
            assert_eq!(order.noted_run, None);
        }
        let named = json!({"segments": [{"content": "c"}], "document": {
            "name": "n.md", "data_source_type": "website_crawl", "doc_metadata": {"year": 1}, "noted_run": "r"}});
        let Work::Keep(order) = work("text_model", sys, named) else { panic!("it is to be kept") };
        assert_eq!((order.name.as_str(), order.data_source_type.as_str()), ("n.md", "website_crawl"));
        assert_eq!(order.noted_run.as_deref(), Some("r"));
        assert_eq!(order.doc_metadata.map(Json::Object), Some(json!({"year": 1})));
    }

    #[test]
    fn changed_segments_keep_their_ids_and_a_text_is_split_by_its_rule() {
        let sys = json!({"dataset_id": "d", "document_id": "o", "batch": "b"});
        let changed = json!({"segments": [{"content": "c", "id": "s1", "enabled": false}],
            "document": {"based_on": "g1", "notes": {"language": "German"}}});
        let Work::Keep(order) = work("text_model", sys.clone(), changed) else { panic!("it is to be kept") };
        let expected = Piece { content: "c".into(), answer: None, id: Some("s1".into()), is_disabled: true };
        assert_eq!(order.pieces, [expected]);
        assert_eq!((order.based_on.as_deref(), order.notes.language.as_str()), (Some("g1"), "German"));
        assert_eq!(order.doc_metadata, None, "that of the version before stays");
        let data = json!({"chunk_structure": "text_model", "index_chunk_variable_selector": ["c", "result"],
            "text_variable_selector": ["t", "text"]});
        let mut problems = Problems::new();
        let data = KnowledgeIndexData::parse(data.as_object().expect("a mapping"), &mut problems);
        let rule = json!({"mode": "custom", "rules": {"segmentation": {"separator": "#", "max_tokens": 9}}});
        for (text, pieces, failure) in
            [("one#two", vec!["one", "two"], None), (" ", vec![], Some("there is no text in the file"))]
        {
            let chunks = json!({"process_rule": rule, "document": {"name": "n"}});
            let pool = json!({"sys": sys, "c": {"result": chunks}, "t": {"text": text}});
            match data.as_ref().expect("usable").work(&Pool::new(pool)) {
                Work::Keep(order) => {
                    let texts: Vec<&str> = order.pieces.iter().map(|piece| piece.content.as_str()).collect();
                    assert_eq!((texts, None), (pieces, failure));
                }
                Work::Done(result) => {
                    assert_eq!(result.failure.map(|it| it.message).as_deref(), failure);
                }
            }
        }
    }

    #[test]
    fn wrong_fields_are_reported_at_their_place() {
        let chunks = json!(["c", "r"]);
        for (data, path) in [
            (json!({"index_chunk_variable_selector": chunks}), "chunk_structure"),
            (json!({"chunk_structure": "lines", "index_chunk_variable_selector": chunks}), "chunk_structure"),
            (json!({"chunk_structure": "qa_model"}), "index_chunk_variable_selector"),
            (
                json!({"chunk_structure": "qa_model", "index_chunk_variable_selector": chunks, "indexing_technique": "fast"}),
                "indexing_technique",
            ),
        ] {
            let mut problems = Problems::new();
            assert!(KnowledgeIndexData::parse(data.as_object().expect("a mapping"), &mut problems).is_none());
            let paths: Vec<String> = problems.into_vec().into_iter().map(|problem| problem.path).collect();
            assert_eq!(paths, [path]);
        }
    }
}
