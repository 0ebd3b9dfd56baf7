//! Hides secrets of the settings and of registered entries in texts of other servers, which may repeat what they were
//! sent.

use reqwest::Url;
use reqwest::header::HeaderMap;
use serde_json::Value as Json;
use tidemill_common::value::JsonMap;
use tidemill_common::value::secrets::{CHARS_MIN, Secrets};

use crate::outside::providers::errors::ModelError;

/// Shortest secret that is searched for; shorter ones appear in many words.
const SECRET_CHARS_MIN: usize = 4;

/// The secrets, in all their spellings.
#[derive(Debug, Default)]
pub(crate) struct Hide(Secrets);

impl Hide {
    pub(crate) fn of(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut words: Vec<String> = Vec::new();
        for secret in secrets {
            // The key is the last word of `Bearer …` and similar values.
            let last = secret.rsplit(' ').next().unwrap_or_default().to_owned();
            words.extend([secret, last].into_iter().filter(|word| word.len() >= SECRET_CHARS_MIN));
        }
        words.sort_unstable();
        words.dedup();
        Self(Secrets::unnamed(words.iter().map(String::as_str)))
    }

    /// The secrets of a request to a server of the operator: headers marked as sensitive, and the query of the address,
    /// where some servers want a key.
    pub(crate) fn of_request(headers: &HeaderMap, url: &Url) -> Self {
        let values = headers.values().filter(|value| value.is_sensitive());
        let values = values.filter_map(|value| value.to_str().ok()).map(str::to_owned);
        Self::of(values.chain(queried(url.as_str())))
    }

    /// Hides the secrets in a text.
    pub(crate) fn text(&self, text: &str) -> String {
        self.0.masked(text.to_owned())
    }

    /// Hides the secrets that a provider may have repeated in its message.
    pub(crate) fn in_error(&self, error: ModelError) -> ModelError {
        ModelError { message: self.text(&error.message), ..error }
    }

    /// Hides the secrets in a value.
    pub(crate) fn value(&self, value: &Json) -> Json {
        match value {
            Json::String(text) => self.text(text).into(),
            Json::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Json::Object(map) => Json::Object(self.map(map)),
            Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
        }
    }

    /// Hides the secrets in an object.
    pub(crate) fn map(&self, map: &JsonMap) -> JsonMap {
        map.iter().map(|(key, value)| (self.text(key), self.value(value))).collect()
    }
}

/// The query of an address, whole and value by value, without short values: those are options, and words that appear
/// elsewhere.
pub(crate) fn queried(url: &str) -> Vec<String> {
    let Ok(url) = Url::parse(url) else { return Vec::new() };
    let values = url.query_pairs().map(|(_, value)| value.into_owned());
    let all = values.chain(url.query().map(str::to_owned));
    all.filter(|value| value.chars().count() >= CHARS_MIN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn xc_07_a_secret_is_hidden_wherever_it_stands_and_however_it_is_written() {
        let hide = Hide::of(["Bearer k&ey-1".to_owned(), "abc".to_owned()]);
        assert_eq!(hide.text("k&ey-1, Bearer k&ey-1, abc"), "***, ***, abc");
        let long = Hide::of(["Bearer k&ey-1\"23".to_owned()]);
        for written in ["k&ey-1\"23", "k%26ey-1%2223", "k&ey-1\\\"23", "k&ey-1\\\\\\\"23"] {
            assert_eq!(long.text(written), "***");
        }
        // base64 of `u:` and it.
        assert!(!long.text("dTprJmV5LTEiMjM=").contains("rJmV5LTEiMj"));
        assert_eq!(hide.value(&json!({"k&ey-1": ["k&ey-1", 1]})), json!({"***": ["***", 1]}));
    }

    #[test]
    fn a_key_that_a_provider_repeats_is_masked() {
        let error = ModelError::of_status("p", 401, "bad key sk-123");
        let error = Hide::of(["sk-123".to_owned()]).in_error(error);
        assert!(error.message.ends_with("bad key ***"), "{error}");
    }

    #[test]
    fn the_query_of_an_address_is_hidden_with_the_headers() {
        let mut headers = HeaderMap::new();
        headers.insert(
            "x-key",
            crate::outside::tools::operator_client::secret("Bearer s3cret").expect("a value"),
        );
        headers.insert("x-open", "open".parse().expect("a value"));
        let url = Url::parse("http://host/path?mode=fast&token=a%2Fb-0123456").expect("an address");
        let hide = Hide::of_request(&headers, &url);
        let said =
            "GET /path?mode=fast&token=a%2Fb-0123456 x-key: Bearer s3cret x-open: open a/b-0123456 fast";
        assert_eq!(hide.text(said), "GET /path?*** x-key: *** x-open: open *** fast");
    }
}
