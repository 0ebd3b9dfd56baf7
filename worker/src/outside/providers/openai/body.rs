//! Writes the JSON body of a chat or completion request.

use serde_json::{Map, Value as Json, json};
use tidemill_common::nodes::llm::message::{ToolCall, ToolSpec};
use tidemill_common::nodes::llm::{ModelMode, Role};
use tidemill_common::value::JsonMap;

use crate::outside::providers::media::{SentMessage, SentPart};
use crate::outside::providers::openai::parts;
use crate::outside::providers::params::{ANSWER, take_schema};
use crate::outside::providers::{ChatRequest, ModelError};

/// Fields the client sets itself.
const OWN: [&str; 5] = ["model", "messages", "prompt", "stream", "stream_options"];
/// Parameters that reasoning models refuse.
const SAMPLING: [&str; 7] = [
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "logprobs",
    "top_logprobs",
    "logit_bias",
];

/// Writes the body; `model` is the name in it. Fields the client sets win over parameters of the same name.
pub(super) fn write(
    request: &ChatRequest,
    model: &str,
    (stream, stream_usage): (bool, bool),
) -> Result<String, ModelError> {
    let class = Class::of(request);
    let mut body = Map::new();
    body.insert("model".into(), json!(model));
    match request.mode {
        ModelMode::Chat => {
            let message = |message| write_message(&request.label, message, class);
            let messages = request.messages.iter().map(message).collect::<Result<_, _>>()?;
            body.insert("messages".into(), Json::Array(messages));
        }
        ModelMode::Completion => {
            let texts: Vec<String> = request.messages.iter().map(SentMessage::joined_text).collect();
            body.insert("prompt".into(), json!(texts.join("\n\n")));
        }
    }
    for (key, value) in &request.params {
        if !OWN.contains(&key.as_str()) && class.takes(key) {
            body.insert(class.name_of(key).into(), value.clone());
        }
    }
    response_format(&request.label, &mut body)?;
    if !request.stop.is_empty() {
        body.insert("stop".into(), json!(request.stop));
    }
    if !request.tools.is_empty() && request.mode == ModelMode::Chat {
        body.insert("tools".into(), request.tools.iter().map(write_tool).collect());
        body.entry("tool_choice").or_insert_with(|| json!("auto"));
    } else {
        body.shift_remove("tool_choice");
    }
    body.insert("stream".into(), json!(stream));
    if stream_usage && stream {
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    Ok(Json::Object(body).to_string())
}

/// Returns true if the requested sound format cannot be streamed: the API streams only `pcm16`.
pub(super) fn is_whole_sound(params: &JsonMap) -> bool {
    let format = params.get("audio").and_then(|audio| audio.get("format")?.as_str());
    format.is_some_and(|format| format != "pcm16")
}

/// The set of parameters a model accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Usual,
    /// Reasoning models, as set in the profile.
    Reasoning,
    /// OpenAI's o-series, whose instructions have the role `developer`.
    OSeries,
}

impl Class {
    fn of(request: &ChatRequest) -> Self {
        let name = request.model.rsplit('/').next().unwrap_or(&request.model);
        let o_series = ["o1", "o3", "o4"].iter().any(|series| {
            name.strip_prefix(series).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        });
        let gpt_5 = name.starts_with("gpt-5") && !name.contains("-chat");
        match request.reasoning {
            Some(false) => Self::Usual,
            _ if o_series => Self::OSeries,
            None if !gpt_5 => Self::Usual,
            Some(true) | None => Self::Reasoning,
        }
    }

    fn reasons(self) -> bool {
        self != Self::Usual
    }

    fn takes(self, key: &str) -> bool {
        !self.reasons() || !SAMPLING.contains(&key)
    }

    fn name_of(self, key: &str) -> &str {
        if self.reasons() && key == "max_tokens" { "max_completion_tokens" } else { key }
    }

    fn role(self, role: Role) -> &'static str {
        if self == Self::OSeries && role == Role::System { "developer" } else { role.name() }
    }
}

fn write_message(label: &str, message: &SentMessage, class: Class) -> Result<Json, ModelError> {
    let mut written = json!({"role": class.role(message.role), "content": content(label, message)?});
    if !message.tool_calls.is_empty() {
        written["tool_calls"] = message.tool_calls.iter().map(write_call).collect();
    }
    if let Some(call) = &message.tool_call_id {
        written["tool_call_id"] = json!(call);
    }
    Ok(written)
}

/// The content as a plain text if possible, because some servers accept no lists and some no null.
fn content(label: &str, message: &SentMessage) -> Result<Json, ModelError> {
    if message.media().next().is_none() {
        return Ok(json!(message.joined_text()));
    }
    let part = |part: &SentPart| match part {
        SentPart::Text(text) => Ok(json!({"type": "text", "text": text})),
        SentPart::Media(media) => parts::part(label, media),
    };
    message.parts.iter().map(part).collect()
}

fn write_call(call: &ToolCall) -> Json {
    json!({
        "id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}
    })
}

fn write_tool(tool: &ToolSpec) -> Json {
    json!({
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    })
}

/// Workflows store `response_format` as a word with `json_schema` as JSON text beside it (Dify); the API wants one
/// object.
fn response_format(label: &str, body: &mut Map<String, Json>) -> Result<(), ModelError> {
    let schema = take_schema(label, body)?;
    let Some(Json::String(format)) = body.get("response_format").cloned() else { return Ok(()) };
    let mut object = json!({"type": format});
    if format == "json_schema" {
        object["json_schema"] = schema.map_or(Json::Null, named_schema);
    }
    body.insert("response_format".into(), object);
    Ok(())
}

/// A schema with a name, as the API wants it. For some models Dify sends the bare schema, which their own APIs accept;
/// this API would refuse it.
fn named_schema(schema: Json) -> Json {
    match schema {
        Json::Object(mut map)
            if map.get("schema").is_some_and(Json::is_object) && !map.contains_key("type") =>
        {
            map.entry("name").or_insert_with(|| json!(ANSWER));
            Json::Object(map)
        }
        Json::Object(map) => json!({"name": ANSWER, "schema": map}),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::providers::media::tests::{document, media, text};
    use tidemill_common::nodes::llm::message::MediaKind;

    fn request(params: Json, messages: Vec<SentMessage>) -> ChatRequest {
        let Json::Object(params) = params else { panic!("parameters are an object") };
        ChatRequest { params, ..crate::outside::providers::media::tests::request(messages) }
    }

    fn body(params: Json, stop: &[&str]) -> Result<Json, ModelError> {
        let request = request(params, vec![text(Role::User, "hi")]);
        written(&ChatRequest { stop: stop.iter().map(ToString::to_string).collect(), ..request })
    }

    fn written(request: &ChatRequest) -> Result<Json, ModelError> {
        write(request, &request.model, (request.stream, true))
            .map(|text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn parameters_stand_beside_what_the_client_sets() {
        assert_eq!(
            body(json!({"temperature": 0.5, "stream": false, "model": "x", "tool_choice": "none"}), &["END"])
                .unwrap(),
            json!({
                "model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.5, "stop": ["END"],
                "stream": true, "stream_options": {"include_usage": true}
            })
        );
        assert_eq!(body(json!({}), &[]).unwrap().get("stop"), None);
        let whole = ChatRequest { stream: false, ..request(json!({}), vec![text(Role::User, "hi")]) };
        let whole = written(&whole).unwrap();
        assert_eq!((&whole["stream"], whole.get("stream_options")), (&json!(false), None));
    }

    #[test]
    fn a_response_format_becomes_an_object_and_a_stray_schema_is_dropped() {
        for (params, expected) in [
            (json!({"response_format": "json_object", "json_schema": "{}"}), json!({"type": "json_object"})),
            (
                json!({"response_format": "json_schema", "json_schema": "{\"name\":\"n\",\"schema\":{}}"}),
                json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}),
            ),
            (
                json!({"response_format": "json_schema", "json_schema": "{\"schema\":{}}"}),
                json!({"type": "json_schema", "json_schema": {"schema": {}, "name": "llm_response"}}),
            ),
            // Dify does this for models with "gemini" in the name and providers with "ollama" in the name.
            (
                json!({"response_format": "json_schema", "json_schema": "{\"type\":\"object\",\"schema\":{}}"}),
                json!({"type": "json_schema", "json_schema": {
                    "name": "llm_response", "schema": {"type": "object", "schema": {}}
                }}),
            ),
            (json!({"response_format": {"type": "text"}}), json!({"type": "text"})),
            (json!({"json_schema": "{}"}), json!(null)),
        ] {
            let body = body(params.clone(), &[]).unwrap();
            assert_eq!(body["response_format"], expected, "{params}");
            assert_eq!(body.get("json_schema"), None);
        }
        let error = body(json!({"response_format": "json_schema", "json_schema": "{"}), &[]).unwrap_err();
        assert_eq!(error.class.error_type(), "InvokeBadRequestError");
    }

    #[test]
    fn files_become_parts_and_texts_alone_stay_texts() {
        let message = |parts| SentMessage { parts, ..text(Role::User, "") };
        let parts = message(vec![
            SentPart::Text("look".into()),
            media(MediaKind::Image, "image/png", "png", None),
            media(MediaKind::Image, "image/png", "png", Some("https://h/a.png")),
            media(MediaKind::Audio, "audio/mpeg", "mp3", None),
            media(MediaKind::Video, "video/mp4", "mp4", Some("https://h/a.mp4")),
            document(),
        ]);
        let body = written(&request(json!({}), vec![parts])).unwrap();
        assert_eq!(
            body["messages"][0]["content"],
            json!([
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,Ynl0ZXM=", "detail": "high"}},
                {"type": "image_url", "image_url": {"url": "https://h/a.png", "detail": "high"}},
                {"type": "input_audio", "input_audio": {"data": "Ynl0ZXM=", "format": "mp3"}},
                {"type": "video_url", "video_url": {"url": "https://h/a.mp4"}},
                {"type": "file", "file": {"filename": "name.pdf", "file_data": "data:application/pdf;base64,Ynl0ZXM="}},
            ])
        );
        let texts = message(vec![SentPart::Text("a".into()), SentPart::Text("b".into())]);
        assert_eq!(written(&request(json!({}), vec![texts])).unwrap()["messages"][0]["content"], "ab");
        let by_url = message(vec![media(MediaKind::Document, "application/pdf", "pdf", Some("https://h/"))]);
        assert!(written(&request(json!({}), vec![by_url])).is_err());
    }

    #[test]
    fn calls_and_their_results_are_told_again() {
        let call = ToolCall { id: "c".into(), name: "f".into(), arguments: "{\"a\": 1".into() };
        let messages = vec![
            text(Role::User, "hi"),
            SentMessage { tool_calls: vec![call], parts: Vec::new(), ..text(Role::Assistant, "") },
            SentMessage { tool_call_id: Some("c".into()), ..text(Role::Tool, "42") },
        ];
        let tool = ToolSpec {
            name: "f".into(),
            description: "adds".into(),
            parameters: json!({"type": "object", "properties": {}}),
        };
        let body = written(&ChatRequest { tools: vec![tool], ..request(json!({}), messages) }).unwrap();
        assert_eq!(
            body["messages"],
            json!([
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "", "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1"}}
                ]},
                {"role": "tool", "content": "42", "tool_call_id": "c"},
            ])
        );
        assert_eq!(
            (&body["tools"], &body["tool_choice"]),
            (
                &json!([{"type": "function", "function": {
                    "name": "f", "description": "adds", "parameters": {"type": "object", "properties": {}}
                }}]),
                &json!("auto")
            )
        );
    }

    #[test]
    fn models_that_reason_take_other_parameters() {
        let params = json!({"max_tokens": 9, "temperature": 0.5, "top_p": 1, "seed": 2});
        let other = json!({"max_completion_tokens": 9, "seed": 2});
        for (model, reasoning, expected, role) in [
            ("o1", None, &other, "developer"),
            ("o3-mini", None, &other, "developer"),
            ("openai/o4-mini", None, &other, "developer"),
            ("gpt-5-nano", None, &other, "system"),
            ("deployed", Some(true), &other, "system"),
            ("gpt-5-chat-latest", None, &params, "system"),
            ("gpt-4o", None, &params, "system"),
            ("o1000", None, &params, "system"),
            ("o3", Some(false), &params, "system"),
        ] {
            let request = ChatRequest {
                model: model.into(),
                reasoning,
                ..request(params.clone(), vec![text(Role::System, "be kind")])
            };
            let mut body = written(&request).unwrap();
            let body = body.as_object_mut().unwrap();
            for key in ["model", "stream", "stream_options"] {
                body.shift_remove(key);
            }
            let messages = body.shift_remove("messages").unwrap();
            assert_eq!((&json!(body), messages[0]["role"].as_str()), (expected, Some(role)), "{model}");
        }
    }

    #[test]
    fn a_completion_is_asked_with_a_text() {
        let request = request(json!({"max_tokens": 3}), vec![text(Role::User, "Once upon")]);
        let body = written(&ChatRequest { mode: ModelMode::Completion, ..request }).unwrap();
        assert_eq!(
            body,
            json!({
                "model": "m", "prompt": "Once upon", "max_tokens": 3, "stream": true,
                "stream_options": {"include_usage": true}
            })
        );
    }
}
