//! The settings of cross-origin requests (CORS): which pages may call the API from a browser.

use axum::http::{HeaderName, HeaderValue, Method};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{Config, ConfigError};

/// The origin that stands for all.
pub const ANY_ORIGIN: &str = "*";

/// `[cors]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CorsConfig {
    /// Origins whose pages may call `/v1`, such as `https://chat.example.com`; `*`: all (as Dify); empty: none.
    pub origins: Vec<String>,
    /// Origins whose pages may call `/api/v1`. A page that calls it has the admin key.
    pub native_origins: Vec<String>,
    /// Methods that those pages may use.
    pub methods: Vec<String>,
    /// Headers that those pages may send.
    pub headers: Vec<String>,
    /// Headers of a response that those pages may read.
    pub exposed_headers: Vec<String>,
}

impl Default for CorsConfig {
    fn default() -> Self {
        let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
        Self {
            origins: owned(&[ANY_ORIGIN]),
            native_origins: Vec::new(),
            methods: owned(&["GET", "PUT", "POST", "DELETE", "OPTIONS", "PATCH"]),
            // Dify's, then those that only this API reads.
            headers: owned(&[
                "Content-Type",
                "X-App-Code",
                "X-App-Passport",
                "Authorization",
                "Last-Event-ID",
                "Idempotency-Key",
                "If-None-Match",
                "X-Request-Id",
                "X-Trace-Id",
            ]),
            exposed_headers: owned(&[
                "X-Version",
                "X-Env",
                "X-Trace-Id",
                "X-Request-Id",
                "ETag",
                "Retry-After",
            ]),
        }
    }
}

impl Config {
    /// Checks the settings of cross-origin requests; `origin` as for [`Config::check`].
    pub(super) fn check_cors<'a>(&self, origin: &impl Fn(&str) -> &'a str) -> Result<(), ConfigError> {
        let wrong = |key: &str, reason: String| ConfigError::Value {
            key: key.into(),
            origin: origin(key).into(),
            reason,
        };
        let cors = &self.cors;
        for (key, origins) in [("cors.origins", &cors.origins), ("cors.native_origins", &cors.native_origins)]
        {
            if let Some(bad) = origins.iter().find(|one| !is_origin(one)) {
                let expected = "is not an origin such as https://chat.example.com, without a path, or *";
                return Err(wrong(key, format!("{bad:?} {expected}")));
            }
        }
        for (key, names) in [("cors.headers", &cors.headers), ("cors.exposed_headers", &cors.exposed_headers)]
        {
            if let Some(bad) = names.iter().find(|one| HeaderName::from_bytes(one.as_bytes()).is_err()) {
                return Err(wrong(key, format!("{bad:?} is not the name of a header")));
            }
        }
        if let Some(bad) = cors.methods.iter().find(|one| Method::from_bytes(one.as_bytes()).is_err()) {
            return Err(wrong("cors.methods", format!("{bad:?} is not a method such as GET")));
        }
        Ok(())
    }
}

/// True for an origin as browsers send it. An empty list in the environment is one empty text.
fn is_origin(text: &str) -> bool {
    let is_web = || Url::parse(text).is_ok_and(|url| url.origin().ascii_serialization() == text);
    (["", ANY_ORIGIN].contains(&text) || is_web()) && HeaderValue::from_str(text).is_ok()
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Sources};

    #[test]
    fn values_that_no_browser_sends_are_refused_by_name() {
        for (key, text, expected) in [
            ("cors.origins", "*", None),
            ("cors.origins", "https://a.example, http://localhost:3000", None),
            ("cors.origins", "", None),
            ("cors.origins", "https://a.example/", Some("\"https://a.example/\" is not an origin")),
            ("cors.native_origins", "a.example", Some("\"a.example\" is not an origin")),
            ("cors.headers", "X-One, X Two", Some("\"X Two\" is not the name of a header")),
            ("cors.exposed_headers", "é", Some("is not the name of a header")),
            ("cors.methods", "GET, (", Some("\"(\" is not a method")),
        ] {
            let flags = vec![(key.to_string(), text.to_string())];
            let loaded = Config::load(&Sources { flags, ..Sources::default() });
            match (loaded, expected) {
                (Ok(_), None) => {}
                (Err(error), Some(expected)) => {
                    let error = error.to_string();
                    assert!(error.contains(key) && error.contains(expected), "{error}");
                }
                (found, _) => panic!("{key} = {text:?}: {:?}", found.err().map(|error| error.to_string())),
            }
        }
    }
}
