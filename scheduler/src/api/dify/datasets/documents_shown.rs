//! A document, and its segments, in Dify's form.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use tidemill_common::knowledge::segment::segment_id;
use tidemill_common::wire::knowledge::{
    DatasetRecord, DocumentRecord, IndexingState, SegmentRecord, SourceFile, UPLOAD,
};

use super::metadata::values_of;
use super::shown::{ACCOUNT, DOC_FORM, seconds};
use super::views::View;

/// Hit counts of segments, by id.
pub(super) type Hits = HashMap<String, u64>;

/// A token is about four bytes of text: the models that count them are not asked.
fn tokens(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}

/// The hits of all segments of a document. Segments that were added one by one have other ids, and are not counted.
fn hits_of(dataset: &DatasetRecord, document: &DocumentRecord, hits: &Hits) -> u64 {
    if hits.is_empty() {
        return 0;
    }
    let of_segment = |at| hits.get(&segment_id(&dataset.id, &document.id, at)).copied().unwrap_or(0);
    (1..=document.segments).map(of_segment).sum()
}

fn source(source: &SourceFile) -> Json {
    json!({
        "id": source.id, "name": source.name, "size": source.size, "extension": source.extension,
        "mime_type": source.mime_type, "created_by": ACCOUNT, "created_at": source.created_at,
    })
}

/// A document, as lists and changes show it.
pub(super) fn document(dataset: &DatasetRecord, view: &View, hits: &Hits) -> Json {
    let (published, notes) = (view.published.as_ref(), view.notes());
    let file = notes.source.as_ref();
    let is_enabled = published.is_none_or(|it| it.enabled);
    json!({
        "id": view.id,
        "position": view.position,
        "data_source_type": published.map_or(UPLOAD, |it| it.data_source_type.as_str()),
        "data_source_info": file.map_or_else(|| json!({}), |it| json!({"upload_file_id": it.id})),
        "data_source_detail_dict": file.map_or_else(|| json!({}), |it| json!({"upload_file": source(it)})),
        "dataset_process_rule_id": null,
        "name": view.name(),
        "created_from": "api",
        "created_by": ACCOUNT,
        "created_at": seconds(view.created_at()),
        "tokens": published.map_or(0, |it| tokens(it.bytes)),
        "indexing_status": view.indexing_status(),
        "error": view.error(),
        "enabled": is_enabled,
        "disabled_at": published.and_then(|it| it.disabled_at).map(seconds),
        "disabled_by": (!is_enabled).then_some(ACCOUNT),
        "archived": published.is_some_and(|it| it.archived),
        "display_status": view.display_status(),
        "word_count": published.map_or(0, |it| it.word_count),
        "hit_count": published.map_or(0, |it| hits_of(dataset, it, hits)),
        "doc_form": DOC_FORM,
        "doc_metadata": values_of(dataset, published),
        "summary_index_status": null,
        "need_summary": false,
    })
}

/// The part of a document's details that a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    All,
    OnlyMetadata,
    WithoutMetadata,
}

/// A document with its details.
pub(super) fn details(dataset: &DatasetRecord, view: &View, hits: &Hits, part: Part) -> Json {
    let published = view.published.as_ref();
    let metadata = values_of(dataset, published);
    if part == Part::OnlyMetadata {
        return json!({"id": view.id, "doc_type": null, "doc_metadata": metadata});
    }
    let notes = view.notes();
    let rule = notes.process_rule.clone().unwrap_or_else(|| json!({"mode": "automatic"}));
    let last_rule = dataset.notes.process_rule.clone().unwrap_or_else(|| json!({"mode": "automatic"}));
    let updated = published.map(|it| seconds(it.updated_at));
    let segments = published.map_or(0, |it| it.segments);
    let words = published.map_or(0, |it| it.word_count);
    let shown = document(dataset, view, hits);
    let mut all = json!({});
    for (key, value) in [
        ("data_source_info", shown["data_source_detail_dict"].clone()),
        ("dataset_process_rule", last_rule),
        ("document_process_rule", rule),
        ("completed_at", json!(updated)),
        ("updated_at", json!(updated)),
        ("indexing_latency", json!(latency(published))),
        ("doc_type", Json::Null),
        ("doc_metadata", json!(metadata)),
        ("segment_count", json!(segments)),
        ("average_segment_length", json!(words.checked_div(segments).unwrap_or(0))),
        ("doc_language", json!(if notes.language.is_empty() { "English" } else { &notes.language })),
    ] {
        all[key] = value;
    }
    let mut ordered = json!({});
    let left_out = |key: &str| part == Part::WithoutMetadata && matches!(key, "doc_type" | "doc_metadata");
    for key in DETAILS.into_iter().filter(|key| !left_out(key)) {
        ordered[key] = all.get(key).or_else(|| shown.get(key)).cloned().unwrap_or_default();
    }
    ordered
}

/// The fields of a document's details, in Dify's order.
const DETAILS: [&str; 31] = [
    "id",
    "position",
    "data_source_type",
    "data_source_info",
    "dataset_process_rule_id",
    "dataset_process_rule",
    "document_process_rule",
    "name",
    "created_from",
    "created_by",
    "created_at",
    "tokens",
    "indexing_status",
    "completed_at",
    "updated_at",
    "indexing_latency",
    "error",
    "enabled",
    "disabled_at",
    "disabled_by",
    "archived",
    "doc_type",
    "doc_metadata",
    "segment_count",
    "average_segment_length",
    "hit_count",
    "display_status",
    "doc_form",
    "doc_language",
    "summary_index_status",
    "need_summary",
];

/// Seconds from the first version to this one, as far as they say how long indexing took.
fn latency(published: Option<&DocumentRecord>) -> Option<f64> {
    published.map(|it| (it.updated_at - it.created_at) as f64 / 1000.0)
}

/// The progress of a document.
pub(super) fn status(view: &View) -> Json {
    let published = view.published.as_ref();
    let done = published.map(|it| seconds(it.updated_at));
    let Some(newer) = view.newer() else {
        let segments = published.map_or(0, |it| it.segments);
        return progress(view, done, (done, segments, segments));
    };
    let is_begun = newer.state != IndexingState::Waiting;
    progress(view, is_begun.then(|| seconds(newer.at)), (None, newer.done, newer.total))
}

fn progress(view: &View, begun: Option<i64>, (done, completed, total): (Option<i64>, u64, u64)) -> Json {
    json!({
        "id": view.id,
        "indexing_status": view.indexing_status(),
        "processing_started_at": begun,
        "parsing_completed_at": begun,
        "cleaning_completed_at": begun,
        "splitting_completed_at": begun,
        "completed_at": done,
        "paused_at": null,
        "error": view.error(),
        "stopped_at": null,
        "completed_segments": completed,
        "total_segments": total,
    })
}

/// A segment.
pub(super) fn segment(document: &DocumentRecord, segment: &SegmentRecord, hits: &Hits) -> Json {
    let at = seconds(document.updated_at);
    let bytes = segment.content.len() + segment.answer.as_ref().map_or(0, String::len);
    json!({
        "id": segment.id,
        "position": segment.position,
        "document_id": document.id,
        "content": segment.content,
        "sign_content": segment.content,
        "answer": segment.answer,
        "word_count": segment.word_count,
        "tokens": tokens(bytes as u64),
        "keywords": [],
        "index_node_id": segment.index_node_id,
        "index_node_hash": segment.index_node_hash,
        "hit_count": hits.get(&segment.id).copied().unwrap_or(0),
        "enabled": segment.enabled,
        "disabled_at": (!segment.enabled).then_some(at),
        "disabled_by": (!segment.enabled).then_some(ACCOUNT),
        "status": "completed",
        "created_by": ACCOUNT,
        "created_at": at,
        "updated_at": at,
        "updated_by": ACCOUNT,
        "indexing_at": at,
        "completed_at": at,
        "error": null,
        "stopped_at": null,
        "child_chunks": [],
        "attachments": [],
        "summary": null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::wire::knowledge::IndexingRecord;

    fn view() -> View {
        let record =
            DocumentRecord { id: "d".into(), name: "n".into(), segments: 2, ..DocumentRecord::default() };
        View { id: "d".into(), position: 1, published: Some(record), indexing: None }
    }

    #[test]
    fn details_have_the_part_that_is_wanted_in_difys_order() {
        let dataset = DatasetRecord::default();
        let keys = |part| {
            let shown = details(&dataset, &view(), &Hits::new(), part);
            shown.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(keys(Part::All), DETAILS);
        assert_eq!(keys(Part::OnlyMetadata), ["id", "doc_type", "doc_metadata"]);
        let without = keys(Part::WithoutMetadata);
        assert_eq!(without.len(), DETAILS.len() - 2);
        assert!(!without.iter().any(|key| key.starts_with("doc_type") || key.starts_with("doc_metadata")));
    }

    #[test]
    fn the_progress_is_that_of_the_newest_version() {
        let mut view = view();
        assert_eq!(
            (&status(&view)["completed_segments"], &status(&view)["total_segments"]),
            (&json!(2), &json!(2))
        );
        let state = IndexingState::Indexing;
        view.indexing =
            Some(IndexingRecord { state, done: 1, total: 3, at: 5000, ..IndexingRecord::default() });
        let shown = status(&view);
        assert_eq!((&shown["completed_segments"], &shown["total_segments"]), (&json!(1), &json!(3)));
        assert_eq!((&shown["processing_started_at"], &shown["completed_at"]), (&json!(5), &Json::Null));
    }

    #[test]
    fn hits_of_a_document_are_those_of_its_segments() {
        let dataset = DatasetRecord { id: "k".into(), ..DatasetRecord::default() };
        let hits = Hits::from([(segment_id("k", "d", 2), 3), ("other".into(), 5)]);
        assert_eq!(document(&dataset, &view(), &hits)["hit_count"], 3);
    }
}
