//! What Dify's service API keeps about datasets and documents besides what searches need. Searches ignore it, except for
//! the built-in metadata.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// What the service API keeps about a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DatasetNotes {
    /// Its indexing technique is not chosen yet: its first document does that.
    #[serde(skip_serializing_if = "is_default")]
    pub is_undecided: bool,
    /// Dify's word for who may see it; empty: `only_me`. It is only shown.
    #[serde(skip_serializing_if = "is_default")]
    pub permission: String,
    /// Unix milliseconds; 0: never changed.
    #[serde(skip_serializing_if = "is_default")]
    pub updated_at: i64,
    /// The fields that documents may have, as clients have made them.
    #[serde(skip_serializing_if = "is_default")]
    pub metadata_fields: Vec<MetadataField>,
    /// True when documents have the built-in metadata fields.
    #[serde(skip_serializing_if = "is_default")]
    pub has_built_in: bool,
    /// Ids of its tags. Some may be removed tags.
    #[serde(skip_serializing_if = "is_default")]
    pub tags: Vec<String>,
    /// The last rule by which a text was split, in Dify's form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_rule: Option<Json>,
}

/// A metadata field of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MetadataField {
    pub id: String,
    pub name: String,
    /// `string`, `number` or `time`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A tag of datasets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TagRecord {
    pub id: String,
    pub name: String,
    /// Unix milliseconds.
    pub created_at: i64,
}

/// What the service API keeps about a document.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DocumentNotes {
    /// The run of the last whole version, by which clients ask for its status. Changes of segments keep it.
    #[serde(skip_serializing_if = "is_default")]
    pub batch: String,
    /// The file that it was read from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceFile>,
    /// The rule by which its text was split, in Dify's form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process_rule: Option<Json>,
    /// The client's word for its language. It is only shown.
    #[serde(skip_serializing_if = "is_default")]
    pub language: String,
}

/// The file that a document was read from. The file itself is not kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceFile {
    pub id: String,
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Without a dot.
    pub extension: String,
    pub mime_type: String,
    /// Unix seconds.
    pub created_at: i64,
}

/// True for a value that records leave out.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
