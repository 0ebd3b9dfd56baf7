//! Segments (Dify: chunks) of a document. A change of segments is a new version of the document, which a run publishes as
//! a whole; a model is asked only for new texts. The request waits for that, as on Dify.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::store::Generation;
use tidemill_common::wire::knowledge::{DatasetRecord, DocumentRecord, SegmentRecord};
use uuid::Uuid;

use super::documents_shown;
use super::payload::Payload;
use super::queries::Parameters;
use super::shown::DOC_FORM;
use super::views::{self, View};
use super::{dataset, retrieve};
use crate::api::ApiState;
use crate::api::auth::CallingKey;
use crate::api::error::ApiError;
use crate::api::indexing::{self, Content, Order};
use crate::api::request::Body;
use crate::submit::inner::InnerError;

const NO_DOCUMENT: &str = "Document not found.";
const NO_SEGMENT: &str = "Segment not found.";
const LAST: &str = "This is the only chunk of the document: delete the document instead.";
/// The most tries when other requests change the same document.
const TRIES_MAX: usize = 3;

/// A searchable document, and its dataset.
struct Found {
    dataset: DatasetRecord,
    document: DocumentRecord,
}

impl Found {
    fn of(dataset: DatasetRecord, view: View) -> Option<Self> {
        view.published.map(|document| Self { dataset, document })
    }

    /// All segments, in their order.
    async fn segments(&self, state: &ApiState) -> Result<Vec<SegmentRecord>, ApiError> {
        let positions: Vec<u64> = (1..=self.document.segments).collect();
        let of = Generation { dataset: &self.dataset.id, name: &self.document.generation };
        Ok(state.store.knowledge().segments(of, &positions).await?)
    }

    /// Segments in Dify's form.
    async fn shown(&self, state: &ApiState, segments: &[SegmentRecord]) -> Result<Vec<Json>, ApiError> {
        let hits = state.store.knowledge().hits(&self.dataset.id).await?;
        let shown = |segment| documents_shown::segment(&self.document, segment, &hits);
        Ok(segments.iter().map(shown).collect())
    }
}

/// A document that searches find, or may find when it is enabled.
async fn find(state: &ApiState, dataset_id: &str, document: &str) -> Result<Found, ApiError> {
    let dataset = dataset(state, dataset_id).await?;
    let view = views::one(state, &dataset, document, NO_DOCUMENT).await?;
    Found::of(dataset, view).ok_or_else(|| ApiError::not_found("Document is not completed."))
}

/// The input of a run for a segment that stays as it is.
fn kept(segment: &SegmentRecord) -> Json {
    json!({
        "content": segment.content, "answer": segment.answer, "id": segment.id, "enabled": segment.enabled,
    })
}

/// Changes the segments of a document: `change` gets the inputs of its segments and changes them. Returns the document
/// as it is then.
async fn change(
    state: &ApiState,
    (dataset_id, document_id): (&str, &str),
    key: &str,
    change: impl Fn(&[SegmentRecord], &mut Vec<Json>) -> Result<(), ApiError>,
) -> Result<Found, ApiError> {
    let seconds = state.config.knowledge.request_seconds_max;
    let wait = (Duration::from_secs(seconds), "knowledge.request_seconds_max");
    let mut tries = 1;
    loop {
        settled(state, dataset_id, document_id, wait).await?;
        let found = find(state, dataset_id, document_id).await?;
        let segments = found.segments(state).await?;
        let mut inputs: Vec<Json> = segments.iter().map(kept).collect();
        change(&segments, &mut inputs)?;
        let Found { dataset, document: before } = found;
        let order = Order {
            name: before.name.clone(),
            data_source_type: before.data_source_type.clone(),
            doc_metadata: None,
            notes: before.notes.clone(),
            based_on: Some(before.generation.clone()),
            key: Some(key.to_owned()),
            ..Order::of(before.id.clone(), Content::Segments(inputs))
        };
        let run = indexing::order(state, &dataset, order).await?;
        match state.submitter.inner_wait(run, "a change of segments", wait).await {
            Ok(_) => return find(state, dataset_id, document_id).await,
            // Another request may have changed the document meanwhile, or do so now.
            Err(InnerError::Failed { .. })
                if tries < TRIES_MAX && is_overtaken(state, &dataset, &before, run).await? =>
            {
                tries += 1;
            }
            Err(error) => return Err(retrieve::refused(error)),
        }
    }
}

/// Waits for the end of a run that indexes the document now: a change of what it is about to publish would be lost.
async fn settled(
    state: &ApiState,
    dataset_id: &str,
    document_id: &str,
    wait: (Duration, &'static str),
) -> Result<(), ApiError> {
    let all = state.store.knowledge().indexing(dataset_id).await?;
    let record = all.into_iter().find(|(id, _)| id == document_id).map(|(_, record)| record);
    let Some(run) = record.and_then(|record| record.run.parse().ok()) else { return Ok(()) };
    match state.submitter.inner_wait(run, "the document's last change", wait).await {
        // Its failure is no concern of this request, and a run that is gone changes nothing more.
        Ok(_) | Err(InnerError::Failed { .. } | InnerError::Gone) => Ok(()),
        Err(error) => Err(retrieve::refused(error)),
    }
}

/// Returns true when another run has published the document, or is the newest one for it.
async fn is_overtaken(
    state: &ApiState,
    dataset: &DatasetRecord,
    before: &DocumentRecord,
    run: RunId,
) -> Result<bool, ApiError> {
    let knowledge = state.store.knowledge();
    let newest = knowledge.indexing(&dataset.id).await?.into_iter().find(|(id, _)| *id == before.id);
    if newest.is_some_and(|(_, record)| record.run != run.to_string()) {
        return Ok(true);
    }
    let known = knowledge.documents(&dataset.id).await?.documents;
    Ok(known.iter().any(|it| it.id == before.id && it.generation != before.generation))
}

/// `POST …/segments`: adds segments at the end of a document.
///
/// # Errors
/// 400 for a wrong segment; 404, also for a document that is disabled or not completed.
pub(super) async fn create(
    State(state): State<ApiState>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    Path((id, document)): Path<(String, String)>,
    body: Body,
) -> Result<Response, ApiError> {
    let of_dataset = dataset(&state, &id).await?;
    let view = views::one(&state, &of_dataset, &document, NO_DOCUMENT).await?;
    if view.indexing_status() != "completed" {
        return Err(ApiError::not_found("Document is not completed."));
    }
    if view.published.as_ref().is_some_and(|it| !it.enabled) {
        return Err(ApiError::not_found("Document is disabled."));
    }
    let payload = Payload::read("SegmentCreatePayload", &body)?;
    let Some(given) = payload.list("segments")? else {
        let answer = (StatusCode::BAD_REQUEST, JsonBody(json!({"error": "Segments is required"})));
        return Ok(answer.into_response());
    };
    let new: Vec<Json> = given.iter().map(new_segment).collect::<Result<_, ApiError>>()?;
    let ids: Vec<String> = new.iter().filter_map(|it| it["id"].as_str().map(str::to_owned)).collect();
    let found = match new.is_empty() {
        true => find(&state, &id, &document).await?,
        false => {
            let add = |_: &[SegmentRecord], inputs: &mut Vec<Json>| {
                inputs.extend(new.iter().cloned());
                Ok(())
            };
            change(&state, (&id, &document), &key, add).await?
        }
    };
    let mut segments = found.segments(&state).await?;
    segments.retain(|it| ids.contains(&it.id));
    let data = found.shown(&state, &segments).await?;
    Ok(JsonBody(json!({"data": data, "doc_form": DOC_FORM})).into_response())
}

/// The input of a run for a new segment.
fn new_segment(given: &Json) -> Result<Json, ApiError> {
    let content = given["content"].as_str().filter(|text| !text.trim().is_empty());
    let content = content.ok_or_else(|| ApiError::invalid_param("Content is empty"))?;
    let answer = given["answer"].as_str().filter(|text| !text.is_empty());
    Ok(json!({"content": content, "answer": answer, "id": Uuid::new_v4().to_string(), "enabled": true}))
}

/// `GET …/segments`: a page of them.
///
/// # Errors
/// 400 for a wrong parameter; 404.
pub(super) async fn list(
    State(state): State<ApiState>,
    Path((id, document)): Path<(String, String)>,
    parameters: Parameters,
) -> Result<JsonBody<Json>, ApiError> {
    let page = parameters.page()?;
    let dataset = dataset(&state, &id).await?;
    let view = views::one(&state, &dataset, &document, NO_DOCUMENT).await?;
    let wanted: Vec<&str> = parameters.all("status").filter(|status| !status.is_empty()).collect();
    let keyword = parameters.first("keyword").map(str::to_lowercase);
    let (mut data, mut total) = (Vec::new(), 0);
    if let Some(found) = Found::of(dataset, view) {
        let mut segments = found.segments(&state).await?;
        segments.retain(|segment| {
            let has = |word: &String| segment.content.to_lowercase().contains(word.as_str());
            (wanted.is_empty() || wanted.contains(&"completed")) && keyword.as_ref().is_none_or(has)
        });
        total = segments.len();
        data = found.shown(&state, &page.of(segments)).await?;
    }
    let has_more = data.len() as u64 == page.limit;
    Ok(JsonBody(json!({
        "data": data,
        "doc_form": DOC_FORM,
        "total": total,
        "has_more": has_more,
        "limit": page.limit,
        "page": page.page,
    })))
}

/// One segment, in the answer of a request.
async fn one(state: &ApiState, found: &Found, id: &str) -> Result<JsonBody<Json>, ApiError> {
    let segments = found.segments(state).await?;
    let segment = segments.into_iter().find(|it| it.id == id);
    let segment = segment.ok_or_else(|| ApiError::not_found(NO_SEGMENT))?;
    let data = found.shown(state, &[segment]).await?.pop();
    Ok(JsonBody(json!({"data": data, "doc_form": DOC_FORM})))
}

/// `GET …/segments/{segment}`.
///
/// # Errors
/// 404.
pub(super) async fn show(
    State(state): State<ApiState>,
    Path((id, document, segment)): Path<(String, String, String)>,
) -> Result<JsonBody<Json>, ApiError> {
    let found = find(&state, &id, &document).await?;
    one(&state, &found, &segment).await
}

/// `POST …/segments/{segment}`: changes the text of a segment, or switches it on or off.
///
/// # Errors
/// 400 for a wrong field or a disabled segment; 404.
pub(super) async fn update(
    State(state): State<ApiState>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    Path((id, document, segment)): Path<(String, String, String)>,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    find(&state, &id, &document).await?;
    let payload = Payload::read("SegmentUpdatePayload", &body)?;
    let given = payload.object("segment")?.ok_or_else(|| payload.wrong("segment", "Field required"))?;
    let given = Payload::of("SegmentUpdateArgs", given.clone());
    let (content, answer) = (given.text("content")?, given.text("answer")?);
    let enabled = given.truth("enabled")?;
    if content.is_some_and(|text| text.trim().is_empty()) {
        return Err(ApiError::invalid_param("Content is empty"));
    }
    let change_one = |segments: &[SegmentRecord], inputs: &mut Vec<Json>| {
        let at = place(segments, &segment)?;
        if enabled == Some(false) {
            // Nothing else is changed then, as on Dify.
            inputs[at]["enabled"] = false.into();
            return Ok(());
        }
        if !segments[at].enabled && enabled.is_none() {
            return Err(ApiError::invalid_param("Can't update disabled segment!"));
        }
        inputs[at]["enabled"] = true.into();
        for (key, text) in [("content", content), ("answer", answer)] {
            if let Some(text) = text {
                inputs[at][key] = text.into();
            }
        }
        Ok(())
    };
    let found = change(&state, (&id, &document), &key, change_one).await?;
    one(&state, &found, &segment).await
}

/// `DELETE …/segments/{segment}`. 204.
///
/// # Errors
/// 400 for the last segment of a document; 404.
pub(super) async fn remove(
    State(state): State<ApiState>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    Path((id, document, segment)): Path<(String, String, String)>,
) -> Result<StatusCode, ApiError> {
    let remove_one = |segments: &[SegmentRecord], inputs: &mut Vec<Json>| {
        let at = place(segments, &segment)?;
        if segments.len() == 1 {
            return Err(ApiError::invalid_param(LAST));
        }
        inputs.remove(at);
        Ok(())
    };
    change(&state, (&id, &document), &key, remove_one).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn place(segments: &[SegmentRecord], id: &str) -> Result<usize, ApiError> {
    segments.iter().position(|it| it.id == id).ok_or_else(|| ApiError::not_found(NO_SEGMENT))
}
