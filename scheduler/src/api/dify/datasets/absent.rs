//! Operations of Dify's `datasets` family that have no counterpart here: 501 `not_implemented`, with what to use instead.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, patch, post};

use crate::api::ApiState;
use crate::api::error::ApiError;

const CHILD_CHUNKS: &str = "Child chunks are not supported: knowledge bases here have no parent and child chunks; use \
    chunks (/segments) alone.";
const ORIGINALS: &str = "Downloads are not supported: only the text of an uploaded document is kept, not its file; read \
    its chunks (/segments), or keep the file where it comes from.";
const PIPELINES: &str = "Knowledge pipelines are not supported in datasets: publish the pipeline as an app whose workflow \
    ends in a knowledge-index node, and run it with POST /v1/workflows/run.";

/// The routes of these operations.
pub(super) fn routes() -> Router<ApiState> {
    const CHILDREN: &str = "/datasets/{dataset}/documents/{document}/segments/{segment}/child_chunks";
    let child_chunks = async || absent(CHILD_CHUNKS);
    let originals = async || absent(ORIGINALS);
    let pipelines = async || absent(PIPELINES);
    Router::new()
        .route(CHILDREN, post(child_chunks).get(child_chunks))
        .route(&format!("{CHILDREN}/{{child}}"), patch(child_chunks).delete(child_chunks))
        .route("/datasets/{dataset}/documents/{document}/download", get(originals))
        .route("/datasets/{dataset}/documents/download-zip", post(originals))
        .route("/datasets/pipeline/file-upload", post(pipelines))
        .route("/datasets/{dataset}/pipeline/datasource-plugins", get(pipelines))
        .route("/datasets/{dataset}/pipeline/datasource/nodes/{node}/run", post(pipelines))
        .route("/datasets/{dataset}/pipeline/run", post(pipelines))
}

/// 501 `not_implemented`.
pub(super) fn absent(message: &str) -> ApiError {
    ApiError::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", message)
}
