//! Reads the parts of a webhook's request: headers and query as pairs, the body by its type, uploads as files.

use std::convert::Infallible;

use axum::http::{HeaderMap, HeaderName};
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value as Json, json};
use tidemill_common::nodes::trigger_webhook::{Body, ContentType};
use tidemill_common::value::file_name::{FileFacts, Known};
use tidemill_common::value::{FILE_IDENTITY, FILE_IDENTITY_KEY};

use crate::api::error::ApiError;

/// The field name of a file that is the complete body.
const WHOLE: &str = "raw";

/// An uploaded file.
#[derive(Debug, Clone)]
pub(super) struct Upload {
    /// The name of the form field.
    pub(super) name: String,
    /// The file's own name.
    filename: String,
    media_type: String,
    pub(super) bytes: Bytes,
}

impl Upload {
    /// The file object for the run. `reference` is where the file is stored.
    pub(super) fn file(&self, reference: &str) -> Json {
        let extension = self.filename.rsplit_once('.').map_or("bin", |(_, extension)| extension);
        let kind = match self.media_type.split('/').next().unwrap_or_default() {
            kind @ ("image" | "audio" | "video") => kind,
            _ => "document",
        };
        json!({
            FILE_IDENTITY_KEY: FILE_IDENTITY,
            "id": null,
            "type": kind,
            "transfer_method": "tool_file",
            "remote_url": null,
            "reference": reference,
            "related_id": null,
            "filename": self.filename,
            "extension": format!(".{}", extension.to_lowercase()),
            "mime_type": self.media_type,
            "size": self.bytes.len(),
            "url": null,
        })
    }
}

/// Reads a body by the content type that the webhook expects.
///
/// # Errors
/// 400 for an unreadable form.
pub(super) async fn read(
    ty: ContentType,
    header: Option<&str>,
    bytes: Bytes,
) -> Result<(Body, Vec<Upload>), ApiError> {
    match ty {
        ContentType::Json => Ok((Body::Json(text(&bytes)), Vec::new())),
        ContentType::Text => Ok((Body::Text(text(&bytes)), Vec::new())),
        ContentType::Form => Ok((Body::Form { fields: pairs(&bytes), files: Vec::new() }, Vec::new())),
        ContentType::Binary => {
            let body = Body::Binary(bytes.len());
            let upload = (!bytes.is_empty()).then(|| Upload {
                name: WHOLE.into(),
                filename: "webhook.bin".into(),
                media_type: ContentType::Binary.name().into(),
                bytes,
            });
            Ok((body, upload.into_iter().collect()))
        }
        ContentType::Multipart => multipart(header.unwrap_or_default(), bytes).await,
    }
}

async fn multipart(header: &str, bytes: Bytes) -> Result<(Body, Vec<Upload>), ApiError> {
    let wrong = |error: multer::Error| {
        ApiError::bad_request(format!("the multipart body cannot be read: {error}"))
            .with("error", "Bad Request".into())
    };
    let boundary = multer::parse_boundary(header).map_err(wrong)?;
    let whole = stream::once(async move { Ok::<Bytes, Infallible>(bytes) });
    let mut parts = multer::Multipart::new(whole, boundary);
    let (mut fields, mut uploads) = (Vec::new(), Vec::new());
    while let Some(field) = parts.next_field().await.map_err(wrong)? {
        let name = field.name().unwrap_or_default().to_string();
        let filename = field.file_name().map(str::to_string);
        let media_type = field.content_type().map(|ty| ty.essence_str().to_string());
        let bytes = field.bytes().await.map_err(wrong)?;
        match filename {
            // A file field with an empty name: the user chose no file.
            Some(filename) if filename.is_empty() => {}
            Some(filename) => {
                let media_type = media_type.unwrap_or_else(|| ContentType::Binary.name().into());
                // Nodes send the name on, so it must not lead to another folder.
                let known = Known { given_name: Some(&filename), ..Known::default() };
                let filename = FileFacts::of(known).name.unwrap_or_else(|| WHOLE.to_owned());
                uploads.push(Upload { name, filename, media_type, bytes });
            }
            None => fields.push((name, text(&bytes))),
        }
    }
    let files = uploads.iter().map(|upload| upload.name.clone()).collect();
    Ok((Body::Form { fields, files }, uploads))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Names and values of a query or a form.
pub(super) fn pairs(bytes: &[u8]) -> Vec<(String, String)> {
    url::form_urlencoded::parse(bytes).into_owned().collect()
}

/// The headers with names as Dify's server writes them (`X-Sig`). Leaves out the header that contained the secret.
pub(super) fn headers(headers: &HeaderMap, without: Option<HeaderName>) -> Vec<(String, String)> {
    let kept = headers.iter().filter(|(name, _)| Some(*name) != without.as_ref());
    kept.map(|(name, value)| (titled(name.as_str()), text(value.as_bytes()))).collect()
}

fn titled(name: &str) -> String {
    let part = |part: &str| {
        let mut part = part.to_string();
        if let Some(first) = part.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        part
    };
    name.split('-').map(part).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_headers_are_written_as_dify_writes_them() {
        for (name, written) in [("x-sig", "X-Sig"), ("host", "Host"), ("x--a", "X--A"), ("x_sig", "X_sig")] {
            assert_eq!(titled(name), written);
        }
        let mut map = HeaderMap::new();
        map.insert("x-webhook-secret", "s".parse().unwrap());
        map.insert("x-sig", "1".parse().unwrap());
        let kept = headers(&map, Some(HeaderName::from_static("x-webhook-secret")));
        assert_eq!(kept, [("X-Sig".to_string(), "1".to_string())]);
    }

    #[tokio::test]
    async fn a_multipart_body_becomes_fields_and_files() {
        let body = "--b\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n1\r\n--b\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"../../x/cat.PNG\"\r\nContent-Type: image/png\r\n\r\nPNG\r\n--b\r\nContent-Disposition: form-data; name=\"none\"; filename=\"\"\r\n\r\n\r\n--b--\r\n";
        let header = Some("multipart/form-data; boundary=b");
        let (read_body, uploads) = read(ContentType::Multipart, header, Bytes::from(body)).await.unwrap();
        let fields = vec![("n".to_string(), "1".to_string())];
        assert_eq!(read_body, Body::Form { fields, files: vec!["photo".into()] });
        let file = uploads[0].file("runs/x/y");
        assert_eq!(
            json!([file["type"], file["extension"], file["size"], file["filename"]]),
            json!(["image", ".png", 3, "cat.PNG"])
        );
        let broken = read(ContentType::Multipart, Some("multipart/form-data"), Bytes::from(body)).await;
        assert_eq!(broken.unwrap_err().status(), 400);
    }
}
