//! Receives an upload for either surface of the API: streams its bytes to the storage of files, then writes its record. The
//! client gets the id when both are stored.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::files::{FilesError, Pieces, Upload, UploadId};
use tidemill_common::limits::{UPLOAD_SECONDS_MAX, UPLOAD_TEXT_CHARS_MAX};
use tidemill_common::value::file_name::{FileFacts, Known};

use super::ApiState;
use super::error::ApiError;
use super::unread::discard;
use crate::submit::{SubmitError, USER_CHARS_MAX};

/// The file that a client sends.
pub(crate) struct Sent<'a> {
    pub(crate) name: &'a str,
    /// The media type that the client gives.
    pub(crate) media_type: Option<&'a str>,
    /// The app whose runs may use the file; `None`: runs of workflows that come with their request.
    pub(crate) app: Option<String>,
    pub(crate) user: &'a str,
}

/// Stores a file whose bytes are the body of the request.
///
/// # Errors
/// 400 for a name, a media type or a user that is too long, 413 for a file above `scheduler.upload_bytes_max`, 408 for one that takes too long, 400 for one that broke off, 503
/// when the storage does not answer.
pub(crate) async fn receive(state: &ApiState, sent: Sent<'_>, mut body: Body) -> Result<Upload, ApiError> {
    check(&sent)?;
    let place = state.submitter.uploads.open().map_err(refused)?;
    let (id, max) = (UploadId::generate(), state.config.scheduler.upload_bytes_max);
    let receiving = place.receive(id, pieces(&mut body), max);
    let size = match tokio::time::timeout(Duration::from_secs(UPLOAD_SECONDS_MAX), receiving).await {
        Ok(Ok(size)) => size,
        Ok(Err(error)) => {
            if matches!(error, FilesError::UploadTooLarge { .. }) {
                discard(body).await;
            }
            return Err(refused(error));
        }
        Err(_) => {
            let message = format!("the file did not arrive within {UPLOAD_SECONDS_MAX} seconds");
            return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message));
        }
    };
    let upload = record(id, sent, size);
    place.record(&upload).await.map_err(refused)?;
    tracing::info!(upload = %id, app = upload.app.as_deref().unwrap_or(""), size, "file uploaded");
    Ok(upload)
}

/// Checks the texts that the record of a file keeps. A record that is too large could not be read again.
fn check(sent: &Sent<'_>) -> Result<(), ApiError> {
    if sent.user.chars().count() > USER_CHARS_MAX {
        return Err(SubmitError::User.into());
    }
    for (what, text) in [("name", sent.name), ("Content-Type", sent.media_type.unwrap_or_default())] {
        if text.chars().count() > UPLOAD_TEXT_CHARS_MAX {
            let message = format!("{what} must have at most {UPLOAD_TEXT_CHARS_MAX} characters");
            return Err(ApiError::invalid_param(message));
        }
    }
    Ok(())
}

/// The record of a file, with what its name and type say.
fn record(id: UploadId, sent: Sent<'_>, size: u64) -> Upload {
    let known = Known { given_name: Some(sent.name), said_type: sent.media_type, ..Known::default() };
    let facts = FileFacts::of(known);
    let name = facts.name.unwrap_or_else(|| format!("file{}", facts.extension));
    Upload {
        id,
        app: sent.app,
        user: sent.user.replace('\0', ""),
        name,
        extension: facts.extension,
        mime_type: facts.mime_type,
        size,
        created_at: SystemClock.now().seconds(),
    }
}

fn pieces(body: &mut Body) -> Pieces<'_> {
    stream::unfold(body, |body| async move {
        loop {
            match body.frame().await? {
                // Trailers are no part of the file.
                Ok(frame) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Some((Ok(bytes), body));
                    }
                }
                Err(error) => return Some((Err(error.into()), body)),
            }
        }
    })
    .boxed()
}

fn refused(error: FilesError) -> ApiError {
    match error {
        FilesError::UploadTooLarge { .. } => {
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "file_too_large", error.to_string())
        }
        FilesError::Broken(_) => ApiError::bad_request("the upload broke off"),
        FilesError::Url { .. }
        | FilesError::Missing(_)
        | FilesError::TooLarge { .. }
        | FilesError::Folder(_)
        | FilesError::Service { .. }
        | FilesError::RunGone(_)
        | FilesError::Note(_) => {
            tracing::error!(%error, "an upload cannot be stored");
            ApiError::unavailable("the file cannot be stored now; try again in a moment")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_make_a_record_too_large_are_refused_by_their_name() {
        let (most, long) = ("ä".repeat(UPLOAD_TEXT_CHARS_MAX), "ä".repeat(UPLOAD_TEXT_CHARS_MAX + 1));
        for (name, media_type, refused) in [
            ("a.pdf", None, None),
            (most.as_str(), Some(most.as_str()), None),
            (long.as_str(), None, Some("name must have at most 255 characters")),
            ("a.pdf", Some(long.as_str()), Some("Content-Type must have at most 255 characters")),
        ] {
            let checked = check(&Sent { name, media_type, app: None, user: "u" });
            let error = checked.err().map(|error| format!("{error:?}"));
            assert_eq!(error.is_some(), refused.is_some(), "{name} {media_type:?}: {error:?}");
            if let (Some(error), Some(refused)) = (error, refused) {
                assert!(error.contains("invalid_param") && error.contains(refused), "{error}");
            }
        }
    }

    #[test]
    fn the_record_says_what_name_and_type_say() {
        for (name, media_type, expected) in [
            ("a.PDF", None, ("a.PDF", ".pdf", "application/pdf")),
            ("../x/note", Some("text/plain; charset=utf-8"), ("note", ".txt", "text/plain")),
            ("a.csv", Some("application/octet-stream"), ("a.csv", ".csv", "text/csv")),
            ("..", None, ("file.bin", ".bin", "application/octet-stream")),
        ] {
            let sent = Sent { name, media_type, app: None, user: "u" };
            let record = record(UploadId::generate(), sent, 1);
            let have = (record.name.as_str(), record.extension.as_str(), record.mime_type.as_str());
            assert_eq!(have, expected, "{name} {media_type:?}");
        }
    }
}
