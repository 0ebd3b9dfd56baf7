//! Loads the OpenAPI documents of services: stored with the service, or fetched from a URL.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Method, Url};
use serde_json::Value as Json;
use tidemill_common::limits::CATALOG_ENTRIES_MAX;
use tidemill_common::nodes::step::CallError;
use tidemill_common::registry::calls::ServiceConfig;

use crate::outside::calls::api::SERVICE_METADATA;
use crate::outside::calls::{Calls, Versioned};
use crate::outside::openapi::document;
use crate::outside::tools::operator_client::{Request, whole};

/// Longest wait for a document.
const WAIT: Duration = Duration::from_secs(30);
/// Lifetime of a fetched document in the cache.
const LASTS: Duration = Duration::from_secs(300);

/// A cached document.
#[derive(Clone)]
pub(in crate::outside::calls) struct Document {
    of: Arc<Json>,
    /// The version of its service.
    version: u64,
    /// The end of its validity, if it was fetched.
    until: Option<Instant>,
}

/// Returns the document of a service.
///
/// # Errors
/// The service has none, or it cannot be fetched or read.
pub(super) async fn document(
    calls: &Calls,
    id: &str,
    service: &Versioned<ServiceConfig>,
) -> Result<Arc<Json>, CallError> {
    let known = calls.documents().get(id).cloned();
    let is_fresh = |document: &Document| {
        document.version == service.version && document.until.is_none_or(|until| until > Instant::now())
    };
    if let Some(document) = known.filter(is_fresh) {
        return Ok(document.of);
    }
    let wrong = |reason: String| {
        CallError::of(SERVICE_METADATA, format!("the OpenAPI document of the service {id}: {reason}"))
    };
    let (text, until) = match (&service.of.openapi, &service.of.openapi_url) {
        (Some(Json::String(text)), _) => (text.clone().into_bytes(), None),
        (Some(object), _) => (object.to_string().into_bytes(), None),
        (None, Some(url)) => (fetched(calls, url, &wrong).await?, Some(Instant::now() + LASTS)),
        (None, None) => return Err(wrong("it has none; set openapi, or openapi_url".into())),
    };
    let of = Arc::new(document::parsed(&text).map_err(wrong)?);
    let read = Document { of: of.clone(), version: service.version, until };
    let mut documents = calls.documents();
    if documents.len() >= CATALOG_ENTRIES_MAX {
        // Most entries are of removed services; the others are read again.
        documents.clear();
    }
    documents.insert(id.to_owned(), read);
    Ok(of)
}

async fn fetched(
    calls: &Calls,
    url: &str,
    wrong: &(dyn Fn(String) -> CallError + Sync),
) -> Result<Vec<u8>, CallError> {
    let url = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
    let request = Request {
        method: Method::GET,
        url: &url,
        headers: HeaderMap::new(),
        body: Bytes::new(),
        silence: WAIT,
    };
    let operator_client = calls.operator_client()?;
    let fetching = async {
        let mut answer = operator_client.send(request).await.map_err(|error| error.to_string())?;
        let status = answer.response.status();
        if !status.is_success() {
            return Err(format!("its server answers with status {}", status.as_u16()));
        }
        whole(&mut answer, calls.config.answer_bytes_max).await
    };
    let done = tokio::time::timeout(WAIT, fetching).await;
    let done = done.unwrap_or_else(|_| Err(format!("no answer within {} s", WAIT.as_secs())));
    done.map_err(|reason| wrong(reason).passing())
}
