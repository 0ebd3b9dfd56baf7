//! Documents from files. The parts of a form are read as they come; the file goes to the storage of uploads, and a worker
//! reads its text there. The file becomes an upload when the whole request is found good; until then it leaves nothing.

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::{Extension, Json as JsonBody};
use futures_util::{StreamExt, TryStreamExt};
use multer::{Constraints, Multipart, SizeLimit};
use serde_json::Value as Json;
use tidemill_common::limits::UPLOAD_FORM_BYTES_MAX;
use tidemill_common::wire::knowledge::{DatasetRecord, DocumentNotes, SourceFile};
use uuid::Uuid;

use super::dataset;
use super::documents::{answer, replaceable, settings};
use super::payload::Payload;
use crate::api::ApiState;
use crate::api::auth::CallingKey;
use crate::api::error::ApiError;
use crate::api::indexing::{self, Content, Order};
use crate::api::native::knowledge::check_name;
use crate::api::request;
use crate::api::upload_limits::{checked_name, largest, limit_of};
use crate::api::uploads::{self, Held, Payer, Sent};

/// The user of all uploads of datasets; with no app, only built-in runs use them.
const USER: &str = "datasets";

/// The parts of a form.
struct Form {
    /// The settings, `{}` when there are none.
    settings: Payload,
    file: Option<FormFile>,
}

/// The file of a form, whose bytes are stored.
struct FormFile {
    held: Held,
    name: String,
    media_type: Option<String>,
}

/// `POST …/document/create-by-file`: makes a document from a file; a run reads and indexes it.
///
/// # Errors
/// Dify's 400s for a wrong form; 404; 501 for another form of documents.
pub(super) async fn create_by_file(
    State(state): State<ApiState>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    Path(id): Path<String>,
    request: Request,
) -> Result<JsonBody<Json>, ApiError> {
    let dataset = dataset(&state, &id).await?;
    let Form { settings: payload, file } = read(&state, request).await.map_err(|error| {
        match error.status() {
            // Dify's code for this route.
            StatusCode::PAYLOAD_TOO_LARGE => ApiError::invalid_param(error.message()),
            _ => error,
        }
    })?;
    let file = file.ok_or_else(|| refused("no_file_uploaded", "Please upload your file."))?;
    let original = payload.text("original_document_id")?.filter(|id| !id.is_empty());
    let document = match original {
        Some(original) => replaceable(&state, &dataset, original).await?.id,
        None => Uuid::new_v4().to_string(),
    };
    let has_rule = payload.value("process_rule").is_some() || dataset.notes.process_rule.is_some();
    if original.is_none() && !has_rule {
        return Err(ApiError::invalid_param("process_rule is required."));
    }
    store(&state, &dataset, &payload, (&document, file), key).await?;
    answer(&state, &dataset, &document).await
}

/// `PATCH …/documents/{document}`, and its old spellings: a new version of a document from a file. Without a file
/// nothing changes.
///
/// # Errors
/// As [`create_by_file`].
pub(super) async fn update_by_file(
    State(state): State<ApiState>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    Path((id, document)): Path<(String, String)>,
    request: Request,
) -> Result<JsonBody<Json>, ApiError> {
    let dataset = dataset(&state, &id).await?;
    let view = replaceable(&state, &dataset, &document).await?;
    let Form { settings: payload, file } = read(&state, request).await?;
    if let Some(file) = file {
        store(&state, &dataset, &payload, (&view.id, file), key).await?;
    }
    answer(&state, &dataset, &view.id).await
}

async fn store(
    state: &ApiState,
    dataset: &DatasetRecord,
    payload: &Payload,
    (document, file): (&str, FormFile),
    key: String,
) -> Result<(), ApiError> {
    let FormFile { held, name, media_type } = file;
    let sent = Sent { name: &name, media_type: media_type.as_deref(), app: None, user: USER };
    uploads::check(&sent)?;
    let file = uploads::record(&held, sent);
    check_name("name", &file.name)?;
    let settings = settings(state, dataset, payload).await?;
    let file = uploads::keep(state, held, file, Some(Payer::of_dataset(&dataset.id))).await?;
    let source = SourceFile {
        id: file.id.to_string(),
        name: file.name.clone(),
        size: file.size,
        extension: file.extension.trim_start_matches('.').to_owned(),
        mime_type: file.mime_type.clone(),
        created_at: file.created_at,
    };
    let notes = DocumentNotes {
        source: Some(source),
        process_rule: settings.rule.clone(),
        language: settings.language,
        ..DocumentNotes::default()
    };
    let order = Order {
        name: file.name.clone(),
        doc_metadata: None,
        notes,
        key: Some(key),
        ..Order::of(document.into(), Content::File(Box::new(file), settings.rule))
    };
    indexing::order(state, dataset, order).await?;
    Ok(())
}

/// Reads a form. A body that is no form has no file.
async fn read(state: &ApiState, request: Request) -> Result<Form, ApiError> {
    let none = || Payload::of("KnowledgeConfig", tidemill_common::value::JsonMap::new());
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let Some(boundary) = kind.and_then(|kind| multer::parse_boundary(kind).ok()) else {
        return Ok(Form { settings: none(), file: None });
    };
    let settings_max = state.config.scheduler.request_bytes_max;
    let whole =
        largest(&state.config).saturating_add(settings_max as u64).saturating_add(UPLOAD_FORM_BYTES_MAX);
    let wrong = |error: multer::Error| match error {
        multer::Error::StreamSizeExceeded { .. } => {
            let message = format!("the form has more than {whole} bytes: its largest file, and its settings");
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "file_too_large", message)
        }
        error => ApiError::bad_request(format!("the form cannot be read: {error}")),
    };
    let constraints = Constraints::new().size_limit(SizeLimit::new().whole_stream(whole));
    let stream = request.into_body().into_data_stream();
    let mut parts = Multipart::with_constraints(stream, boundary, constraints);
    let mut form = Form { settings: none(), file: None };
    while let Some(part) = parts.next_field().await.map_err(wrong)? {
        let file_name = part.file_name().map(str::to_owned);
        match (part.name(), file_name) {
            (Some("data"), None) => form.settings = read_settings(state, part).await?,
            (_, Some(_)) if form.file.is_some() => {
                return Err(refused("too_many_files", "Only one file is allowed."));
            }
            (Some("file"), Some(name)) if name.is_empty() => {
                let message = "The specified filename does not exist.";
                return Err(refused("filename_not_exists_error", message));
            }
            (Some("file"), Some(name)) => form.file = Some(receive(state, &name, part).await?),
            (_, Some(_)) => return Err(refused("too_many_files", "Only one file is allowed.")),
            // Other fields are passed over.
            (_, None) => {}
        }
    }
    Ok(form)
}

/// Reads the field `data`: the settings as JSON.
async fn read_settings(state: &ApiState, part: multer::Field<'static>) -> Result<Payload, ApiError> {
    let max = state.config.scheduler.request_bytes_max;
    let body = Body::from_stream(part.map_err(std::io::Error::other));
    let bytes = request::read(body, max, "scheduler.request_bytes_max").await?;
    let map = request::Body(bytes).object()?;
    Ok(Payload::of("KnowledgeConfig", map))
}

/// Checks the name of a file, and stores its bytes.
async fn receive(state: &ApiState, name: &str, part: multer::Field<'static>) -> Result<FormFile, ApiError> {
    let media_type = part.content_type().map(|kind| kind.essence_str().to_owned());
    let name = checked_name(&state.config, name)?;
    let limit = limit_of(&state.config, &name);
    let held = uploads::store(state, part.map_err(Into::into).boxed(), limit).await?;
    Ok(FormFile { held, name, media_type })
}

fn refused(code: &'static str, message: &str) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, code, message)
}
