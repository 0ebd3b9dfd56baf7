//! Ends a run of a knowledge pipeline: its chunks as they would be indexed.
//!
//! What Dify does with them afterwards is done by its knowledge bases, which are no part of the engine. So the preview
//! (`sys.invoke_from` is `debugger`) runs here as there, and a run that is to store fails behind all of Dify's checks.

use serde_json::{Value as Json, json};

use super::NodeResult;
use super::fields::{INVALID_NODE_DATA, required, selector, text};
use crate::dsl::Problems;
use crate::failure::NodeFailure;
use crate::value::template::mention;
use crate::value::{JsonMap, Segment, Selector, Variables};

const ERROR: &str = "KnowledgeIndexNodeError";
/// The system variables it reads.
const SYSTEM: [&str; 4] = ["dataset_id", "document_id", "batch", "invoke_from"];

/// How chunks are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkStructure {
    /// A list of texts.
    Text,
    /// Texts, each with parts of it.
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
    /// How the chunks are built.
    pub structure: ChunkStructure,
    /// The chunks.
    pub chunks: Selector,
}

impl KnowledgeIndexData {
    /// Reads `data` of the node; reports what is wrong and returns nothing when it cannot be used.
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
        Some(Self { structure: structure?, chunks: chunks? })
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        mention(&self.chunks, into);
        into.extend(SYSTEM.map(|name| ("sys".to_owned(), name.to_owned())));
    }

    /// Runs the node.
    pub fn evaluate(&self, variables: &dyn Variables) -> NodeResult {
        let sys = |name: &str| {
            let value = variables.found(&["sys".to_owned(), name.to_owned()]);
            value.filter(|value| !value.is_falsy()).map(|value| value.text().into_owned())
        };
        let escaped = |message: &str| NodeResult::failed(NodeFailure::escaped(message));
        if sys("dataset_id").is_none() {
            return escaped("Dataset ID is required.");
        }
        let Some(chunks) = variables.found(&self.chunks) else {
            return escaped("Index chunk variable is required.");
        };
        let result = NodeResult {
            inputs: vec![("chunks".into(), chunks.clone().into_owned())],
            ..NodeResult::default()
        };
        let failed = |message: String| NodeResult {
            failure: Some(NodeFailure::new(ERROR, message)),
            ..result.clone()
        };
        if chunks.is_falsy() {
            return failed("Chunks is required.".into());
        }
        if sys("invoke_from").as_deref() == Some("debugger") {
            return match preview(self.structure, &chunks.value) {
                Ok(outputs) => NodeResult { outputs, ..result },
                Err(message) => failed(message),
            };
        }
        for (name, message) in [("batch", "Batch is required."), ("document_id", "document_id is required.")]
        {
            if sys(name).is_none() {
                return failed(message.into());
            }
        }
        failed("there is no knowledge base here to keep chunks in; Dify's do that, or a node that calls a service of yours".into())
    }
}

fn structure(value: &Json, problems: &mut Problems) -> Option<ChunkStructure> {
    let name = text(value, problems)?;
    let found = ChunkStructure::ALL.into_iter().find(|it| it.name() == name);
    if found.is_none() {
        let known = ChunkStructure::ALL.map(ChunkStructure::name).join(", ");
        problems.error(INVALID_NODE_DATA, format!("{name:?} is no structure of chunks; known are {known}"));
    }
    found
}

/// The chunks as an editor shows them, or what is wrong with them.
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
    use crate::value::template::tests::Pool;

    fn run(structure: &str, sys: Json, chunks: Json) -> NodeResult {
        let data = json!({"chunk_structure": structure, "index_chunk_variable_selector": ["c", "result"]});
        let mut problems = Problems::new();
        let data = KnowledgeIndexData::parse(data.as_object().expect("a mapping"), &mut problems);
        let pool = match chunks {
            Json::Null => json!({ "sys": sys }),
            chunks => json!({"sys": sys, "c": {"result": chunks}}),
        };
        data.expect("usable").evaluate(&Pool::new(pool))
    }

    #[test]
    fn what_is_missing_fails_in_difys_order_and_words() {
        let set = json!({"dataset_id": "d"});
        for (sys, chunks, error_type, message) in [
            (json!({}), json!(null), "WorkflowNodeError", "Dataset ID is required."),
            (set.clone(), json!(null), "WorkflowNodeError", "Index chunk variable is required."),
            (set.clone(), json!([]), ERROR, "Chunks is required."),
            (set, json!(["x"]), ERROR, "Batch is required."),
            (json!({"dataset_id": "d", "batch": "b"}), json!(["x"]), ERROR, "document_id is required."),
            (
                json!({"dataset_id": "d", "batch": "b", "document_id": "o", "invoke_from": "published"}),
                json!(["x"]),
                ERROR,
                "there is no knowledge base here to keep chunks in; Dify's do that, or a node that calls a service of yours",
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
