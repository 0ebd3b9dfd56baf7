//! Calls servers that the operator has named. They may be in the operator's network, so there is no guard and no proxy
//! here. Redirects and time limits are those of [`crate::outside::http`]. Servers that a workflow names are called in the
//! same way, but through the guard ([`OperatorClient::guarded`]).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use tidemill_common::config::HttpConfig;
use tidemill_common::hidden::{Hidden, HiddenUrl};

use crate::outside::http::watch::Waits;
use crate::outside::http::{Answer, Call, CallError, Http, HttpSettingError};
use crate::outside::tools::ToolSettingError;

/// Characters of an answer that an error shows.
const SHOWN_CHARS_MAX: usize = 300;

/// The client for the operator's servers; see the module.
#[derive(Debug, Clone)]
pub(crate) struct OperatorClient {
    http: Arc<Http>,
}

/// A request to such a server.
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a Url,
    pub(crate) headers: HeaderMap,
    /// Empty for no body.
    pub(crate) body: Bytes,
    /// Longest wait without any byte.
    pub(crate) silence: Duration,
}

impl OperatorClient {
    pub(crate) fn new(config: &HttpConfig) -> Result<Self, HttpSettingError> {
        let none = HiddenUrl::default;
        let config = HttpConfig {
            guard: false,
            proxy: none(),
            proxy_http: none(),
            proxy_https: none(),
            ..config.clone()
        };
        Self::guarded(&config)
    }

    /// The client for servers that a workflow names: with guard and proxies, as in the settings.
    pub(crate) fn guarded(config: &HttpConfig) -> Result<Self, HttpSettingError> {
        Http::new(config).map(|http| Self { http: Arc::new(http) })
    }

    pub(crate) async fn send(&self, request: Request<'_>) -> Result<Answer, CallError> {
        let Request { method, url, mut headers, body, silence } = request;
        // Bodies read here are not unpacked.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let private = headers.keys().cloned().collect();
        let bounds = &self.http.bounds;
        let call = Call {
            method,
            url: url.clone(),
            headers,
            body: if body.is_empty() { Vec::new() } else { vec![body] },
            private,
            waits: Waits { connect: bounds.connect, write: bounds.write, read: silence },
            verify: bounds.ssl_verify,
        };
        self.http.send(call).await
    }
}

/// Reads the whole body of an answer.
pub(crate) async fn whole(answer: &mut Answer, max: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(piece) = answer.piece().await.map_err(|error| error.to_string())? {
        bytes.extend_from_slice(&piece);
        if bytes.len() as u64 > max {
            return Err(format!("the answer has more than {max} bytes (tools.answer_bytes_max)"));
        }
    }
    Ok(bytes)
}

/// The media type of an answer, without parameters.
pub(crate) fn content_type(answer: &Answer) -> String {
    let text = answer.response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    text.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The start of an answer, for an error message.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match text.trim().char_indices().nth(SHOWN_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text.trim()[..at]),
        None => text.trim().to_owned(),
    }
}

/// Parses an address of the settings. It must not contain user and password.
pub(crate) fn address(key: &str, text: &str) -> Result<Url, ToolSettingError> {
    let wrong =
        |reason: &str| ToolSettingError::new(key, format!("must be an http:// or https:// URL: {reason}"));
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("the scheme or the host is wrong"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("give user and password as a header"));
    }
    Ok(url)
}

/// Parses headers of the settings.
pub(crate) fn headers<'a>(
    key: &str,
    given: impl Iterator<Item = (&'a String, Hidden)>,
) -> Result<HeaderMap, ToolSettingError> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let wrong = |reason: &str| ToolSettingError::new(key, format!("{name}: {reason}"));
        let parsed: HeaderName = name.parse().map_err(|_| wrong("is not a valid header name"))?;
        headers.insert(parsed, secret(&value.0).ok_or_else(|| wrong("its value cannot be sent"))?);
    }
    Ok(headers)
}

/// Adds a key as `Authorization: Bearer`, unless it is empty.
pub(crate) fn bearer(headers: &mut HeaderMap, key: &str, text: &str) -> Result<(), ToolSettingError> {
    if !text.is_empty() {
        let value = secret(&format!("Bearer {text}"));
        headers.insert(AUTHORIZATION, value.ok_or_else(|| ToolSettingError::new(key, "it cannot be sent"))?);
    }
    Ok(())
}

/// A header value that logs do not show.
pub(crate) fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_repeats_of_a_secret_is_hidden() {
        let url = Url::parse("http://host/").unwrap();
        let given =
            [("x-key".to_owned(), Hidden("s3cret".into())), ("x-short".to_owned(), Hidden("a".into()))];
        let mut headers = headers("k", given.iter().map(|(name, value)| (name, value.clone()))).unwrap();
        bearer(&mut headers, "k", "hush hush").unwrap();
        headers.insert("accept", HeaderValue::from_static("application/json"));
        for (text, shown) in [
            ("no key s3cret a", "no key *** a"),
            ("Bearer hush hush", "***"),
            ("wants application/json", "wants application/json"),
        ] {
            assert_eq!(crate::outside::hide::Hide::of_request(&headers, &url).text(text), shown);
        }
        assert!(!format!("{headers:?}").contains("s3cret"));
    }
}
