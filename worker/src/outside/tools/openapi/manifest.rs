//! A plugin's manifest, which names the document of its API. Dify fetches that document when the tools are registered.
//! Here it is fetched when one of the tools is first used, and kept while the worker runs, so that an unavailable
//! server does not stop a worker from starting. The request passes the guard, because the manifest chose the address.

use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value as Json;
use tidemill_common::config::HttpConfig;
use tidemill_common::dsl::read_plain;
use tokio::sync::OnceCell;

use crate::outside::http::watch::Waits;
use crate::outside::http::{Call, Http};
use crate::outside::openapi::document::ONLY_OPENAPI;
use crate::outside::tools::ToolError;
use crate::outside::tools::openapi::document;
use crate::outside::tools::openapi::document::Operation;
use crate::outside::tools::operator_client::whole;

/// The operations of a document that a manifest names.
pub(super) struct Named {
    url: Url,
    /// Overrides the document's servers.
    server: Option<String>,
    http: Http,
    bytes_max: u64,
    wait: Duration,
    read: OnceCell<Vec<Operation>>,
}

impl Named {
    /// Reads a manifest. Returns `None` if the text is not a manifest. `wait` is the longest wait for the document
    /// (`read_seconds` of the API).
    ///
    /// # Errors
    /// It does not name an OpenAPI document at a URL.
    pub(super) fn of(
        text: &[u8],
        server: Option<&str>,
        (http, bytes_max): (&HttpConfig, u64),
        wait: Duration,
    ) -> Result<Option<Self>, String> {
        let Some(url) = document_of(text)? else { return Ok(None) };
        let http = Http::new(http).map_err(|error| error.to_string())?;
        Ok(Some(Self {
            url,
            server: server.map(str::to_owned),
            http,
            bytes_max,
            wait,
            read: OnceCell::new(),
        }))
    }

    /// Returns the operations. After a failure the next caller tries again.
    ///
    /// # Errors
    /// The document cannot be fetched, which may be temporary, or cannot be used.
    pub(super) async fn operations(&self) -> Result<&[Operation], ToolError> {
        let named =
            |why: String| format!("the document {}, which the plugin's manifest names: {why}", self.url);
        let reading = async || {
            let text = tokio::time::timeout(self.wait, self.fetched()).await;
            let late = || format!("no answer within {} s (read_seconds of the API)", self.wait.as_secs());
            let text = text.unwrap_or_else(|_| Err(late()));
            let text = text.map_err(|why| ToolError::unavailable(named(why)).passing())?;
            document::read(&text, self.server.as_deref()).map_err(|why| ToolError::unavailable(named(why)))
        };
        self.read.get_or_try_init(reading).await.map(Vec::as_slice)
    }

    async fn fetched(&self) -> Result<Vec<u8>, String> {
        let bounds = &self.http.bounds;
        let call = Call {
            method: Method::GET,
            url: self.url.clone(),
            // The answer is not unpacked here.
            headers: HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("identity"))]),
            body: Vec::new(),
            private: Vec::new(),
            waits: Waits { connect: bounds.connect, write: bounds.write, read: self.wait },
            verify: bounds.ssl_verify,
        };
        let mut answer = self.http.send(call).await.map_err(|error| error.to_string())?;
        let status = answer.response.status();
        if !status.is_success() {
            return Err(format!("its server answers with status {}", status.as_u16()));
        }
        whole(&mut answer, self.bytes_max).await
    }
}

/// The URL of the document a manifest names; `None` if the text is not a manifest or cannot be read.
fn document_of(text: &[u8]) -> Result<Option<Url>, String> {
    let Ok(manifest) = read_plain(text) else { return Ok(None) };
    let is_document = ["openapi", "swagger"].iter().any(|key| manifest.get(*key).is_some());
    let of_api = |key: &str| manifest.get("api")?.get(key).and_then(Json::as_str);
    let (kind, url) = (of_api("type"), of_api("url"));
    match url.filter(|_| !is_document) {
        None => Ok(None),
        Some(_) if kind.is_some_and(|kind| kind != "openapi") => Err(ONLY_OPENAPI.into()),
        Some(url) => Url::parse(url).map(Some).map_err(|error| {
            format!("the document {url:?}, which the manifest names, is not a URL: {error}")
        }),
    }
}
