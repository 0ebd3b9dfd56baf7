//! Reads JSON bodies as Dify's payload models do. The messages begin like those of its validation; the input and the link
//! at their end are left out.

use serde_json::Value as Json;
use tidemill_common::value::JsonMap;

use crate::api::error::ApiError;
use crate::api::request::Body;

/// A body, and the name of Dify's model for it. Keys that the model does not have are passed over.
pub(super) struct Payload {
    model: &'static str,
    map: JsonMap,
}

impl Payload {
    /// Reads a body.
    ///
    /// # Errors
    /// 400 when it is no JSON object.
    pub(super) fn read(model: &'static str, body: &Body) -> Result<Self, ApiError> {
        Ok(Self { model, map: body.dify_object()? })
    }

    /// Takes an object as the body.
    pub(super) fn of(model: &'static str, map: JsonMap) -> Self {
        Self { model, map }
    }

    /// 400 for a field, as Dify words it.
    pub(super) fn wrong(&self, field: &str, what: &str) -> ApiError {
        ApiError::invalid_param(format!("1 validation error for {}\n{field}\n  {what}", self.model))
    }

    /// A value; null counts as absent.
    pub(super) fn value(&self, key: &str) -> Option<&Json> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// A text.
    pub(super) fn text(&self, key: &str) -> Result<Option<&str>, ApiError> {
        match self.value(key) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "Input should be a valid string")),
        }
    }

    /// A text that must be there.
    pub(super) fn required(&self, key: &str) -> Result<&str, ApiError> {
        self.text(key)?.ok_or_else(|| self.wrong(key, "Field required"))
    }

    /// A text with a number of characters.
    pub(super) fn sized(&self, key: &str, least: usize, most: usize) -> Result<Option<&str>, ApiError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let count = text.chars().count();
        let unit = |count: usize| if count == 1 { "character" } else { "characters" };
        if count < least {
            let what = format!("String should have at least {least} {}", unit(least));
            return Err(self.wrong(key, &what));
        }
        if count > most {
            return Err(self.wrong(key, &format!("String should have at most {most} {}", unit(most))));
        }
        Ok(Some(text))
    }

    /// A text that is one of some words.
    pub(super) fn word(&self, key: &str, words: &[&str]) -> Result<Option<&str>, ApiError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        if words.contains(&text) {
            return Ok(Some(text));
        }
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let words = match quoted.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            Some(_) | None => quoted.concat(),
        };
        Err(self.wrong(key, &format!("Input should be {words}")))
    }

    /// A truth.
    pub(super) fn truth(&self, key: &str) -> Result<Option<bool>, ApiError> {
        match self.value(key) {
            None => Ok(None),
            Some(Json::Bool(given)) => Ok(Some(*given)),
            Some(_) => Err(self.wrong(key, "Input should be a valid boolean")),
        }
    }

    /// A list; `None` when it is absent.
    pub(super) fn list(&self, key: &str) -> Result<Option<&[Json]>, ApiError> {
        match self.value(key) {
            None => Ok(None),
            Some(Json::Array(items)) => Ok(Some(items)),
            Some(_) => Err(self.wrong(key, "Input should be a valid list")),
        }
    }

    /// A list of texts; empty when it is absent.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, ApiError> {
        let items = self.list(key)?.unwrap_or_default().iter().enumerate();
        let text = |(at, item): (usize, &Json)| {
            let wrong = || self.wrong(&format!("{key}.{at}"), "Input should be a valid string");
            item.as_str().map(str::to_owned).ok_or_else(wrong)
        };
        items.map(text).collect()
    }

    /// An object; `None` when it is absent.
    pub(super) fn object(&self, key: &str) -> Result<Option<&JsonMap>, ApiError> {
        match self.value(key) {
            None => Ok(None),
            Some(Json::Object(map)) => Ok(Some(map)),
            Some(_) => Err(self.wrong(key, "Input should be a valid dictionary")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wrong_fields_are_reported_like_on_dify() {
        let map = json!({"name": "", "long": "abc", "mode": "x", "ids": ["a", 1], "on": 1, "no": null});
        let payload = Payload::of("P", map.as_object().cloned().unwrap_or_default());
        let message = |error: ApiError| error.message().to_owned();
        let begin = "1 validation error for P\n";
        for (refused, expected) in [
            (payload.required("missing").map(drop), "missing\n  Field required"),
            (payload.sized("name", 1, 2).map(drop), "name\n  String should have at least 1 character"),
            (payload.sized("long", 1, 2).map(drop), "long\n  String should have at most 2 characters"),
            (payload.word("mode", &["a", "b", "c"]).map(drop), "mode\n  Input should be 'a', 'b' or 'c'"),
            (payload.texts("ids").map(drop), "ids.1\n  Input should be a valid string"),
            (payload.truth("on").map(drop), "on\n  Input should be a valid boolean"),
            (payload.list("on").map(drop), "on\n  Input should be a valid list"),
            (payload.object("on").map(drop), "on\n  Input should be a valid dictionary"),
        ] {
            assert_eq!(refused.map_err(message), Err(format!("{begin}{expected}")));
        }
        assert_eq!(payload.text("no").map_err(message), Ok(None));
    }
}
