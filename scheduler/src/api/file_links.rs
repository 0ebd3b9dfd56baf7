//! `GET /files/{id}/file-preview` and `GET /files/runs/{run}/{file}`: opens a file by a signed URL
//! ([`crate::runs::file_links`]), without a key. So a browser shows a picture of an answer, and a person stores a document.

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::files::{Content, FilesError, Place, UploadId, run_of};

use super::ApiState;
use super::error::ApiError;
use super::request::{IdInPath, Params};
use super::served_file::{Served, answer};
use super::uploads::unreadable;
use crate::runs::file_links::{FileLinks, OwnerOfRun, Signed};

/// The fields of a run that say whose its files are.
const OWNER_FIELDS: [&str; 2] = ["app", "user"];

/// Opens an upload.
///
/// # Errors
/// 400 without a signature, 404 for a wrong or an old one, or a file that is gone.
pub(super) async fn upload(
    State(state): State<ApiState>,
    id: IdInPath,
    uri: Uri,
    params: Params,
) -> Result<Response, ApiError> {
    check(&state, Signed { name: "", mime_type: "", ..signed(uri.path(), &params)? }, &params).await?;
    let id: UploadId = id.0.parse().map_err(|_| not_here())?;
    let place = state.submitter.uploads.open().map_err(unreadable)?;
    let upload = found(place.find(id).await)?;
    let content: Content = found(place.content(Place::Upload(id)).await)?;
    let served = Served {
        name: &upload.name,
        mime_type: &upload.mime_type,
        as_attachment: params.lenient("as_attachment"),
    };
    Ok(answer(content, served))
}

/// Opens a file of a run. Its name and its type are part of the URL, and it was signed for an app and a user: the run must
/// be theirs, because the reference may come from a client.
///
/// # Errors
/// As for [`upload`].
pub(super) async fn of_run(
    State(state): State<ApiState>,
    uri: Uri,
    params: Params,
) -> Result<Response, ApiError> {
    let it = signed(uri.path(), &params)?;
    let reference = uri.path().strip_prefix("/files/").unwrap_or_default();
    let run = run_of(reference).ok_or_else(not_here)?;
    let fields = state.store.app_records().fields_of_runs(&[run], &OWNER_FIELDS).await?;
    let field = |name: &str| fields.first().and_then(|fields| fields.get(name)).map(String::as_str);
    let owner =
        OwnerOfRun { app: field("app").ok_or_else(not_here)?, user: field("user").unwrap_or_default() };
    check(&state, Signed { owner: Some(owner), ..it }, &params).await?;
    let place = state.submitter.uploads.open().map_err(unreadable)?;
    let content = found(place.content(Place::OfRun(reference)).await)?;
    let as_attachment = params.lenient("as_attachment");
    Ok(answer(content, Served { name: it.name, mime_type: it.mime_type, as_attachment }))
}

/// The parts of a signed URL.
fn signed<'a>(path: &'a str, params: &'a Params) -> Result<Signed<'a>, ApiError> {
    let given = |name: &str| params.get(name).filter(|text| !text.is_empty());
    let (Some(timestamp), Some(nonce), Some(_)) = (given("timestamp"), given("nonce"), given("sign")) else {
        return Err(ApiError::bad_request("Invalid request."));
    };
    let or_empty = |name: &str| given(name).unwrap_or_default();
    Ok(Signed { path, owner: None, name: or_empty("name"), mime_type: or_empty("type"), timestamp, nonce })
}

async fn check(state: &ApiState, it: Signed<'_>, params: &Params) -> Result<(), ApiError> {
    let links = FileLinks::new(state.forms.tokens(&*state.store).await?, &state.config.uploads);
    match links.opens(it, params.get("sign").unwrap_or_default(), SystemClock.now().seconds()) {
        true => Ok(()),
        false => Err(not_here()),
    }
}

fn found<T>(found: Result<T, FilesError>) -> Result<T, ApiError> {
    found.map_err(|error| match error {
        FilesError::Missing(_) => not_here(),
        other => unreadable(other),
    })
}

fn not_here() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "not_found", "File not found or signature is invalid")
}
