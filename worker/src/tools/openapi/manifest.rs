//! A plugin's manifest, which names the document of its API instead of being one. Dify fetches it when the tools are registered;
//! here it is fetched when one of them is first needed and then kept for as long as the worker runs, so that a server which is away for a
//! moment keeps no worker from starting. It goes through the guard: the manifest chose the address.

use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value as Json;
use tidemill_common::config::HttpConfig;
use tidemill_common::dsl::read_plain;
use tokio::sync::OnceCell;

use super::document::{self, ONLY_OPENAPI, Operation};
use crate::http::watch::Waits;
use crate::http::{Call, Http};
use crate::tools::ToolError;
use crate::tools::door::whole;

/// The operations of a document that a manifest names.
pub(super) struct Named {
    url: Url,
    /// Stands over the servers of the document.
    server: Option<String>,
    http: Http,
    bytes_max: u64,
    wait: Duration,
    read: OnceCell<Vec<Operation>>,
}

impl Named {
    /// What a manifest names; none for what is no manifest. `wait` is the longest for the document (`read_seconds` of the API).
    ///
    /// # Errors
    /// It names something else than a document of OpenAPI at a URL.
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

    /// The operations. Whoever fails to get them leaves it to the next to try.
    ///
    /// # Errors
    /// The document cannot be had, which may pass, or cannot be used.
    pub(super) async fn operations(&self) -> Result<&[Operation], ToolError> {
        let named =
            |why: String| format!("the document {}, which the plugin's manifest names: {why}", self.url);
        let reading = async || {
            let text = tokio::time::timeout(self.wait, self.fetched()).await;
            let late = || format!("not there within {} s (read_seconds of the API)", self.wait.as_secs());
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
            // It is read as it comes.
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

/// The URL of the document that a manifest names; none for what is no manifest, or cannot be read.
fn document_of(text: &[u8]) -> Result<Option<Url>, String> {
    let Ok(manifest) = read_plain(text) else { return Ok(None) };
    let is_document = ["openapi", "swagger"].iter().any(|key| manifest.get(*key).is_some());
    let of_api = |key: &str| manifest.get("api")?.get(key).and_then(Json::as_str);
    let (kind, url) = (of_api("type"), of_api("url"));
    match url.filter(|_| !is_document) {
        None => Ok(None),
        Some(_) if kind.is_some_and(|kind| kind != "openapi") => Err(ONLY_OPENAPI.into()),
        Some(url) => Url::parse(url)
            .map(Some)
            .map_err(|error| format!("the document {url:?}, which the manifest names, is no URL: {error}")),
    }
}
