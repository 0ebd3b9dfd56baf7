//! Asks a server what the file at a URL is, without fetching it: by HEAD, and where that is not answered by a GET of one
//! byte, whose body is not read. All addresses and redirects are checked as for any other call.

use std::time::Duration;

use reqwest::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderValue, RANGE};
use reqwest::{Method, StatusCode, Url};

use crate::http::read::kind_of;
use crate::http::watch::Waits;
use crate::http::{Call, Http};

/// What a server says about a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// The name in its `Content-Disposition`, decoded.
    pub name: Option<String>,
    /// Its `Content-Type`.
    pub content_type: Option<String>,
    /// In bytes.
    pub size: Option<u64>,
    /// The URL after all redirects.
    pub last_url: String,
}

impl Http {
    /// Asks about a file for at most this time. `None` if the server does not answer, refuses, or may not be called.
    pub async fn ask(&self, url: &str, within: Duration) -> Option<Said> {
        let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        // A server that is silent on HEAD leaves time for GET.
        let head = tokio::time::timeout(within / 2, self.ask_by(Method::HEAD, &url, within)).await;
        if let Ok(Some(said)) = head {
            return Some(said);
        }
        tokio::time::timeout(within / 2, self.ask_by(Method::GET, &url, within)).await.ok().flatten()
    }

    async fn ask_by(&self, method: Method, url: &Url, within: Duration) -> Option<Said> {
        let mut headers = HeaderMap::new();
        if method == Method::GET {
            headers.insert(RANGE, HeaderValue::from_static("bytes=0-0"));
        }
        let mut url = url.clone();
        // These cannot fail for a URL with a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let call = Call {
            method,
            url,
            headers,
            body: Vec::new(),
            private: Vec::new(),
            waits: Waits { connect: within, write: within, read: within },
            verify: self.bounds.ssl_verify,
        };
        let sent = self.send(call).await;
        let answer =
            sent.inspect_err(|error| tracing::debug!(%error, "a server says nothing about its file")).ok()?;
        said(answer.response.status(), answer.response.headers(), answer.response.url().as_str())
    }
}

/// Reads what an answer says, or `None` if it is a refusal.
fn said(status: StatusCode, headers: &HeaderMap, last_url: &str) -> Option<Said> {
    if !status.is_success() {
        return None;
    }
    let kind = kind_of(headers);
    Some(Said {
        name: kind.filename(),
        content_type: Some(kind.content_type).filter(|content_type| !content_type.is_empty()),
        size: size(status, headers),
        last_url: last_url.to_owned(),
    })
}

/// The size of the whole file. That of a compressed answer says nothing about it.
fn size(status: StatusCode, headers: &HeaderMap) -> Option<u64> {
    if headers.contains_key(CONTENT_ENCODING) {
        return None;
    }
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let size = match status {
        StatusCode::PARTIAL_CONTENT => text(CONTENT_RANGE)?.rsplit_once('/')?.1,
        _ => text(CONTENT_LENGTH)?,
    };
    size.trim().parse().ok()
}

#[cfg(test)]
mod tests;
