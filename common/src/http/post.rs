//! Sends a body to an address that an operator names, once and without following redirects: for webhooks.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Method, Url};

use crate::http::watch::Waits;
use crate::http::{Answer, Call, CallError, Http};

/// Returns true for an address of HTTP with a host, and without user and password.
pub fn is_address(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        let has_user = !url.username().is_empty() || url.password().is_some();
        matches!(url.scheme(), "http" | "https") && url.host_str().is_some() && !has_user
    })
}

impl Http {
    /// Posts a body. Each stage of the call may take `within`. A redirect is an answer like others.
    ///
    /// # Errors
    /// [`CallError`].
    pub async fn post_once(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
        within: Duration,
    ) -> Result<Answer, CallError> {
        let url = Url::parse(url).map_err(|_| CallError::Transport("the address is invalid".into()))?;
        let waits = Waits { connect: within, write: within, read: within };
        let (private, verify) = (Vec::new(), self.bounds.ssl_verify);
        let call = Call { method: Method::POST, url, headers, body: vec![body], private, waits, verify };
        self.send_once(&call).await
    }
}

#[cfg(test)]
mod tests {
    use super::is_address;

    #[test]
    fn an_address_is_of_http_and_has_no_user() {
        for (text, expected) in [
            ("https://a.example/hook?x=1", true),
            ("http://127.0.0.1:80/", true),
            ("ftp://a.example", false),
            ("https://user@a.example", false),
            ("https://:pw@a.example", false),
            ("a.example/hook", false),
            ("", false),
        ] {
            assert_eq!(is_address(text), expected, "{text}");
        }
    }
}
