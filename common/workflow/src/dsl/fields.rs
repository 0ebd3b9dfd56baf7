//! Reads fields of a configuration as leniently as Dify does: numbers and booleans may be written as text.
//! Each invalid field is one problem, at its own path.

use serde_json::Value as Json;

use super::Problems;
use tidemill_base::value::JsonMap;

/// The code of a configuration that does not fit its node type.
pub(crate) const BUILD_FAILED: &str = "graph.build_failed";

/// Names the kind of a JSON value, for messages.
pub(crate) fn kind_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(n) if n.is_f64() => "a float",
        Json::Number(_) => "an integer",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "a mapping",
    }
}

/// Reads an integer; also accepts `3.0`, `"3"` and booleans, as pydantic does.
pub(crate) fn lax_integer(value: &Json) -> Option<i64> {
    match value {
        Json::Bool(b) => Some(i64::from(*b)),
        // The cast saturates; a fractional or too large number differs from its cast.
        Json::Number(n) => n.as_i64().or_else(|| {
            let float = n.as_f64()?;
            (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
        }),
        Json::String(text) => text.trim().parse().ok(),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// Reads a boolean; also accepts 0, 1 and the words that pydantic accepts.
pub(crate) fn lax_bool(value: &Json) -> Option<bool> {
    match value {
        Json::Bool(b) => Some(*b),
        Json::Number(n) => match n.as_f64() {
            Some(1.0) => Some(true),
            Some(0.0) => Some(false),
            Some(_) | None => None,
        },
        Json::String(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "t" | "y" => Some(true),
            "false" | "0" | "no" | "off" | "f" | "n" => Some(false),
            _ => None,
        },
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// The fields of one mapping, with methods that report invalid ones.
pub(crate) struct Fields<'a> {
    map: &'a JsonMap,
    code: &'static str,
}

impl<'a> Fields<'a> {
    /// Fields whose problems are reported with `code`.
    pub(crate) fn new(map: &'a JsonMap, code: &'static str) -> Self {
        Self { map, code }
    }
    /// Returns the value of a field that is present and not null.
    pub(crate) fn given(&self, key: &str) -> Option<&'a Json> {
        self.map.get(key).filter(|value| !value.is_null())
    }
    /// Reports that a field is not `wanted`.
    pub(crate) fn wrong(&self, key: &str, wanted: &str, problems: &mut Problems) {
        let message = match self.map.get(key) {
            Some(value) => format!("`{key}` must be {wanted}, not {}", kind_of(value)),
            None => format!("`{key}` is missing; it must be {wanted}"),
        };
        problems.within(key, |problems| problems.error(self.code, message));
    }
    /// Reads a required text.
    pub(crate) fn text(&self, key: &str, problems: &mut Problems) -> Option<&'a str> {
        let text = self.map.get(key).and_then(Json::as_str);
        if text.is_none() {
            self.wrong(key, "a text", problems);
        }
        text
    }
    /// Reads a required, non-empty node id.
    pub(crate) fn id(&self, key: &str, problems: &mut Problems) -> Option<&'a str> {
        let id = self.map.get(key).and_then(Json::as_str).filter(|id| !id.is_empty());
        if id.is_none() {
            self.wrong(key, "the id of a node", problems);
        }
        id
    }
    /// Reads an integer of at least `least`; absent means the default. `None` after a problem was reported.
    pub(crate) fn integer(
        &self,
        key: &str,
        default: i64,
        least: i64,
        problems: &mut Problems,
    ) -> Option<i64> {
        let Some(value) = self.map.get(key) else { return Some(default) };
        let number = lax_integer(value).filter(|&n| n >= least);
        if number.is_none() {
            let message = format!("`{key}` must be a whole number of at least {least}, not {}", shown(value));
            problems.within(key, |problems| problems.error(self.code, message));
        }
        number
    }
    /// Reads a boolean; absent means the default. `None` after a problem was reported.
    pub(crate) fn boolean(&self, key: &str, default: bool, problems: &mut Problems) -> Option<bool> {
        let Some(value) = self.map.get(key) else { return Some(default) };
        let truth = lax_bool(value);
        if truth.is_none() {
            self.wrong(key, "true or false", problems);
        }
        truth
    }
    /// Reads a required field that must be one of `words`.
    pub(crate) fn one_of(&self, key: &str, words: &[&str], problems: &mut Problems) -> Option<&'a str> {
        let given = self.map.get(key);
        let word = given.and_then(Json::as_str).filter(|word| words.contains(word));
        if word.is_none() {
            let found = given.map_or_else(|| "nothing".to_owned(), shown);
            let message = format!("`{key}` must be one of {}, not {found}", words.join(", "));
            problems.within(key, |problems| problems.error(self.code, message));
        }
        word
    }
    /// Reads a required list.
    pub(crate) fn list(&self, key: &str, problems: &mut Problems) -> Option<&'a Vec<Json>> {
        let list = self.map.get(key).and_then(Json::as_array);
        if list.is_none() {
            self.wrong(key, "a list", problems);
        }
        list
    }
    /// Reads a required selector: a list of texts.
    pub(crate) fn selector(&self, key: &str, problems: &mut Problems) -> Option<Vec<String>> {
        let parts = self.map.get(key).and_then(Json::as_array).and_then(|parts| {
            parts.iter().map(|part| part.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        if parts.is_none() {
            self.wrong(key, "a selector: a list of texts", problems);
        }
        parts
    }
}

/// Formats a value for a message, cut to 80 characters.
pub(crate) fn shown(value: &Json) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_and_truth_values_may_be_written_as_text() {
        for (value, number, truth) in [
            (json!(1), Some(1), Some(true)),
            (json!("0"), Some(0), Some(false)),
            (json!(2.0), Some(2), None),
            (json!(2.5), None, None),
            (json!(true), Some(1), Some(true)),
            (json!("off"), None, Some(false)),
            (json!(null), None, None),
            (json!(1e300), None, None),
        ] {
            assert_eq!((lax_integer(&value), lax_bool(&value)), (number, truth), "{value}");
        }
    }
}
