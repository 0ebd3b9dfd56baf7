//! Builds the body as bytes: texts, fetched files, and multipart forms.

use bytes::Bytes;
use serde_json::Value as Json;
use tidemill_common::failure::NodeFailure;
use tidemill_common::nodes::http_request::body::{Content, PLACEHOLDER};
use tidemill_common::nodes::http_request::log::ShownFile;
use uuid::Uuid;

use super::{Means, send};
use crate::http::read::{Largest, ReadError, read};

/// A body, ready to be sent.
pub(crate) struct Assembled {
    /// The parts in order.
    pub(crate) parts: Vec<Bytes>,
    /// The content type of a form, with its boundary.
    pub(crate) content_type: Option<String>,
    /// The files in it, as the record shows them.
    pub(super) shown: Vec<ShownFile>,
}

pub(crate) async fn assemble(content: Content, means: Means<'_>) -> Result<Assembled, NodeFailure> {
    let plain = |parts, shown| Assembled { parts, content_type: None, shown };
    match content {
        Content::Empty => Ok(plain(Vec::new(), Vec::new())),
        Content::Text(text) if text.is_empty() => Ok(plain(Vec::new(), Vec::new())),
        Content::Text(text) => Ok(plain(vec![text.into()], Vec::new())),
        Content::File(file) => {
            let bytes = fetch(&file, means.http.bounds.upload_bytes_max, means).await?;
            let shown = vec![ShownFile::of("", &file, bytes.len())];
            Ok(plain(vec![bytes], shown))
        }
        Content::Multipart { fields, files } => {
            let mut fetched = Vec::with_capacity(files.len());
            let mut left = means.http.bounds.upload_bytes_max;
            for (key, file) in &files {
                let bytes = fetch(file, left, means).await?;
                left -= bytes.len() as u64;
                fetched.push((ShownFile::of(key, file, bytes.len()), bytes));
            }
            Ok(form(&fields, fetched))
        }
    }
}

fn form(fields: &[(String, String)], files: Vec<(ShownFile, Bytes)>) -> Assembled {
    let boundary = Uuid::new_v4().simple().to_string();
    let mut parts: Vec<Bytes> = Vec::new();
    let mut head = String::new();
    let begin = |head: &mut String, key: &str| {
        head.push_str(&format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", quoted(key)));
    };
    for (key, value) in fields {
        begin(&mut head, key);
        head.push_str(&format!("\r\n\r\n{value}\r\n"));
    }
    if files.is_empty() {
        begin(&mut head, PLACEHOLDER);
        head.push_str("; filename=\"\"\r\nContent-Type: application/octet-stream\r\n\r\n\r\n");
    }
    let mut shown = Vec::with_capacity(files.len());
    for (file, bytes) in files {
        begin(&mut head, &file.key);
        if let Some(filename) = &file.filename {
            head.push_str(&format!("; filename=\"{}\"", quoted(filename)));
        }
        // A media type with a line break could add a header.
        let mime_type = file.mime_type.replace(['\r', '\n'], "");
        head.push_str(&format!("\r\nContent-Type: {mime_type}\r\n\r\n"));
        parts.push(std::mem::take(&mut head).into());
        parts.push(bytes);
        head.push_str("\r\n");
        shown.push(file);
    }
    head.push_str(&format!("--{boundary}--\r\n"));
    parts.push(head.into());
    Assembled { parts, content_type: Some(format!("multipart/form-data; boundary={boundary}")), shown }
}

/// A quoted name, escaped as browsers do it.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

/// Loads a file, from its URL if it has one, else from the file storage.
async fn fetch(file: &Json, left: u64, means: Means<'_>) -> Result<Bytes, NodeFailure> {
    let text = |key: &str| file.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
    let named = text("filename").unwrap_or("without a name");
    let failed =
        |reason: String| NodeFailure::escaped(format!("the file {named} cannot be fetched: {reason}"));
    let max = means.http.bounds.file_bytes_max.min(left);
    let too_large = || {
        failed(format!(
            "it has more than {max} bytes, which is what is left of http.file_bytes_max and http.upload_bytes_max"
        ))
    };
    if let Some(url) = text("remote_url").filter(|_| text("transfer_method") == Some("remote_url")) {
        let mut answer = send::get(url, means.http).await?;
        let status = answer.response.status();
        if !status.is_success() {
            return Err(failed(format!("its server answered with status {}", status.as_u16())));
        }
        let read = read(&mut answer, Largest { text: max, file: max }).await;
        return read.map(|(_, bytes)| bytes.into()).map_err(|error| match error {
            ReadError::TooLarge { .. } => too_large(),
            ReadError::Call(error) => failed(error.to_string()),
        });
    }
    let Some(reference) = text("reference").or_else(|| text("related_id")) else {
        return Err(failed("it has neither a URL nor a reference".into()));
    };
    means.files.read(reference, max).await.map_err(|error| failed(error.to_string()))
}
