//! What is kept of knowledge bases: a dataset, its documents, their segments, and where the indexing of a document stands.
//!
//! Fields that are missing have their defaults, and unknown ones are passed over, so that processes of different versions
//! read each other's records.

use serde::{Deserialize, Serialize};

use super::WireError;
use crate::value::JsonMap;

/// How a dataset is indexed, under Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Technique {
    /// By the vectors of a model, and by words.
    HighQuality,
    /// By words alone; needs no model.
    #[default]
    Economy,
}

impl Technique {
    /// Dify's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HighQuality => "high_quality",
            Self::Economy => "economy",
        }
    }
    /// The technique of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::HighQuality, Self::Economy].into_iter().find(|it| it.name() == name)
    }
}

/// How a dataset is searched, under Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchMethod {
    /// By meaning: vectors.
    SemanticSearch,
    /// By words, as a search engine does.
    FullTextSearch,
    /// By both.
    HybridSearch,
    /// By words that question and text share.
    KeywordSearch,
}

impl SearchMethod {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::SemanticSearch, Self::FullTextSearch, Self::HybridSearch, Self::KeywordSearch];

    /// Dify's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SemanticSearch => "semantic_search",
            Self::FullTextSearch => "full_text_search",
            Self::HybridSearch => "hybrid_search",
            Self::KeywordSearch => "keyword_search",
        }
    }
    /// The method of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
    /// Whether it needs vectors.
    pub const fn needs_vectors(self) -> bool {
        matches!(self, Self::SemanticSearch | Self::HybridSearch)
    }
}

/// A model as workflows name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelName {
    /// Its provider.
    pub provider: String,
    /// Its name.
    pub model: String,
}

/// How a dataset is searched by its own settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retrieval {
    /// The way; none: by meaning where there are vectors, else by words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_method: Option<SearchMethod>,
    /// Passages at most.
    pub top_k: u32,
    /// Least score; none: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score_threshold: Option<f64>,
    /// A model that ranks what was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reranking_model: Option<ModelName>,
    /// Of a hybrid search: the share of meaning, from 0 to 1; the rest is that of words.
    pub vector_weight: f64,
}

impl Default for Retrieval {
    fn default() -> Self {
        // Dify's.
        Self {
            search_method: None,
            top_k: 4,
            score_threshold: None,
            reranking_model: None,
            vector_weight: 0.7,
        }
    }
}

/// A dataset.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DatasetRecord {
    /// Its id.
    pub id: String,
    /// Its name; workflows may use it instead of the id.
    pub name: String,
    /// What it holds.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// How it is indexed.
    pub indexing_technique: Technique,
    /// The model of its vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<ModelName>,
    /// How it is searched.
    pub retrieval: Retrieval,
    /// Unix milliseconds.
    pub created_at: i64,
}

/// A document that can be searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DocumentRecord {
    /// Its id.
    pub id: String,
    /// Its name, one of its dataset.
    pub name: String,
    /// Where it came from, such as `upload_file`.
    pub data_source_type: String,
    /// What is known of it.
    pub doc_metadata: JsonMap,
    /// Whether searches find it.
    pub enabled: bool,
    /// Under which name its segments are kept; a new one with each version of it.
    pub generation: String,
    /// The run that indexed it.
    pub run: String,
    /// How many segments it has.
    pub segments: u64,
    /// Words of all of them.
    pub word_count: u64,
    /// Bytes of their texts.
    pub bytes: u64,
    /// Numbers of a vector; 0: it has none.
    pub dimension: u32,
    /// The model of its vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<ModelName>,
    /// When it was there first, in Unix milliseconds.
    pub created_at: i64,
    /// When this version of it was there.
    pub updated_at: i64,
}

impl Default for DocumentRecord {
    fn default() -> Self {
        Self {
            id: String::new(),
            name: String::new(),
            data_source_type: UPLOAD.into(),
            doc_metadata: JsonMap::new(),
            enabled: true,
            generation: String::new(),
            run: String::new(),
            segments: 0,
            word_count: 0,
            bytes: 0,
            dimension: 0,
            embedding: None,
            created_at: 0,
            updated_at: 0,
        }
    }
}

/// `data_source_type` of what was handed in as a file (Dify).
pub const UPLOAD: &str = "upload_file";

/// A piece of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SegmentRecord {
    /// Its id; the same in each version of the document.
    pub id: String,
    /// Its place in the document, from 1.
    pub position: u64,
    /// The text; of a question with an answer the question.
    pub content: String,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Its words; of scripts without spaces, characters.
    pub word_count: u64,
    /// What tells passages apart.
    pub index_node_id: String,
    /// SHA-256 of the text.
    pub index_node_hash: String,
    /// Whether searches find it.
    pub enabled: bool,
}

impl Default for SegmentRecord {
    fn default() -> Self {
        Self {
            id: String::new(),
            position: 0,
            content: String::new(),
            answer: None,
            word_count: 0,
            index_node_id: String::new(),
            index_node_hash: String::new(),
            enabled: true,
        }
    }
}

/// How far a version of a document is that cannot be searched yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexingState {
    /// No worker has begun.
    #[default]
    Waiting,
    /// A worker is at it.
    Indexing,
    /// It failed.
    Error,
}

impl IndexingState {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Indexing => "indexing",
            Self::Error => "error",
        }
    }
}

/// A version of a document that cannot be searched yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct IndexingRecord {
    /// The document's name.
    pub name: String,
    /// The run that indexes it. The newest one counts.
    pub run: String,
    /// How far it is.
    pub state: IndexingState,
    /// Segments that are done.
    pub done: u64,
    /// All segments.
    pub total: u64,
    /// Why it failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Since when, in Unix milliseconds.
    pub at: i64,
}

/// A record as it is written.
pub fn text<T: Serialize>(record: &T) -> String {
    // Maps with names and plain values: writing them does not fail.
    serde_json::to_string(record).unwrap_or_default()
}

/// A record as it was written.
///
/// # Errors
/// A text that is none.
pub fn read<'a, T: Deserialize<'a>>(what: &'static str, text: &'a str) -> Result<T, WireError> {
    serde_json::from_str(text).map_err(|error| WireError::Malformed { what, reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_record_lacks_has_its_default_and_what_it_has_besides_is_passed_over() {
        let document: DocumentRecord = read("a document", r#"{"id":"d","more":1}"#).expect("reads");
        assert!(document.enabled && document.data_source_type == "upload_file");
        let dataset: DatasetRecord =
            read("a dataset", r#"{"id":"k","embedding":{"provider":"p","model":"m"}}"#).expect("reads");
        assert_eq!((dataset.retrieval.top_k, dataset.indexing_technique), (4, Technique::Economy));
        assert!(read::<DatasetRecord>("a dataset", "1").is_err());
    }

    #[test]
    fn records_are_written_as_they_were_and_names_are_difys() {
        let dataset = DatasetRecord {
            id: "k".into(),
            name: "Küche".into(),
            indexing_technique: Technique::HighQuality,
            retrieval: Retrieval { search_method: Some(SearchMethod::HybridSearch), ..Retrieval::default() },
            ..DatasetRecord::default()
        };
        let expected = json!({"id": "k", "name": "Küche", "indexing_technique": "high_quality", "created_at": 0,
            "retrieval": {"search_method": "hybrid_search", "top_k": 4, "vector_weight": 0.7}});
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text(&dataset)).expect("JSON"), expected);
        assert_eq!(read::<DatasetRecord>("a dataset", &text(&dataset)).expect("reads"), dataset);
        for method in SearchMethod::ALL {
            assert_eq!(serde_json::to_value(method).expect("JSON"), json!(method.name()));
            assert_eq!(SearchMethod::from_name(method.name()), Some(method));
        }
        for state in [IndexingState::Waiting, IndexingState::Indexing, IndexingState::Error] {
            assert_eq!(serde_json::to_value(state).expect("JSON"), json!(state.name()));
        }
    }
}
