//! Sends a prepared request and returns the answer, or the failure that Dify would report.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use tidemill_common::failure::NodeFailure;
use tidemill_common::nodes::http_request::{Authorization, ErrorType, HttpRequestData};

use super::address;
use super::headers::{headers, sendable};
use super::{Means, Prepared};
use crate::outside::http::watch::Waits;
use crate::outside::http::{Answer, Call, CallError, Http};

/// The default `Accept-Encoding`: the encodings that can be unpacked.
const PACKINGS: HeaderValue = HeaderValue::from_static("gzip, deflate");

/// The header of an attempt's idempotency key.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

pub(super) async fn send(
    data: &HttpRequestData,
    prepared: &Prepared,
    means: Means<'_>,
) -> Result<Answer, NodeFailure> {
    let call = call(data, prepared, means)?;
    let url = &prepared.head.url;
    let answer = means.http.send(call).await.map_err(|error| failed(error, url))?;
    if answer.proxied && is_refused_by_squid(&answer) {
        let message = format!("{} The proxy refused it (http.proxy).", blocked(url));
        return Err(NodeFailure::escaped(message));
    }
    Ok(answer)
}

/// Fetches a remote file by its URL.
pub(crate) async fn get(url: &str, http: &Http) -> Result<Answer, NodeFailure> {
    let parsed =
        Url::parse(url).map_err(|error| NodeFailure::escaped(format!("{url:?} is not a URL: {error}")))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(NodeFailure::escaped(format!("{url:?} is not an http:// or https:// URL")));
    }
    let bounds = &http.bounds;
    let call = Call {
        method: Method::GET,
        url: parsed,
        headers: HeaderMap::new(),
        body: Vec::new(),
        private: Vec::new(),
        waits: Waits { connect: bounds.connect, write: bounds.write, read: bounds.read },
        verify: bounds.ssl_verify,
    };
    http.send(call).await.map_err(|error| NodeFailure::escaped(failed(error, url).message))
}

/// The failure of a call without an answer.
pub(super) fn failed(error: CallError, url: &str) -> NodeFailure {
    match error {
        CallError::Blocked(reason) => NodeFailure::escaped(format!("{} {reason}", blocked(url))),
        CallError::TimedOut(..) | CallError::Transport(_) => {
            NodeFailure::passing(ErrorType::Request.name(), error.to_string())
        }
        CallError::Redirects(_) | CallError::Location(_) => ErrorType::Request.failure(error.to_string()),
    }
}

fn blocked(url: &str) -> String {
    format!("Access to '{url}' was blocked by SSRF protection.")
}

fn is_refused_by_squid(answer: &Answer) -> bool {
    let says_squid = |name: &str| {
        let value = answer.response.headers().get(name).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.to_ascii_lowercase().contains("squid"))
    };
    matches!(answer.response.status().as_u16(), 401 | 403) && (says_squid("server") || says_squid("via"))
}

fn call(data: &HttpRequestData, prepared: &Prepared, means: Means<'_>) -> Result<Call, NodeFailure> {
    let method = method(&data.method)?;
    let mut url = address::url(&prepared.head)?;
    let mut headers = headers(&prepared.head)?;
    if let Some(content_type) = &prepared.body.content_type {
        headers.insert(CONTENT_TYPE, sendable(content_type)?);
    }
    if let Some(credentials) = credentials_of(&mut url) {
        headers.insert(AUTHORIZATION, sendable(&credentials)?);
    }
    if let Some(key) = means.idempotency_key
        && !headers.contains_key(IDEMPOTENCY_KEY)
    {
        headers.insert(IDEMPOTENCY_KEY, sendable(key)?);
    }
    if !headers.contains_key(ACCEPT_ENCODING) {
        headers.insert(ACCEPT_ENCODING, PACKINGS);
    }
    let own_header = match &data.authorization {
        Authorization::ApiKey(Some(config)) => config.header_name().parse().ok(),
        Authorization::ApiKey(None) | Authorization::None => None,
    };
    let bounds = &means.http.bounds;
    let seconds = |given: Option<u64>, default: Duration| given.map_or(default, Duration::from_secs);
    Ok(Call {
        method,
        url,
        headers,
        body: prepared.body.parts.clone(),
        private: own_header.into_iter().collect(),
        waits: Waits {
            connect: seconds(data.timeouts.connect, bounds.connect),
            write: seconds(data.timeouts.write, bounds.write),
            read: seconds(data.timeouts.read, bounds.read),
        },
        verify: data.ssl_verify.unwrap_or(bounds.ssl_verify),
    })
}

fn method(written: &str) -> Result<Method, NodeFailure> {
    match written.to_ascii_uppercase().as_str() {
        "GET" => Ok(Method::GET),
        "POST" => Ok(Method::POST),
        "PUT" => Ok(Method::PUT),
        "PATCH" => Ok(Method::PATCH),
        "DELETE" => Ok(Method::DELETE),
        "HEAD" => Ok(Method::HEAD),
        _ => Err(ErrorType::InvalidMethod.failure(format!("Invalid http method {written}"))),
    }
}

/// Moves user and password from the address to a header, as Dify's client does.
fn credentials_of(url: &mut Url) -> Option<String> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let decoded = |text: &str| {
        // Decodes like a form key, except for characters with a meaning only in forms.
        let text = text.replace('+', "%2B").replace('&', "%26");
        url::form_urlencoded::parse(text.as_bytes())
            .next()
            .map(|(key, _)| key.into_owned())
            .unwrap_or_default()
    };
    let pair = format!("{}:{}", decoded(url.username()), decoded(url.password().unwrap_or_default()));
    // These cannot fail for a URL with a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Some(format!("Basic {}", STANDARD.encode(pair)))
}
