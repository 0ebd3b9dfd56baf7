//! Hides secrets in texts of other servers, which may repeat them.

use serde_json::Value as Json;
use tidemill_common::value::JsonMap;
use url::form_urlencoded::Serializer;

/// Shortest secret that is searched for; shorter ones appear in many words.
const SECRET_CHARS_MIN: usize = 4;

/// The secrets, in all forms in which they may appear.
#[derive(Default)]
pub(super) struct Hide(Vec<String>);

impl Hide {
    pub(super) fn of(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut words = Vec::new();
        for secret in secrets {
            // The key is the last word of `Bearer …` and similar values.
            let last = secret.rsplit(' ').next().unwrap_or_default().to_owned();
            for word in [secret, last] {
                if word.len() >= SECRET_CHARS_MIN {
                    let encoded: String = Serializer::new(String::new()).append_key_only(&word).finish();
                    words.extend([word, encoded]);
                }
            }
        }
        // Longer ones first, because one may contain another.
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        words.dedup();
        Self(words)
    }

    /// Hides the secrets in a text.
    pub(super) fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, word| text.replace(word, "***"))
    }

    /// Hides the secrets in a value.
    pub(super) fn value(&self, value: &Json) -> Json {
        match value {
            Json::String(text) => self.text(text).into(),
            Json::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Json::Object(map) => Json::Object(self.map(map)),
            Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
        }
    }

    /// Hides the secrets in an object.
    pub(super) fn map(&self, map: &JsonMap) -> JsonMap {
        map.iter().map(|(key, value)| (self.text(key), self.value(value))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn xc_07_a_secret_is_hidden_wherever_it_stands_and_however_it_is_written() {
        let hide = Hide::of(["Bearer k&ey-1".to_owned(), "abc".to_owned()]);
        assert_eq!(hide.text("k&ey-1, Bearer k&ey-1, k%26ey-1, abc"), "***, ***, ***, abc");
        assert_eq!(hide.value(&json!({"k&ey-1": ["k&ey-1", 1]})), json!({"***": ["***", 1]}));
    }
}
