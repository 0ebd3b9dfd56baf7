//! `/v1/apps/annotations`: questions of an app with prepared answers. [`reply`] switches their use on and off.

pub mod reply;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::annotations::{AnnotationRecord, ReplySetting, contains, key_of};
use tidemill_common::store::{Annotation, AnnotationAdded, App, Page};
use tidemill_common::value::JsonMap;
use uuid::Uuid;

use super::{PAGE, PAGE_MAX, given};
use crate::api::ApiState;
use crate::api::auth::{CallingApp, CallingKey};
use crate::api::error::ApiError;
use crate::api::request::{Body, IdInPath, Params, take_text};

/// Annotations that a search for a keyword reads at once.
const SEARCHED_AT_ONCE: usize = 256;

/// `GET /v1/apps/annotations`: a page of the annotations, newest first; with `keyword` only those that contain it. As on
/// Dify a page has at most 100 items, and the answer says so if `limit` is larger.
///
/// # Errors
/// 400 for a page or a limit that is not a number from 1 on.
pub async fn list(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    params: Params,
) -> Result<JsonBody<Json>, ApiError> {
    let (page, limit) = (number(&params, "page", 1)?, number(&params, "limit", PAGE)?.min(PAGE_MAX));
    let wanted = wanted(page, limit);
    let store = state.store.annotations();
    let (total, found) = match given(&params, "keyword") {
        None => (store.annotation_count(&app.id).await?, store.annotation_page(&app.id, wanted).await?),
        Some(keyword) => search(&state, &app, keyword, wanted).await?,
    };
    let data: Vec<Json> = found.iter().map(to_json).collect();
    let has_more = data.len() == limit;
    Ok(JsonBody(json!({"data": data, "has_more": has_more, "limit": limit, "total": total, "page": page})))
}

/// `POST /v1/apps/annotations`: adds an annotation.
///
/// # Errors
/// 400 without a question or an answer, for an annotation that is too large, and when the app has as many as it may have.
pub async fn add(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let now = state.store.time().await?.millis();
    let record = record(&state, body.dify_object()?, now)?;
    let id = Uuid::new_v4().to_string();
    let max = state.config.features.annotations_max;
    match state.store.annotations().add_annotation(&app.id, &id, &record, max).await? {
        AnnotationAdded::Added => {}
        AnnotationAdded::Full => {
            let message =
                format!("the app has {max} annotations, the most it may have (features.annotations_max)");
            return Err(ApiError::invalid_param(message));
        }
    }
    index(&state, &app, (&id, &record), key).await?;
    let annotation = Annotation { id, record, hit_count: 0 };
    Ok((StatusCode::CREATED, JsonBody(to_json(&annotation))))
}

/// `PUT /v1/apps/annotations/{id}`: replaces question and answer.
///
/// # Errors
/// 404 for an unknown annotation; else as [`add`].
pub async fn change(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    id: IdInPath,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let id = annotation_id(&id)?;
    let updated_at = state.store.time().await?.millis();
    let record = record(&state, body.dify_object()?, updated_at)?;
    let store = state.store.annotations();
    let known = store.annotation(&app.id, &id).await?.ok_or_else(unknown)?;
    let record = AnnotationRecord { created_at: known.record.created_at, ..record };
    let changed = store.change_annotation(&app.id, &id, &record).await?.ok_or_else(unknown)?;
    if changed.record.key != known.record.key {
        index(&state, &app, (&id, &record), key).await?;
    }
    Ok(JsonBody(to_json(&changed)))
}

/// `DELETE /v1/apps/annotations/{id}`: removes an annotation with its hits.
///
/// # Errors
/// 404 for an unknown annotation.
pub async fn remove(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    id: IdInPath,
) -> Result<StatusCode, ApiError> {
    let id = annotation_id(&id)?;
    if !state.store.annotations().drop_annotation(&app.id, &id).await? {
        return Err(unknown());
    }
    state.submitter.forget_annotation(&app.id, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The annotation reply in force for an app; `None` when it is off.
///
/// # Errors
/// The stored workflow cannot be read.
pub(super) fn in_force(state: &ApiState, app: &App) -> Result<Option<ReplySetting>, ApiError> {
    let workflow = state.workflows.of_document(&app.version, &app.document)?;
    Ok(ReplySetting::in_force(app.annotation_reply.as_deref(), &workflow.graph.features))
}

/// Adds a question to the index, if the app's annotation reply has one. Without it the annotation still matches exactly.
async fn index(
    state: &ApiState,
    app: &App,
    (id, record): (&str, &AnnotationRecord),
    key: String,
) -> Result<(), ApiError> {
    let Some(embedding) = in_force(state, app)?.and_then(|setting| setting.embedding) else { return Ok(()) };
    let indexed =
        state.submitter.index_annotation(&app.id, (id, &record.question), &embedding, Some(key)).await;
    if let Err(error) = indexed {
        tracing::warn!(app = app.id, annotation = id, %error, "the question of an annotation cannot be indexed");
    }
    Ok(())
}

/// Reads question and answer.
fn record(state: &ApiState, mut body: JsonMap, at: i64) -> Result<AnnotationRecord, ApiError> {
    let mut text = |key: &str| {
        take_text(&mut body, key)?.ok_or_else(|| ApiError::invalid_param(format!("{key} is required")))
    };
    let (question, answer) = (text("question")?, text("answer")?);
    let max = state.config.features.annotation_bytes_max;
    if question.len() + answer.len() > max {
        let message =
            format!("question and answer have more than {max} bytes (features.annotation_bytes_max)");
        return Err(ApiError::invalid_param(message));
    }
    Ok(AnnotationRecord { key: key_of(&question), question, answer, created_at: at, updated_at: at })
}

async fn search(
    state: &ApiState,
    app: &App,
    keyword: &str,
    wanted: Page,
) -> Result<(u64, Vec<Annotation>), ApiError> {
    let (mut total, mut found) = (0, Vec::new());
    let mut page = Page { from: 0, count: SEARCHED_AT_ONCE };
    loop {
        let some = state.store.annotations().annotation_page(&app.id, page).await?;
        if some.is_empty() {
            return Ok((total as u64, found));
        }
        for annotation in some.into_iter().filter(|it| contains(&it.record, keyword)) {
            if total >= wanted.from && found.len() < wanted.count {
                found.push(annotation);
            }
            total += 1;
        }
        page.from += SEARCHED_AT_ONCE;
    }
}

/// A number from 1 on in the query.
fn number(params: &Params, name: &str, default: usize) -> Result<usize, ApiError> {
    match given(params, name).map(str::parse::<usize>) {
        None => Ok(default),
        Some(Ok(number)) if number > 0 => Ok(number),
        Some(_) => Err(ApiError::invalid_param(format!("{name} must be a number from 1 on"))),
    }
}

/// The items of a page, the first page being 1.
fn wanted(page: usize, limit: usize) -> Page {
    let count = limit.min(PAGE_MAX);
    Page { from: (page - 1).saturating_mul(count), count }
}

fn annotation_id(id: &IdInPath) -> Result<String, ApiError> {
    Uuid::try_parse(&id.0).map(|id| id.to_string()).map_err(|_| unknown())
}

fn unknown() -> ApiError {
    ApiError::not_found("Annotation not found")
}

fn to_json(annotation: &Annotation) -> Json {
    json!({
        "id": annotation.id,
        "question": annotation.record.question,
        "answer": annotation.record.answer,
        "hit_count": annotation.hit_count,
        "created_at": annotation.record.created_at / 1000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_at_most_a_hundred_items() {
        for (page, limit, from, count) in
            [(1, 20, 0, 20), (3, 20, 40, 20), (2, 500, 100, 100), (usize::MAX, 100, usize::MAX, 100)]
        {
            assert_eq!(wanted(page, limit), Page { from, count }, "{page} {limit}");
        }
    }
}
