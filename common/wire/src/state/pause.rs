//! The part of a pause's JSON that the node wrote: the request. The engine adds node, id and times beside it
//! when it opens the pause; those fields are skipped here.
//!
//! | field | form |
//! | --- | --- |
//! | `kind` | as [`PauseKind::name`]; absent for both versions of Dify's form |
//! | `content`, `inputs`, `actions`, `defaults` | of a form, as in [`PauseRequest`] |
//! | `timeout_s` | seconds; absent when the form never expires |
//! | `simple` | `true` for the simple version, else absent |
//! | `message` | absent when empty |
//! | `prompt`, `schema`, `options`, `defaults` | of all others; absent when null |
//! | `timeout_ms`, `on_timeout` | of all others; absent when nothing expires |
//! | other fields | of all others: the details |

use serde_json::Value as Json;

use crate::WireError;
use tidemill_base::value::JsonMap;
use tidemill_workflow::nodes::{OnTimeout, PauseKind, PauseRequest};

const WHAT: &str = "a pause";

/// Names that details cannot use: the fields above, and those that the engine adds.
const OWN: [&str; 24] = [
    "pause_id",
    "kind",
    "status",
    "node_id",
    "node_title",
    "node_execution_id",
    "frame",
    "step",
    "opened_at",
    "expires_at",
    "content",
    "inputs",
    "actions",
    "defaults",
    "timeout_s",
    "simple",
    "message",
    "prompt",
    "schema",
    "options",
    "timeout_ms",
    "on_timeout",
    "form_token",
    "answer",
];

/// Writes the request as fields of the pause's JSON; always an object.
pub fn to_json(request: &PauseRequest) -> Json {
    let mut map = JsonMap::new();
    if request.kind.is_form() {
        write_form(request, &mut map)
    } else {
        write_question(request, &mut map)
    }
    Json::Object(map)
}

fn write_form(request: &PauseRequest, map: &mut JsonMap) {
    map.insert("content".into(), request.content.as_str().into());
    map.insert("inputs".into(), request.inputs.clone());
    map.insert("actions".into(), request.actions.clone());
    map.insert("defaults".into(), request.defaults.clone());
    if let Some(timeout_s) = request.timeout_s {
        map.insert("timeout_s".into(), timeout_s.into());
    }
    if request.kind == PauseKind::Simple {
        map.insert("simple".into(), true.into());
    }
    if !request.message.is_empty() {
        map.insert("message".into(), request.message.as_str().into());
    }
}

fn write_question(request: &PauseRequest, map: &mut JsonMap) {
    map.insert("kind".into(), request.kind.name().into());
    map.insert("prompt".into(), request.content.as_str().into());
    let present =
        [("schema", &request.schema), ("options", &request.options), ("defaults", &request.defaults)];
    for (name, value) in present.into_iter().filter(|(_, value)| !value.is_null()) {
        map.insert(name.into(), value.clone());
    }
    if let Some(timeout_ms) = request.timeout_ms.filter(|ms| *ms > 0) {
        map.insert("timeout_ms".into(), timeout_ms.into());
        map.insert("on_timeout".into(), request.on_timeout.name().into());
    }
    for (name, value) in request.details.iter().filter(|(name, _)| !OWN.contains(&name.as_str())) {
        map.insert(name.clone(), value.clone());
    }
}

/// Reads the request from a pause's JSON and ignores other fields.
///
/// # Errors
/// Not an object, or a field of the wrong shape.
pub fn from_json(json: &Json) -> Result<PauseRequest, WireError> {
    let map = json.as_object().ok_or_else(|| WireError::malformed(WHAT, "not an object"))?;
    let name = field(map, "kind", Json::as_str, "a text")?.unwrap_or(PauseKind::Form.name());
    let unknown = || WireError::Unknown { what: WHAT, kind: name.chars().take(80).collect() };
    let kind = PauseKind::from_name(name).ok_or_else(unknown)?;
    if kind.is_form() { read_form(map) } else { read_question(kind, map) }
}

fn read_form(map: &JsonMap) -> Result<PauseRequest, WireError> {
    let simple = field(map, "simple", Json::as_bool, "true or false")?.unwrap_or(false);
    let list =
        |key| field(map, key, Json::as_array, "a list").map(|list| list.cloned().unwrap_or_default().into());
    let defaults = field(map, "defaults", Json::as_object, "an object")?.cloned().unwrap_or_default();
    Ok(PauseRequest {
        kind: if simple { PauseKind::Simple } else { PauseKind::Form },
        content: text(map, "content")?,
        inputs: list("inputs")?,
        actions: list("actions")?,
        defaults: Json::Object(defaults),
        timeout_s: field(map, "timeout_s", Json::as_u64, "a number of seconds")?,
        message: text(map, "message")?,
        ..PauseRequest::default()
    })
}

fn read_question(kind: PauseKind, map: &JsonMap) -> Result<PauseRequest, WireError> {
    let value = |key: &str| map.get(key).cloned().unwrap_or_default();
    let on_timeout = field(map, "on_timeout", Json::as_str, "a text")?;
    let unknown = |name: &str| WireError::Unknown { what: "the end of a pause", kind: name.to_string() };
    let details = map.iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
    Ok(PauseRequest {
        kind,
        content: text(map, "prompt")?,
        schema: value("schema"),
        options: value("options"),
        defaults: value("defaults"),
        timeout_ms: field(map, "timeout_ms", Json::as_u64, "a number of milliseconds")?,
        on_timeout: match on_timeout {
            Some(name) => OnTimeout::from_name(name).ok_or_else(|| unknown(name))?,
            None => OnTimeout::default(),
        },
        details: details.map(|(name, value)| (name.clone(), value.clone())).collect(),
        ..PauseRequest::default()
    })
}

fn text(map: &JsonMap, key: &str) -> Result<String, WireError> {
    field(map, key, Json::as_str, "a text").map(|text| text.unwrap_or_default().to_owned())
}

/// Reads an optional field; an error when it has the wrong shape.
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
            content: "Note: {{#$output.note#}}".into(),
            inputs: json!([{"type": "paragraph", "output_variable_name": "note", "default": null}]),
            actions: json!([{"id": "ok", "title": "OK", "button_style": "default"}]),
            defaults: json!({"note": null}),
            timeout_s: Some(10_800),
            ..PauseRequest::default()
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
        let question = PauseRequest {
            options: json!([{"id": "a", "label": "A"}]),
            defaults: json!("a"),
            timeout_ms: Some(200),
            on_timeout: OnTimeout::Branch,
            details: JsonMap::from_iter([
                ("risk".into(), json!("high")),
                ("current".into(), json!({"q": null})),
            ]),
            ..PauseRequest::asking(PauseKind::UserInteraction, "Which?", json!({"enum": ["a"]}))
        };
        let confirm = PauseRequest::asking(PauseKind::Confirm, "Go?", json!(null));
        for pause in [form(), simple, question, confirm] {
            let mut json = to_json(&pause);
            json["pause_id"] = "p1".into();
            json["status"] = "pending".into();
            assert_eq!(from_json(&json), Ok(pause), "{json}");
        }
    }

    #[test]
    fn defaults_are_left_out() {
        let keys = |request: &PauseRequest| {
            to_json(request).as_object().unwrap().keys().cloned().collect::<Vec<String>>()
        };
        assert_eq!(keys(&form()), ["content", "inputs", "actions", "defaults", "timeout_s"]);
        let confirm = PauseRequest::asking(PauseKind::Confirm, "Go?", json!(null));
        assert_eq!(keys(&confirm), ["kind", "prompt"]);
    }

    #[test]
    fn a_detail_cannot_pass_for_who_asks() {
        let mut confirm = PauseRequest::asking(PauseKind::Confirm, "Go?", json!(null));
        confirm.details.insert("status".into(), "answered".into());
        assert_eq!(to_json(&confirm).get("status"), None);
    }

    #[test]
    fn fields_of_the_wrong_shape_are_named() {
        for (json, said) in [
            (json!([]), "not an object"),
            (json!({"content": 5}), "content is not a text"),
            (json!({"inputs": {}}), "inputs is not a list"),
            (json!({"timeout_s": -1}), "timeout_s is not a number of seconds"),
            (json!({"kind": "confirm", "timeout_ms": -1}), "timeout_ms is not a number of milliseconds"),
        ] {
            let error = from_json(&json).unwrap_err().to_string();
            assert_eq!(error, format!("a pause cannot be read: {said}"));
        }
        let newer = from_json(&json!({"kind": "telepathy"})).unwrap_err();
        assert!(matches!(newer, WireError::Unknown { .. }), "{newer}");
    }
}
