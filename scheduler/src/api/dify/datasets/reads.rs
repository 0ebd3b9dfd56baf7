//! Reads documents: a page of them, one with its details, and the progress of a batch.

use axum::Json as JsonBody;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};

use super::documents_shown::{self, Part};
use super::queries::Parameters;
use super::{dataset, views};
use crate::api::ApiState;
use crate::api::error::ApiError;

/// `GET /v1/datasets/{dataset}/documents`: a page of them, the newest first.
///
/// # Errors
/// 400 for a wrong parameter; 404.
pub(super) async fn list(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    parameters: Parameters,
) -> Result<JsonBody<Json>, ApiError> {
    let page = parameters.page()?;
    let dataset = dataset(&state, &id).await?;
    let mut all = views::all(&state, &dataset).await?;
    if let Some(status) = parameters.first("status").and_then(display_status) {
        all.retain(|view| view.display_status() == status);
    }
    if let Some(keyword) = parameters.first("keyword") {
        all.retain(|view| view.name().contains(keyword));
    }
    all.reverse();
    let total = all.len();
    let hits = state.store.knowledge().hits(&id).await?;
    let documents = page.of(all);
    let data: Vec<Json> =
        documents.iter().map(|view| documents_shown::document(&dataset, view, &hits)).collect();
    let has_more = data.len() as u64 == page.limit;
    Ok(JsonBody(json!({
        "data": data,
        "has_more": has_more,
        "limit": page.limit,
        "total": total,
        "page": page.page,
    })))
}

/// The status that a filter names; others do not filter, as on Dify.
fn display_status(given: &str) -> Option<&'static str> {
    match given.to_lowercase().as_str() {
        "queuing" => Some("queuing"),
        "indexing" => Some("indexing"),
        "paused" => Some("paused"),
        "error" => Some("error"),
        "available" | "enabled" | "active" => Some("available"),
        "disabled" => Some("disabled"),
        "archived" => Some("archived"),
        _ => None,
    }
}

/// `GET …/documents/{document}?metadata=all`: one, with its details.
///
/// # Errors
/// 400 `invalid_metadata`; 404.
pub(super) async fn show(
    State(state): State<ApiState>,
    Path((id, document)): Path<(String, String)>,
    parameters: Parameters,
) -> Result<JsonBody<Json>, ApiError> {
    let dataset = dataset(&state, &id).await?;
    let view = views::one(&state, &dataset, &document, "Document not found.").await?;
    let part = match parameters.first("metadata") {
        None | Some("all") => Part::All,
        Some("only") => Part::OnlyMetadata,
        Some("without") => Part::WithoutMetadata,
        Some(other) => {
            let message = format!("Invalid metadata value: {other}");
            return Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_metadata", message));
        }
    };
    let hits = state.store.knowledge().hits(&id).await?;
    Ok(JsonBody(documents_shown::details(&dataset, &view, &hits, part)))
}

/// `GET …/documents/{batch}/indexing-status`: the progress of the documents of a batch.
///
/// # Errors
/// 404.
pub(super) async fn indexing_status(
    State(state): State<ApiState>,
    Path((id, batch)): Path<(String, String)>,
) -> Result<JsonBody<Json>, ApiError> {
    let dataset = dataset(&state, &id).await?;
    let all = views::all(&state, &dataset).await?;
    let data: Vec<Json> =
        all.iter().filter(|view| view.batch() == batch).map(documents_shown::status).collect();
    match data.is_empty() {
        true => Err(ApiError::not_found("Documents not found.")),
        false => Ok(JsonBody(json!({ "data": data }))),
    }
}
