//! Builds the body as bytes: texts, fetched files, and multipart forms.

use bytes::Bytes;
use serde_json::Value as Json;
use tidemill_common::failure::NodeFailure;
use tidemill_common::nodes::http_request::body::{Content, PLACEHOLDER};
use tidemill_common::nodes::http_request::log::ShownFile;
use uuid::Uuid;

use super::{Means, send};
use crate::outside::http::read::{Largest, ReadError, read};

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

/// The text of a multipart form.
pub(crate) struct Form {
    boundary: String,
    text: String,
}

impl Form {
    pub(crate) fn new() -> Self {
        Self { boundary: Uuid::new_v4().simple().to_string(), text: String::new() }
    }

    fn begin(&mut self, key: &str) {
        let (boundary, key) = (&self.boundary, quoted(key));
        self.text.push_str(&format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{key}\""));
    }

    pub(crate) fn field(&mut self, key: &str, value: &str) {
        self.begin(key);
        self.text.push_str(&format!("\r\n\r\n{value}\r\n"));
    }

    /// Returns the content type, and the text that was not taken before.
    pub(crate) fn end(mut self) -> (String, String) {
        self.text.push_str(&format!("--{}--\r\n", self.boundary));
        (format!("multipart/form-data; boundary={}", self.boundary), self.text)
    }
}

fn form(fields: &[(String, String)], files: Vec<(ShownFile, Bytes)>) -> Assembled {
    let mut form = Form::new();
    let mut parts: Vec<Bytes> = Vec::new();
    for (key, value) in fields {
        form.field(key, value);
    }
    if files.is_empty() {
        form.begin(PLACEHOLDER);
        form.text.push_str("; filename=\"\"\r\nContent-Type: application/octet-stream\r\n\r\n\r\n");
    }
    let mut shown = Vec::with_capacity(files.len());
    for (file, bytes) in files {
        form.begin(&file.key);
        if let Some(filename) = &file.filename {
            form.text.push_str(&format!("; filename=\"{}\"", quoted(filename)));
        }
        // A media type with a line break could add a header.
        let mime_type = file.mime_type.replace(['\r', '\n'], "");
        form.text.push_str(&format!("\r\nContent-Type: {mime_type}\r\n\r\n"));
        parts.push(std::mem::take(&mut form.text).into());
        parts.push(bytes);
        form.text.push_str("\r\n");
        shown.push(file);
    }
    let (content_type, rest) = form.end();
    parts.push(rest.into());
    Assembled { parts, content_type: Some(content_type), shown }
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
