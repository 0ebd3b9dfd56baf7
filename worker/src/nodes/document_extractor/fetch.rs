//! Loads the bytes of a file, from its URL through the guarded client or from the file storage.

use serde_json::{Value as Json, json};
use tidemill_common::files::Files;

use crate::nodes::http_request::send;
use crate::outside::http::Http;
use crate::outside::http::read::{Largest, ReadError, kind_of, read};

/// A file's content, and what its server says about it.
pub(super) struct Fetched {
    pub(super) bytes: Vec<u8>,
    /// `extension` and `mime_type` as in file objects; `None` for a file from the file storage.
    pub(super) said: Option<Json>,
}

/// Returns the content of a file of at most `max` bytes. The error is the failure of the node.
pub(super) async fn fetch(file: &Json, max: u64, http: &Http, files: &dyn Files) -> Result<Fetched, String> {
    let text = |key: &str| file.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
    if text("transfer_method") == Some("remote_url") {
        let url = text("remote_url").ok_or("Missing URL for remote file")?;
        return download(url, max, http).await.map_err(failed);
    }
    let reference = text("reference").or_else(|| text("related_id"));
    let reference = reference.ok_or_else(|| failed("it has neither a URL nor a reference"))?;
    let bytes = files.read(reference, max).await.map_err(failed)?;
    Ok(Fetched { bytes: bytes.into(), said: None })
}

async fn download(url: &str, max: u64, http: &Http) -> Result<Fetched, String> {
    let mut answer = send::get(url, http).await.map_err(|failure| failure.message)?;
    let status = answer.response.status();
    if !status.is_success() {
        return Err(format!("HTTP request failed with status code {} for {url}", status.as_u16()));
    }
    let last_url = answer.response.url().as_str();
    let facts = kind_of(answer.response.headers()).facts(url, Some(last_url));
    let said = json!({"extension": facts.extension, "mime_type": facts.mime_type});
    match read(&mut answer, Largest { text: max, file: max }).await {
        Ok((_, bytes)) => Ok(Fetched { bytes, said: Some(said) }),
        Err(ReadError::TooLarge { .. }) => {
            Err(format!("it has more than {max} bytes (documents.file_bytes_max)"))
        }
        Err(ReadError::Call(error)) => Err(error.to_string()),
    }
}

fn failed(reason: impl std::fmt::Display) -> String {
    format!("Error downloading file: {reason}")
}
