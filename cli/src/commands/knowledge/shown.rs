//! Formats datasets, documents and passages.

use serde_json::Value as Json;

use crate::output::{table, text};

/// Longest text in a list, in characters.
const CHARS_MAX: usize = 300;

/// Formats a new dataset.
pub(super) fn dataset(made: &Json) -> String {
    table::pairs(&[
        ("id", word(&made["id"])),
        ("name", word(&made["name"])),
        ("indexing", word(&made["indexing_technique"])),
        ("model", model(&made["embedding"])),
        ("search", word(&made["retrieval"]["search_method"])),
    ])
}

/// Formats a list of datasets.
pub(super) fn datasets(all: &Json) -> String {
    let row = |it: &Json| {
        vec![
            word(&it["id"]),
            word(&it["name"]),
            word(&it["indexing_technique"]),
            model(&it["embedding"]),
            word(&it["documents"]),
            word(&it["segments"]),
            word(&it["indexing"]),
            time(&it["created_at"]),
        ]
    };
    let head = ["DATASET", "NAME", "INDEXING", "MODEL", "DOCUMENTS", "SEGMENTS", "UNDER WAY", "CREATED"];
    table::render(&head, &rows(&all["data"], row))
}

/// Formats the documents of a dataset.
pub(super) fn documents(one: &Json) -> String {
    let row = |it: &Json| {
        let status = match (it["indexing"]["done"].as_u64(), it["status"].as_str()) {
            (Some(done), Some("indexing")) => format!("indexing {done}/{}", it["indexing"]["total"]),
            (_, status) => status.unwrap_or_default().to_owned(),
        };
        let error = text::shortened(&word(&it["indexing"]["error"]), 60);
        vec![
            word(&it["name"]),
            word(&it["id"]),
            status,
            word(&it["segments"]),
            model(&it["embedding"]),
            time(&it["updated_at"]),
            error,
        ]
    };
    let head = ["DOCUMENT", "ID", "STATUS", "SEGMENTS", "MODEL", "UPDATED", "ERROR"];
    table::render(&head, &rows(&one["documents"], row))
}

/// Formats a document with its segments.
pub(super) fn document(it: &Json) -> String {
    let mut shown = table::pairs(&[
        ("id", word(&it["id"])),
        ("name", word(&it["name"])),
        ("status", word(&it["status"])),
        ("segments", word(&it["segments"])),
        ("words", word(&it["word_count"])),
        ("model", model(&it["embedding"])),
        ("metadata", word(&it["doc_metadata"])),
        ("updated", time(&it["updated_at"])),
        ("error", word(&it["indexing"]["error"])),
    ]);
    for segment in it["content"].as_array().into_iter().flatten() {
        shown.push_str(&format!(
            "\n#{}  {} words, found {} times\n{}\n",
            segment["position"],
            segment["word_count"],
            segment["hit_count"],
            text::safe(segment["content"].as_str().unwrap_or_default())
        ));
        if let Some(answer) = segment["answer"].as_str() {
            shown.push_str(&format!("→ {}\n", text::safe(answer)));
        }
    }
    shown
}

/// Formats the passages that a search found.
pub(super) fn passages(found: &Json) -> String {
    let passage = |it: &Json| {
        let metadata = &it["metadata"];
        let score = metadata["score"].as_f64().map(|score| format!("{score:.4}")).unwrap_or_default();
        let content = text::shortened(&text::one_line(it["content"].as_str().unwrap_or_default()), CHARS_MAX);
        format!(
            "{}  {score}  {} #{}\n    {content}\n",
            metadata["position"],
            word(&it["title"]),
            metadata["segment_position"]
        )
    };
    found.as_array().into_iter().flatten().map(passage).collect()
}

fn rows(list: &Json, row: impl Fn(&Json) -> Vec<String>) -> Vec<Vec<String>> {
    list.as_array().into_iter().flatten().map(row).collect()
}

fn model(embedding: &Json) -> String {
    match (embedding["provider"].as_str(), embedding["model"].as_str()) {
        (Some(provider), Some(model)) => text::one_line(&format!("{provider}:{model}")),
        _ => String::new(),
    }
}

fn time(seconds: &Json) -> String {
    seconds.as_f64().map(text::moment).unwrap_or_default()
}

fn word(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text::one_line(text),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn trimmed(text: &str) -> Vec<&str> {
        text.lines().map(str::trim_end).collect()
    }

    #[test]
    fn documents_are_rows_with_their_status() {
        let one = json!({"documents": [
            {"id": "1", "name": "a.md", "status": "completed", "segments": 3, "updated_at": 0.0,
                "embedding": {"provider": "p", "model": "m"}},
            {"id": "2", "name": "b.md", "status": "indexing", "segments": 0, "indexing": {"done": 64, "total": 99, "error": ""}},
            {"id": "3", "name": "c.md", "status": "error", "segments": 0, "indexing": {"error": "no\nkey"}},
        ]});
        let expected = "\
DOCUMENT  ID  STATUS          SEGMENTS  MODEL  UPDATED                  ERROR
a.md      1   completed       3         p:m    1970-01-01 00:00:00 UTC  -
b.md      2   indexing 64/99  0         -      -                        -
c.md      3   error           0         -      -                        no key
";
        assert_eq!(trimmed(&documents(&one)), trimmed(expected));
    }

    #[test]
    fn passages_show_their_score_and_their_document() {
        let found = json!([{"title": "a.md", "content": "Thirty\ndays.",
            "metadata": {"position": 1, "score": 0.5, "segment_position": 2}}]);
        assert_eq!(passages(&found), "1  0.5000  a.md #2\n    Thirty days.\n");
    }
}
