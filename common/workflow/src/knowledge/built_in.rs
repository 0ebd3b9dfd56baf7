//! Dify's built-in metadata of documents: name, uploader, dates and source. It is derived when it is read, and never
//! stored, so switching it on or off changes no document.

use std::borrow::Cow;

use serde_json::{Value as Json, json};

use super::records::{DatasetRecord, DocumentRecord, UPLOAD};
use tidemill_base::value::JsonMap;

/// The built-in fields and their types, in Dify's order.
pub const FIELDS: [(&str, &str); 5] = [
    ("document_name", "string"),
    ("uploader", "string"),
    ("upload_date", "time"),
    ("last_update_date", "time"),
    ("source", "string"),
];

/// The uploader of every document: there are no accounts here.
const UPLOADER: &str = "api";

/// The values of the built-in fields, in the order of [`FIELDS`].
pub fn values(document: &DocumentRecord) -> Vec<(&'static str, Json)> {
    let seconds = |millis: i64| json!(millis as f64 / 1000.0);
    let source = match document.data_source_type.as_str() {
        UPLOAD => "file_upload",
        "website_crawl" => "website",
        "notion_import" => "notion",
        other => other,
    };
    let values = [
        json!(document.name),
        json!(UPLOADER),
        seconds(document.created_at),
        seconds(document.updated_at),
        json!(source),
    ];
    FIELDS.iter().map(|(name, _)| *name).zip(values).collect()
}

/// The metadata by which searches filter and which results show.
pub fn metadata<'a>(dataset: &DatasetRecord, document: &'a DocumentRecord) -> Cow<'a, JsonMap> {
    if !dataset.notes.has_built_in {
        return Cow::Borrowed(&document.doc_metadata);
    }
    let mut all = document.doc_metadata.clone();
    all.extend(values(document).into_iter().map(|(name, value)| (name.to_owned(), value)));
    Cow::Owned(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knowledge::notes::DatasetNotes;

    #[test]
    fn documents_have_built_in_fields_when_their_dataset_has_them() {
        let document = DocumentRecord {
            name: "a.md".into(),
            doc_metadata: json!({"year": 2026}).as_object().cloned().unwrap_or_default(),
            created_at: 1500,
            updated_at: 2000,
            ..DocumentRecord::default()
        };
        let mut dataset = DatasetRecord::default();
        assert_eq!(json!(metadata(&dataset, &document)), json!({"year": 2026}));
        dataset.notes = DatasetNotes { has_built_in: true, ..DatasetNotes::default() };
        let expected = json!({"year": 2026, "document_name": "a.md", "uploader": "api", "upload_date": 1.5,
            "last_update_date": 2.0, "source": "file_upload"});
        assert_eq!(json!(metadata(&dataset, &document)), expected);
    }
}
