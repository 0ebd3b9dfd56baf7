//! A dataset in Dify's form.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use tidemill_common::wire::knowledge::{DatasetRecord, TagRecord, UPLOAD};

use super::metadata::all_fields;
use super::{retrieval, views};
use crate::api::ApiState;
use crate::api::error::ApiError;

/// The account of everything: there are no accounts here, and clients expect a UUID.
pub(super) const ACCOUNT: &str = "00000000-0000-0000-0000-000000000000";
/// Dify's word for datasets that only their maker sees.
const ONLY_ME: &str = "only_me";
/// The only form of documents here.
pub(super) const DOC_FORM: &str = "text_model";

/// The place in which a dataset is shown; some fields differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Made,
    Listed,
    Shown,
    Changed,
}

/// Whole seconds of Unix milliseconds.
pub(super) fn seconds(millis: i64) -> i64 {
    millis.div_euclid(1000)
}

/// A dataset with the counts of its documents.
pub(super) async fn dataset(
    state: &ApiState,
    record: &DatasetRecord,
    tags: &[TagRecord],
    place: Place,
) -> Result<Json, ApiError> {
    let all = views::all(state, record).await?;
    let published: Vec<_> = all.iter().filter_map(|view| view.published.as_ref()).collect();
    let words: u64 = published.iter().map(|it| it.word_count).sum();
    let searched = published.iter().filter(|it| it.is_searched()).count();
    let notes = &record.notes;
    let is_undecided = notes.is_undecided && all.is_empty();
    let technique = (!is_undecided).then(|| record.indexing_technique.name());
    let permission = if notes.permission.is_empty() { ONLY_ME } else { &notes.permission };
    let names: HashMap<&str, &TagRecord> = tags.iter().map(|tag| (tag.id.as_str(), tag)).collect();
    let tags = notes.tags.iter().filter_map(|id| names.get(id.as_str()));
    let tags: Vec<Json> =
        tags.map(|tag| json!({"id": tag.id, "name": tag.name, "type": "knowledge"})).collect();
    let fields = all_fields(record, published.iter().copied());
    let updated_at = if notes.updated_at == 0 { record.created_at } else { notes.updated_at };
    let mut shown = json!({
        "id": record.id,
        "name": record.name,
        "description": record.description,
        "provider": "vendor",
        "permission": permission,
        "data_source_type": (!all.is_empty()).then_some(UPLOAD),
        "indexing_technique": technique,
        "app_count": 0,
        "document_count": all.len(),
        "word_count": words,
        "created_by": ACCOUNT,
        "author_name": null,
        "created_at": seconds(record.created_at),
        "updated_by": ACCOUNT,
        "updated_at": seconds(updated_at),
        "embedding_model": record.embedding.as_ref().map(|it| &it.model),
        "embedding_model_provider": record.embedding.as_ref().map(|it| &it.provider),
        "embedding_available": (place != Place::Made && place != Place::Changed).then_some(true),
        "retrieval_model_dict": retrieval::shown(record),
        "summary_index_setting": null,
        "tags": tags,
        "doc_form": (!all.is_empty()).then_some(DOC_FORM),
        "external_knowledge_info": null,
        "external_retrieval_model": null,
        "doc_metadata": fields,
        "built_in_field_enabled": notes.has_built_in,
        "pipeline_id": null,
        "runtime_mode": "general",
        "chunk_structure": null,
        "icon_info": null,
        "is_published": false,
        "total_documents": all.len(),
        "total_available_documents": searched,
        "enable_api": true,
        "is_multimodal": false,
        "maintainer": null,
    });
    let has_members = place == Place::Changed || (place == Place::Shown && permission == "partial_members");
    if has_members {
        shown["partial_member_list"] = json!([]);
    }
    Ok(shown)
}
