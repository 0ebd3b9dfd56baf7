//! Converts between MCP and tools: schemas to parameters, and results to messages, as in Dify.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;
use tidemill_common::limits::{CONTENT_TYPE_CHARS_MAX, CONTENT_TYPES_NAMED_MAX};
use tidemill_common::nodes::llm::usage::reported;
use tidemill_common::nodes::tool::{Declaration, Form, Message, Parameter, ParameterType};
use tidemill_common::value::JsonMap;
use tidemill_common::value::pyrepr::repr;

/// The types of content that are read.
const KNOWN_CONTENT: [&str; 4] = ["text", "image", "audio", "resource"];
/// Fields that identify a usage object.
const TOKENS: [&str; 3] = ["total_tokens", "prompt_tokens", "completion_tokens"];
/// Deepest level of `_meta` searched for usage.
const META_DEPTH_MAX: usize = 16;

/// The default media type of a resource.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Converts a tool of `tools/list`; `None` if it has no name.
pub fn declaration(tool: &Json) -> Option<Declaration> {
    let schema = tool.get("inputSchema");
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Json::as_object);
    let required = schema.and_then(|schema| schema.get("required")).and_then(Json::as_array);
    let required: Vec<&str> = required.into_iter().flatten().filter_map(Json::as_str).collect();
    let parameters = properties.into_iter().flatten();
    Some(Declaration {
        name: tool.get("name").and_then(Json::as_str)?.to_owned(),
        description: tool.get("description").and_then(Json::as_str).unwrap_or_default().to_owned(),
        parameters: parameters
            .map(|(name, schema)| parameter(name, schema, required.contains(&name.as_str())))
            .collect(),
        takes_more: false,
        has_output_schema: tool.get("outputSchema").is_some_and(|schema| !schema.is_null()),
    })
}

fn parameter(name: &str, schema: &Json, required: bool) -> Parameter {
    let ty = match schema.get("type") {
        Some(Json::Array(types)) => types.first().and_then(Json::as_str),
        other => other.and_then(Json::as_str),
    };
    let ty = match ty {
        Some("integer" | "float" | "number") => ParameterType::Number,
        Some("boolean") => ParameterType::Boolean,
        Some("array") => ParameterType::Array,
        Some("object") => ParameterType::Object,
        Some(_) | None => ParameterType::String,
    };
    let options = schema.get("enum").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    Parameter {
        name: name.into(),
        ty,
        form: Form::Llm,
        required,
        default: schema.get("default").filter(|default| !default.is_null()).cloned(),
        options: options.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        description: schema.get("description").and_then(Json::as_str).unwrap_or_default().into(),
        schema: matches!(ty, ParameterType::Array | ParameterType::Object).then(|| schema.clone()),
    }
}

/// Removes empty arguments.
pub fn arguments(given: &JsonMap) -> JsonMap {
    let says = |value: &Json| !value.is_null() && value.as_str().is_none_or(|text| !text.trim().is_empty());
    given.iter().filter(|(_, value)| says(value)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Converts a result to messages. Its failure flag (`isError`) is ignored, as in Dify.
///
/// # Errors
/// Content that cannot be read.
pub fn messages(result: &Json, has_output_schema: bool) -> Result<Vec<Message>, String> {
    let mut messages = Vec::new();
    for item in result.get("content").and_then(Json::as_array).into_iter().flatten() {
        content(item, &mut messages)?;
    }
    let structured = result.get("structuredContent").and_then(Json::as_object).filter(|_| has_output_schema);
    for (name, value) in structured.into_iter().flatten() {
        messages.push(Message::Variable { name: name.clone(), value: value.clone(), stream: false });
    }
    if let Some(said) = result.get("_meta").and_then(|meta| usage_in(meta, META_DEPTH_MAX)) {
        let usage = reported(said);
        if usage.total_tokens > 0 {
            messages.push(Message::Spent { run: None, usage: Box::new(usage) });
        }
    }
    Ok(messages)
}

/// Finds the usage of a call: `usage`, `metadata.usage`, or any object with token counts.
fn usage_in(value: &Json, depth: usize) -> Option<&JsonMap> {
    let inside = |value| usage_in(value, depth - 1);
    match value {
        _ if depth == 0 => None,
        Json::Object(map) => {
            let object = |map: &'_ JsonMap, key: &str| map.get(key).is_some_and(Json::is_object);
            if object(map, "usage") {
                return map.get("usage").and_then(Json::as_object);
            }
            if let Some(below) =
                map.get("metadata").and_then(Json::as_object).filter(|it| object(it, "usage"))
            {
                return below.get("usage").and_then(Json::as_object);
            }
            if TOKENS.iter().any(|key| map.contains_key(*key)) {
                return Some(map);
            }
            map.values().find_map(inside)
        }
        Json::Array(items) => items.iter().find_map(inside),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    }
}

fn content(item: &Json, messages: &mut Vec<Message>) -> Result<(), String> {
    let said = |key: &str| item.get(key).and_then(Json::as_str);
    match said("type").unwrap_or_default() {
        "text" => text(said("text").unwrap_or_default(), messages),
        "image" | "audio" => messages.push(blob(said("data").unwrap_or_default(), said("mimeType"))?),
        "resource" => {
            let resource = item.get("resource").unwrap_or(&Json::Null);
            let part = |key: &str| resource.get(key).and_then(Json::as_str);
            match (part("text"), part("blob")) {
                (Some(said), _) => messages.push(Message::Text(said.into())),
                (None, Some(data)) => messages.push(blob(data, part("mimeType"))?),
                (None, None) => {
                    let kind =
                        resource.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>().join(", "));
                    return Err(format!("Unsupported embedded resource type: {}", kind.unwrap_or_default()));
                }
            }
        }
        // Left out; see `unknown_content`.
        _ => {}
    }
    Ok(())
}

/// The types of content in a result that [`messages`] leaves out, each once. Only so many, and only their first characters:
/// each becomes a line of the log and a warning, and the server chooses them.
pub fn unknown_content(result: &Json) -> BTreeSet<String> {
    let items = result.get("content").and_then(Json::as_array).into_iter().flatten();
    let types = items.map(|item| item.get("type").and_then(Json::as_str).unwrap_or_default());
    let mut found = BTreeSet::new();
    for kind in types.filter(|kind| !KNOWN_CONTENT.contains(kind)) {
        found.insert(kind.chars().take(CONTENT_TYPE_CHARS_MAX).collect());
        if found.len() == CONTENT_TYPES_NAMED_MAX {
            break;
        }
    }
    found
}

/// Adds a text, or its objects if it is JSON.
fn text(said: &str, messages: &mut Vec<Message>) {
    let trimmed = said.trim();
    let enclosed = |open, close| trimmed.starts_with(open) && trimmed.ends_with(close);
    let parsed = (enclosed('{', '}') || enclosed('[', ']')).then(|| serde_json::from_str::<Json>(trimmed));
    match parsed {
        Some(Ok(object @ Json::Object(_))) => messages.push(Message::Json(object)),
        Some(Ok(Json::Array(items))) if items.iter().all(Json::is_object) => {
            messages.extend(items.into_iter().map(Message::Json));
        }
        Some(Ok(list @ Json::Array(_))) => messages.push(Message::Text(repr(&list))),
        Some(Ok(_) | Err(_)) | None => messages.push(Message::Text(said.into())),
    }
}

fn blob(data: &str, mime_type: Option<&str>) -> Result<Message, String> {
    let bytes =
        STANDARD.decode(data).map_err(|error| format!("the content of a file is not base64: {error}"))?;
    let mime_type = Some(mime_type.unwrap_or(UNKNOWN_TYPE).to_owned());
    Ok(Message::Blob { bytes, tool_file_id: None, mime_type, filename: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn content_becomes_messages_as_on_dify() {
        let text = |said: &str| vec![Message::Text(said.into())];
        let bytes = |mime: &str| {
            let mime_type = Some(mime.to_owned());
            vec![Message::Blob { bytes: b"a".to_vec(), tool_file_id: None, mime_type, filename: None }]
        };
        for (item, expected) in [
            (json!({"type": "text", "text": "hello"}), text("hello")),
            (json!({"type": "text", "text": " {\"a\": 1} "}), vec![Message::Json(json!({"a": 1}))]),
            (
                json!({"type": "text", "text": "[{\"a\": 1}, {\"b\": 2}]"}),
                vec![Message::Json(json!({"a": 1})), Message::Json(json!({"b": 2}))],
            ),
            (json!({"type": "text", "text": "[1, \"a\", null]"}), text("[1, 'a', None]")),
            (json!({"type": "text", "text": "{broken}"}), text("{broken}")),
            (json!({"type": "text", "text": "17"}), text("17")),
            (json!({"type": "image", "data": "YQ==", "mimeType": "image/png"}), bytes("image/png")),
            (json!({"type": "resource", "resource": {"uri": "x", "text": "t"}}), text("t")),
            (json!({"type": "resource", "resource": {"uri": "x", "blob": "YQ=="}}), bytes(UNKNOWN_TYPE)),
            (json!({"type": "resource_link", "uri": "x"}), vec![]),
        ] {
            let result = json!({"content": [item], "isError": true});
            assert_eq!(messages(&result, false), Ok(expected), "{item}");
        }
        let odd = json!({"content": [{"type": "resource", "resource": {"uri": "x"}}]});
        assert_eq!(messages(&odd, false), Err("Unsupported embedded resource type: uri".into()));
    }

    #[test]
    fn what_a_call_has_cost_is_found_wherever_it_is_said() {
        let usage = json!({"prompt_tokens": 2, "completion_tokens": 3});
        for meta in [
            json!({"usage": usage}),
            json!({"metadata": {"usage": usage}}),
            usage.clone(),
            json!({"steps": [{"x": 1}, {"deep": {"usage": usage}}]}),
        ] {
            let told = messages(&json!({"content": [], "_meta": meta}), false).unwrap();
            let [Message::Spent { run: None, usage }] = told.as_slice() else { panic!("{meta}: {told:?}") };
            assert_eq!((usage.prompt_tokens, usage.total_tokens), (2, 5), "{meta}");
        }
        for meta in [json!({}), json!({"usage": {"total_tokens": "9"}}), json!({"progressToken": 1})] {
            assert_eq!(messages(&json!({"content": [], "_meta": meta}), false), Ok(vec![]), "{meta}");
        }
    }

    #[test]
    fn structured_content_becomes_variables_where_it_is_declared() {
        let result = json!({"content": [], "structuredContent": {"n": 1}});
        let variable = Message::Variable { name: "n".into(), value: json!(1), stream: false };
        assert_eq!(messages(&result, true), Ok(vec![variable]));
        assert_eq!(messages(&result, false), Ok(vec![]));
    }

    #[test]
    fn a_schema_becomes_parameters() {
        let tool = json!({"name": "t", "description": "d", "outputSchema": {"type": "object"}, "inputSchema": {
            "properties": {
                "q": {"type": "string", "description": "what"}, "n": {"type": ["integer", "null"], "default": 3},
                "l": {"type": "array", "items": {}}, "odd": {},
            },
            "required": ["q"],
        }});
        let told = declaration(&tool).expect("a tool");
        let shown: Vec<(&str, ParameterType, bool)> =
            told.parameters.iter().map(|one| (one.name.as_str(), one.ty, one.required)).collect();
        assert!(shown.contains(&("q", ParameterType::String, true)), "{shown:?}");
        assert!(shown.contains(&("n", ParameterType::Number, false)), "{shown:?}");
        assert!(shown.contains(&("l", ParameterType::Array, false)), "{shown:?}");
        assert!(told.has_output_schema && declaration(&json!({})).is_none());
    }

    #[test]
    fn content_of_other_types_is_left_out_and_named_once() {
        let item = |kind: &str| json!({"type": kind, "uri": "file:///a", "text": "a"});
        let result =
            json!({"content": [item("text"), item("resource_link"), item("x"), item("resource_link"), {}]});
        assert_eq!(messages(&result, false), Ok(vec![Message::Text("a".into())]));
        assert_eq!(unknown_content(&result).into_iter().collect::<Vec<_>>(), ["", "resource_link", "x"]);
        assert!(
            unknown_content(&json!({"content": [item("text")]})).is_empty()
                && unknown_content(&json!({})).is_empty()
        );
    }

    #[test]
    fn only_some_types_of_content_are_named_and_only_in_part() {
        let long = "y".repeat(CONTENT_TYPE_CHARS_MAX);
        let items: Vec<Json> = (0..5000).map(|n| json!({"type": format!("x{n}{long}")})).collect();
        let named = unknown_content(&json!({"content": items}));
        assert_eq!(named.len(), CONTENT_TYPES_NAMED_MAX);
        assert!(named.iter().all(|kind| kind.chars().count() == CONTENT_TYPE_CHARS_MAX), "{named:?}");
    }

    #[test]
    fn arguments_that_say_nothing_are_left_out() {
        let given = json!({"a": null, "b": " ", "c": 0, "d": "x"});
        let kept = arguments(given.as_object().expect("a mapping"));
        assert_eq!(Json::Object(kept), json!({"c": 0, "d": "x"}));
    }
}
