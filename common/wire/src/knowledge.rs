//! Records of knowledge bases as they are written.
//!
//! Fields that are missing have their defaults, and unknown ones are passed over, so that processes of different versions
//! read each other's records.

use serde::{Deserialize, Serialize};

use super::WireError;

pub use tidemill_workflow::knowledge::records::{
    DatasetRecord, DocumentRecord, INNER, IndexingRecord, IndexingState, ModelName, Retrieval, SearchMethod,
    SegmentRecord, Technique, UPLOAD, is_inner,
};

/// Writes a record as JSON.
pub fn text<T: Serialize>(record: &T) -> String {
    // Maps with string keys and plain values always serialize.
    serde_json::to_string(record).unwrap_or_default()
}

/// Reads a record.
///
/// # Errors
/// The text is not a valid record.
pub fn read<'a, T: Deserialize<'a>>(what: &'static str, text: &'a str) -> Result<T, WireError> {
    serde_json::from_str(text).map_err(|error| WireError::Malformed { what, reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn missing_fields_get_defaults_and_unknown_ones_are_ignored() {
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
