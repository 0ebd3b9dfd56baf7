//! Dify's `datasets` family of `/v1`, over the knowledge bases of this system: one file per resource. A key of datasets
//! opens all datasets, as on Dify. What has no counterpart is answered in [`absent`].

mod absent;
mod bases;
mod change;
mod documents;
mod documents_shown;
mod metadata;
mod models;
mod payload;
mod queries;
mod reads;
mod retrieval;
mod retrieve;
mod segments;
mod shown;
mod tags;
mod upload;
mod views;

use axum::Router;
use axum::routing::{get, patch, post};
use tidemill_common::wire::knowledge::DatasetRecord;

use crate::api::ApiState;
use crate::api::error::ApiError;

/// The routes, below `/v1`.
pub(in crate::api) fn routes() -> Router<ApiState> {
    Router::new()
        .route("/datasets", post(bases::create).get(bases::list))
        .route("/datasets/tags", get(tags::list).post(tags::create).patch(tags::rename).delete(tags::remove))
        .route("/datasets/tags/binding", post(tags::bind))
        .route("/datasets/tags/unbinding", post(tags::unbind))
        .route("/datasets/{dataset}", get(bases::show).patch(bases::update).delete(bases::remove))
        .route("/datasets/{dataset}/tags", get(tags::of_dataset))
        .route("/datasets/{dataset}/retrieve", post(retrieve::retrieve))
        .route("/datasets/{dataset}/hit-testing", post(retrieve::retrieve))
        .route("/datasets/{dataset}/metadata", post(metadata::create).get(metadata::list))
        .route("/datasets/{dataset}/metadata/built-in", get(metadata::built_in))
        .route("/datasets/{dataset}/metadata/built-in/{action}", post(metadata::switch_built_in))
        .route("/datasets/{dataset}/metadata/{field}", patch(metadata::rename).delete(metadata::remove))
        .merge(document_routes())
        .merge(absent::routes())
        .route("/workspaces/current/models/model-types/{type}", get(models::list))
}

/// The routes of documents and their segments. Old spellings are served, too, as on Dify.
fn document_routes() -> Router<ApiState> {
    const DOCUMENT: &str = "/datasets/{dataset}/documents/{document}";
    Router::new()
        .route("/datasets/{dataset}/document/create-by-text", post(documents::create_by_text))
        .route("/datasets/{dataset}/document/create_by_text", post(documents::create_by_text))
        .route("/datasets/{dataset}/document/create-by-file", post(upload::create_by_file))
        .route("/datasets/{dataset}/document/create_by_file", post(upload::create_by_file))
        .route("/datasets/{dataset}/documents", get(reads::list))
        .route("/datasets/{dataset}/documents/metadata", post(metadata::of_documents))
        .route("/datasets/{dataset}/documents/status/{action}", patch(documents::set_status))
        .route(DOCUMENT, get(reads::show).patch(upload::update_by_file).delete(documents::remove))
        .route(&format!("{DOCUMENT}/update-by-text"), post(documents::update_by_text))
        .route(&format!("{DOCUMENT}/update_by_text"), post(documents::update_by_text))
        .route(&format!("{DOCUMENT}/update-by-file"), post(upload::update_by_file))
        .route(&format!("{DOCUMENT}/update_by_file"), post(upload::update_by_file))
        .route(&format!("{DOCUMENT}/indexing-status"), get(reads::indexing_status))
        .route(&format!("{DOCUMENT}/segments"), post(segments::create).get(segments::list))
        .route(
            &format!("{DOCUMENT}/segments/{{segment}}"),
            get(segments::show).post(segments::update).delete(segments::remove),
        )
}

/// Finds a dataset by its id.
///
/// # Errors
/// 404 with Dify's text.
async fn dataset(state: &ApiState, id: &str) -> Result<DatasetRecord, ApiError> {
    let all = state.store.knowledge().datasets().await?;
    all.into_iter().find(|it| it.id == id).ok_or_else(|| ApiError::not_found("Dataset not found."))
}
