//! What a node waits for, as the part of a pause's JSON that the node wrote. Whoever opens the pause adds who, where
//! and when beside it; such fields are passed over here.
//!
//! | field | form |
//! | --- | --- |
//! | `content`, `inputs`, `actions`, `defaults` | as in [`PauseRequest`] |
//! | `timeout_s` | seconds; absent when the pause never expires |
//! | `simple` | `true` for the simple version, else absent |
//! | `message` | absent when empty |

use serde_json::Value as Json;

use super::WireError;
use crate::nodes::{PauseKind, PauseRequest};
use crate::value::JsonMap;

const WHAT: &str = "a pause";

impl PauseRequest {
    /// The fields of the pause's JSON that say what is waited for; always an object.
    pub fn to_json(&self) -> Json {
        let mut map = JsonMap::new();
        map.insert("content".into(), self.content.as_str().into());
        map.insert("inputs".into(), self.inputs.clone());
        map.insert("actions".into(), self.actions.clone());
        map.insert("defaults".into(), Json::Object(self.defaults.clone()));
        if let Some(timeout_s) = self.timeout_s {
            map.insert("timeout_s".into(), timeout_s.into());
        }
        match self.kind {
            PauseKind::Form => {}
            PauseKind::Simple => {
                map.insert("simple".into(), true.into());
            }
        }
        if !self.message.is_empty() {
            map.insert("message".into(), self.message.as_str().into());
        }
        Json::Object(map)
    }

    /// Reads what [`PauseRequest::to_json`] wrote, from among a pause's other fields.
    ///
    /// # Errors
    /// Not an object, or a field of the wrong shape.
    pub fn from_json(json: &Json) -> Result<Self, WireError> {
        let map = json.as_object().ok_or_else(|| WireError::malformed(WHAT, "not an object"))?;
        let simple = field(map, "simple", Json::as_bool, "true or false")?.unwrap_or(false);
        let text =
            |key| field(map, key, Json::as_str, "a text").map(|text| text.unwrap_or_default().to_owned());
        let list = |key| {
            field(map, key, Json::as_array, "a list").map(|list| list.cloned().unwrap_or_default().into())
        };
        Ok(Self {
            kind: if simple { PauseKind::Simple } else { PauseKind::Form },
            content: text("content")?,
            inputs: list("inputs")?,
            actions: list("actions")?,
            defaults: field(map, "defaults", Json::as_object, "an object")?.cloned().unwrap_or_default(),
            timeout_s: field(map, "timeout_s", Json::as_u64, "a number of seconds")?,
            message: text("message")?,
        })
    }
}

/// A field that may be absent; an error when it is there and not what it must be.
fn field<'a, T>(
    map: &'a JsonMap,
    key: &str,
    read: impl FnOnce(&'a Json) -> Option<T>,
    wanted: &str,
) -> Result<Option<T>, WireError> {
    let Some(value) = map.get(key) else { return Ok(None) };
    read(value).map(Some).ok_or_else(|| WireError::malformed(WHAT, format!("{key} is not {wanted}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form() -> PauseRequest {
        PauseRequest {
            kind: PauseKind::Form,
            content: "Note: {{#$output.note#}}".into(),
            inputs: json!([{"type": "paragraph", "output_variable_name": "note", "default": null}]),
            actions: json!([{"id": "ok", "title": "OK", "button_style": "default"}]),
            defaults: JsonMap::from_iter([("note".into(), json!(null))]),
            timeout_s: Some(10_800),
            message: String::new(),
        }
    }

    #[test]
    fn a_pause_reads_back_from_among_other_fields() {
        let simple = PauseRequest {
            kind: PauseKind::Simple,
            inputs: json!([]),
            actions: json!([]),
            timeout_s: None,
            message: "needs approval".into(),
            ..form()
        };
        for pause in [form(), simple] {
            let mut json = pause.to_json();
            json["pause_id"] = "p1".into();
            json["status"] = "pending".into();
            assert_eq!(PauseRequest::from_json(&json), Ok(pause), "{json}");
        }
    }

    #[test]
    fn what_is_not_needed_is_left_out() {
        let keys: Vec<String> = form().to_json().as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["content", "inputs", "actions", "defaults", "timeout_s"]);
    }

    #[test]
    fn fields_of_the_wrong_shape_are_named() {
        for (json, said) in [
            (json!([]), "not an object"),
            (json!({"content": 5}), "content is not a text"),
            (json!({"inputs": {}}), "inputs is not a list"),
            (json!({"timeout_s": -1}), "timeout_s is not a number of seconds"),
        ] {
            let error = PauseRequest::from_json(&json).unwrap_err().to_string();
            assert_eq!(error, format!("a pause cannot be read: {said}"));
        }
    }
}
