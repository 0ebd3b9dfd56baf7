//! `POST /v1/files/upload` and `GET /v1/files/{id}/preview`: a user's file, for messages and runs of the app that the key
//! belongs to.
//!
//! The form is read as it comes: the file goes to its storage piece by piece, also where its `user` comes later.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use axum::{Extension, Json as JsonBody};
use futures_util::{StreamExt, TryStreamExt};
use multer::{Constraints, Field, Multipart, SizeLimit};
use serde_json::{Value as Json, json};
use tidemill_common::files::{FilesError, Place, Upload, UploadId};
use tidemill_common::limits::UPLOAD_FORM_BYTES_MAX;
use tidemill_common::store::App;
use uuid::Uuid;

use super::{DEFAULT_USER, given, links};
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::api::request::{IdInPath, Params};
use crate::api::served_file::{Served, answer};
use crate::api::upload_limits::{checked_name, extension_of, largest, limit_of};
use crate::api::uploads::{self, Held, Payer, Sent};
use crate::runs::ids::{end_user_uuid, tenant_uuid};

/// The file of a form, whose bytes are stored.
struct FormFile {
    held: Held,
    name: String,
    media_type: String,
}

/// The parts of a form that count.
#[derive(Default)]
struct Form {
    file: Option<FormFile>,
    user: String,
    /// The form has files under other names.
    has_others: bool,
}

/// Stores the file of a form, and answers with its id. 201.
///
/// # Errors
/// 400 `no_file_uploaded`, `too_many_files`, `filename_not_exists_error` or `invalid_param`, 413 `file_too_large`, 415
/// `unsupported_file_type` for a file without a type, 403 `upload_quota_exceeded`, 503 when the storage does not answer.
pub async fn upload(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    request: Request,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let (head, mut body) = request.into_parts();
    let form = Box::pin(read(&state, &head.headers, &mut body)).await?;
    let upload = Box::pin(keep(&state, &app, form)).await?;
    let url = links(&state).await?.of_upload(upload.id);
    let tenant = tenant_uuid(&state.config.redis.namespace);
    Ok((StatusCode::CREATED, JsonBody(to_json(&upload, &url, tenant))))
}

async fn read(state: &ApiState, headers: &HeaderMap, body: &mut Body) -> Result<Form, ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(kind).map_err(|_| no_file())?;
    let whole = largest(&state.config).saturating_add(UPLOAD_FORM_BYTES_MAX);
    let sizes = SizeLimit::new().whole_stream(whole).for_field("user", UPLOAD_FORM_BYTES_MAX);
    let constraints = Constraints::new().size_limit(sizes);
    let mut parts = Multipart::with_constraints(uploads::pieces(body), boundary, constraints);
    let mut form = Form::default();
    while let Some(field) = parts.next_field().await.map_err(broken)? {
        let is_file = field.name() == Some("file");
        match field.file_name().map(str::to_owned) {
            // Of two files under one name Dify takes the first.
            Some(name) if is_file && form.file.is_none() => {
                form.file = Some(file(state, &name, field).await?);
            }
            Some(_) => form.has_others |= !is_file,
            None if field.name() == Some("user") => form.user = field.text().await.map_err(broken)?,
            None => {}
        }
    }
    Ok(form)
}

/// Checks what is known of the file before it comes, and stores its bytes.
async fn file(state: &ApiState, name: &str, field: Field<'_>) -> Result<FormFile, ApiError> {
    let Some(media_type) = field.content_type().map(|kind| kind.essence_str().to_owned()) else {
        let message = "File type not allowed.";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_file_type", message));
    };
    let name = checked_name(&state.config, name)?;
    let limit = limit_of(&state.config, &name);
    let held = uploads::store(state, field.map_err(Into::into).boxed(), limit).await?;
    Ok(FormFile { held, name, media_type })
}

/// Makes the stored bytes an upload of this app and the form's user.
async fn keep(state: &ApiState, app: &App, form: Form) -> Result<Upload, ApiError> {
    let FormFile { held, name, media_type } = form.file.ok_or_else(no_file)?;
    if form.has_others {
        let message = "Only one file is allowed.";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "too_many_files", message));
    }
    let user = if form.user.is_empty() { DEFAULT_USER } else { &form.user };
    let sent = Sent { name: &name, media_type: Some(&media_type), app: Some(app.id.clone()), user };
    uploads::check(&sent)?;
    // The name and the type are those of the form, as on Dify.
    let upload = Upload { name: name.clone(), mime_type: media_type.clone(), ..uploads::record(&held, sent) };
    let payer = Payer::of(&upload);
    uploads::keep(state, held, upload, payer).await
}

fn to_json(upload: &Upload, url: &str, tenant: Uuid) -> Json {
    json!({
        "id": upload.id.to_string(),
        "reference": null,
        "name": upload.name,
        "size": upload.size,
        "extension": extension_of(&upload.name),
        "mime_type": upload.mime_type,
        "created_by": end_user_uuid(upload.app.as_deref().unwrap_or_default(), &upload.user).to_string(),
        "created_at": upload.created_at,
        "preview_url": null,
        "source_url": url,
        "original_url": null,
        "user_id": null,
        "tenant_id": tenant.to_string(),
        "conversation_id": null,
        "file_key": null,
    })
}

fn no_file() -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "no_file_uploaded", "Please upload your file.")
}

/// The error for a form that cannot be read to its end.
fn broken(error: multer::Error) -> ApiError {
    match error {
        multer::Error::FieldSizeExceeded { .. } | multer::Error::StreamSizeExceeded { .. } => {
            let message =
                format!("the form is larger than its largest file and {UPLOAD_FORM_BYTES_MAX} bytes");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "file_too_large", message)
        }
        _ => ApiError::bad_request("the form cannot be read to its end"),
    }
}

/// Gives the bytes of an upload of this app.
///
/// # Errors
/// 404 `file_not_found`, 403 `file_access_denied` for a file of another app, or of another user than the request names.
pub async fn preview(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    id: IdInPath,
    params: Params,
) -> Result<Response, ApiError> {
    let id: UploadId = id.0.parse().map_err(|_| not_found())?;
    let place = state.submitter.uploads.open().map_err(uploads::unreadable)?;
    let missing = |error: FilesError| match error {
        FilesError::Missing(_) => not_found(),
        other => uploads::unreadable(other),
    };
    let upload = place.find(id).await.map_err(missing)?;
    let is_users = given(&params, "user").is_none_or(|user| user == upload.user);
    if upload.app.as_ref() != Some(&app.id) || !is_users {
        let message = "Access to the requested file is denied.";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "file_access_denied", message));
    }
    let content = place.content(Place::Upload(id)).await.map_err(missing)?;
    let as_attachment = params.lenient("as_attachment");
    Ok(answer(content, Served { name: &upload.name, mime_type: &upload.mime_type, as_attachment }))
}

fn not_found() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "file_not_found", "The requested file was not found.")
}
