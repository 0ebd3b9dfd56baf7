//! Handles the files of an answer: bytes are stored, references are checked, file objects stay.

use serde_json::Value as Json;
use tidemill_common::failure::NodeFailure;
use tidemill_common::files::{Files, FilesError};
use tidemill_common::ids::RunId;
use tidemill_common::nodes::tool::ErrorType;
use tidemill_common::nodes::tool::outputs::{Pending, file_object};

use crate::outside::http::Http;

pub(in crate::nodes) async fn kept(
    pending: Vec<Pending>,
    run: &RunId,
    http: &Http,
    files: &dyn Files,
) -> Result<Vec<Json>, NodeFailure> {
    let mut objects = Vec::with_capacity(pending.len());
    for file in pending {
        objects.push(match file {
            Pending::Object(object) => object,
            Pending::Keep { bytes, mime_type, filename } => {
                let (size, max) = (bytes.len(), http.bounds.file_bytes_max);
                if size as u64 > max {
                    let message = format!(
                        "a file of the tool has {size} bytes, and {max} are allowed (http.file_bytes_max)"
                    );
                    return Err(ErrorType::File.failure(message));
                }
                let reference = files.keep(run, bytes.into()).await.map_err(unkept)?;
                file_object(&mime_type, filename.as_deref(), Some(size), &reference)
            }
            Pending::Kept { reference, mime_type, filename, is_blob } => {
                let bytes = files.read(&reference, http.bounds.file_bytes_max).await;
                let bytes = bytes.map_err(|error| unread(error, &reference, is_blob))?;
                let mime_type = match mime_type {
                    Some(mime_type) => mime_type,
                    None if is_blob => "application/octet-stream".into(),
                    None => {
                        let message = format!("tool file {reference} is missing mime type");
                        return Err(ErrorType::File.failure(message));
                    }
                };
                file_object(&mime_type, filename.as_deref(), Some(bytes.len()), &reference)
            }
        });
    }
    Ok(objects)
}

fn unkept(error: FilesError) -> NodeFailure {
    ErrorType::File.failure(format!("a file of the tool cannot be kept: {error}"))
}

fn unread(error: FilesError, reference: &str, is_blob: bool) -> NodeFailure {
    ErrorType::File.failure(match (error, is_blob) {
        (FilesError::Missing(_), true) => format!("tool file {reference} not exists"),
        (FilesError::Missing(_), false) => format!("tool file {reference} not found"),
        (other, _) => format!("tool file {reference} cannot be read: {other}"),
    })
}
