//! `POST /api/v1/files`: takes a file for runs that begin later. The body is the file; its name and its user are parameters.

use axum::Json as JsonBody;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use serde_json::{Value as Json, json};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::native::apps;
use crate::api::request::Params;
use crate::api::uploads::{self, Sent};

/// Stores a file, and answers with its id. 201.
///
/// # Errors
/// 400 without `name`, 404 for an unknown app, 409 for one that is being removed, 413 for a file that is too large, 503 when the storage does not answer.
pub async fn upload(
    State(state): State<ApiState>,
    params: Params,
    headers: HeaderMap,
    request: Request,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let name = params.get("name").filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| ApiError::invalid_param("name is required: the file's name"))?;
    let app = match params.get("app") {
        Some(id) => Some(apps::find_kept(&state, id).await?.id.clone()),
        None => None,
    };
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let sent = Sent { name, media_type, app, user: params.get("user").unwrap_or_default() };
    let upload = uploads::receive(&state, sent, request.into_body()).await?;
    let answer = json!({
        "id": upload.id.to_string(),
        "name": upload.name,
        "size": upload.size,
        "extension": upload.extension.trim_start_matches('.'),
        "mime_type": upload.mime_type,
        "created_at": upload.created_at,
    });
    Ok((StatusCode::CREATED, JsonBody(answer)))
}
