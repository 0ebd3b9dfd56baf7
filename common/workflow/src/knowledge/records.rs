//! The stored records of knowledge bases: datasets, documents, segments, and the state of indexing.
//!
//! Missing fields get their defaults and unknown ones are ignored, so that processes of different versions
//! read each other's records.

use serde::{Deserialize, Serialize};

use tidemill_base::value::JsonMap;

/// The index of a dataset, under Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Technique {
    /// By the vectors of an embedding model, and by words.
    HighQuality,
    /// By words only; needs no model.
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
    /// Reads Dify's name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::HighQuality, Self::Economy].into_iter().find(|it| it.name() == name)
    }
}

/// The search method of a dataset, under Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchMethod {
    /// By vectors.
    SemanticSearch,
    /// By words (full text).
    FullTextSearch,
    /// By both.
    HybridSearch,
    /// By the words that question and text share.
    KeywordSearch,
}

impl SearchMethod {
    /// All methods.
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
    /// Reads Dify's name.
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
    pub provider: String,
    pub model: String,
}

/// A dataset's own search settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retrieval {
    /// `None`: by vectors where there are some, else by words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_method: Option<SearchMethod>,
    /// Maximum number of passages.
    pub top_k: u32,
    /// Minimum score; `None` accepts any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score_threshold: Option<f64>,
    /// The model that ranks the results again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reranking_model: Option<ModelName>,
    /// The share of vectors in a hybrid search, 0 to 1; words have the rest.
    pub vector_weight: f64,
}

impl Default for Retrieval {
    fn default() -> Self {
        // Dify's defaults.
        Self {
            search_method: None,
            top_k: 4,
            score_threshold: None,
            reranking_model: None,
            vector_weight: 0.7,
        }
    }
}

/// The beginning of the ids of datasets that belong to another feature. No list shows them, and only their id finds them.
pub const INNER: &str = "inner:";

/// True for the id of a dataset that belongs to another feature.
pub fn is_inner(dataset: &str) -> bool {
    dataset.starts_with(INNER)
}

/// A dataset.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DatasetRecord {
    pub id: String,
    /// Workflows may use it instead of the id.
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub indexing_technique: Technique,
    /// The model of its vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<ModelName>,
    pub retrieval: Retrieval,
    /// Unix milliseconds.
    pub created_at: i64,
}

/// A searchable document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DocumentRecord {
    pub id: String,
    /// Unique in its dataset.
    pub name: String,
    /// Its source, such as `upload_file`.
    pub data_source_type: String,
    pub doc_metadata: JsonMap,
    /// Whether searches find it.
    pub enabled: bool,
    /// The name under which its segments are stored; each version has a new one.
    pub generation: String,
    /// The run that indexed it.
    pub run: String,
    pub segments: u64,
    /// Words in all segments.
    pub word_count: u64,
    /// Bytes of text in all segments.
    pub bytes: u64,
    /// Length of its vectors; 0 when it has none.
    pub dimension: u32,
    /// The model of its vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<ModelName>,
    /// When its first version was published, in Unix milliseconds.
    pub created_at: i64,
    /// When this version was published, in Unix milliseconds.
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

/// The `data_source_type` of an uploaded file, in Dify.
pub const UPLOAD: &str = "upload_file";

/// A piece of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SegmentRecord {
    /// The same in each version of the document.
    pub id: String,
    /// Position in the document, from 1.
    pub position: u64,
    /// The text; in a question–answer pair, the question.
    pub content: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Words; in scripts without spaces, characters.
    pub word_count: u64,
    /// Unique id of the passage.
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

/// The state of a document version that is not searchable yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexingState {
    /// No worker has begun.
    #[default]
    Waiting,
    /// A worker indexes it.
    Indexing,
    Error,
}

impl IndexingState {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Indexing => "indexing",
            Self::Error => "error",
        }
    }
}

/// A document version that is not searchable yet.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct IndexingRecord {
    pub name: String,
    /// The run that indexes it. Of several the newest counts.
    pub run: String,
    pub state: IndexingState,
    /// Segments already indexed.
    pub done: u64,
    /// All segments.
    pub total: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Unix milliseconds.
    pub at: i64,
}
