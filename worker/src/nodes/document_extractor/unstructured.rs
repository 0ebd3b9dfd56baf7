//! A client of an Unstructured service, for document formats the worker cannot read. The operator names the service, so
//! it may be in the operator's network.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value as Json;
use tidemill_common::config::DocumentsConfig;
use tidemill_common::hidden::HiddenUrl;
use tidemill_common::nodes::document_extractor::Format;
use uuid::Uuid;

/// The path that Dify removes from the address, because many settings contain it.
const PATH: &str = "/general/v0/general";

/// The client; see the module.
pub(super) struct Unstructured {
    client: Result<reqwest::Client, String>,
    url: HiddenUrl,
    key: String,
    text_bytes_max: u64,
}

/// A piece of the document.
#[derive(Deserialize)]
struct Piece {
    #[serde(default)]
    text: String,
}

impl Unstructured {
    pub(super) fn new(config: &DocumentsConfig) -> Self {
        let base = config.unstructured_url.trim_end_matches('/');
        let base = base.strip_suffix(PATH).unwrap_or(base).trim_end_matches('/');
        Self {
            client: client(base, config),
            url: format!("{base}{PATH}").into(),
            key: config.unstructured_key.0.clone(),
            text_bytes_max: config.text_bytes_max,
        }
    }

    /// Returns the texts of the document's pieces, one per line.
    pub(super) async fn read(&self, format: Format, file: &Json, bytes: Vec<u8>) -> Result<String, String> {
        let client = self.client.as_ref().map_err(String::clone)?;
        let boundary = Uuid::new_v4().simple().to_string();
        let mut request = client
            .post(self.url.as_str())
            .header("accept", "application/json")
            .header("content-type", format!("multipart/form-data; boundary={boundary}"))
            .body(form(&boundary, &filename(format, file), bytes));
        if !self.key.is_empty() {
            request = request.header("unstructured-api-key", &self.key);
        }
        let failed = |error: reqwest::Error| {
            format!(
                "the service at {} (documents.unstructured_url) does not answer: {}",
                self.url.masked(),
                error.without_url()
            )
        };
        let mut answer = request.send().await.map_err(failed)?;
        if !answer.status().is_success() {
            let status = answer.status().as_u16();
            return Err(format!(
                "the service at {} (documents.unstructured_url) answered with status {status}",
                self.url.masked()
            ));
        }
        // The answer has much more than the text, so its limit is higher.
        let most = usize::try_from(self.text_bytes_max.saturating_mul(8)).unwrap_or(usize::MAX);
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(failed)? {
            body.extend_from_slice(&piece);
            if body.len() > most {
                return Err(format!(
                    "the service answered with more than {most} bytes (documents.text_bytes_max)"
                ));
            }
        }
        let pieces: Vec<Piece> = serde_json::from_slice(&body)
            .map_err(|error| format!("the service's answer cannot be parsed: {error}"))?;
        let texts: Vec<String> = pieces.into_iter().map(|piece| piece.text).collect();
        Ok(texts.join("\n"))
    }
}

/// A file name whose extension tells the service the format.
fn filename(format: Format, file: &Json) -> String {
    let given = file.get("filename").and_then(Json::as_str).unwrap_or_default();
    let given: String = given.chars().filter(|c| !c.is_control() && *c != '"').collect();
    if given.ends_with(format.extension()) { given } else { format!("document{}", format.extension()) }
}

fn form(boundary: &str, filename: &str, bytes: Vec<u8>) -> Vec<u8> {
    let mut body = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"files\"; filename=\"{filename}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    )
    .into_bytes();
    body.extend(bytes);
    body.extend(format!("\r\n--{boundary}--\r\n").into_bytes());
    body
}

fn client(base: &str, config: &DocumentsConfig) -> Result<reqwest::Client, String> {
    // The first call sets the default for the process. Later calls fail, which is harmless.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .timeout(Duration::from_secs(config.unstructured_seconds))
        .redirect(reqwest::redirect::Policy::none());
    if base.starts_with("http://") {
        // Plain HTTP also works on a machine without certificates.
        builder = builder.tls_certs_only([]);
    }
    builder
        .build()
        .map_err(|error| format!("the client of documents.unstructured_url does not start: {error:?}"))
}
