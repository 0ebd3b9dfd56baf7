//! Tests of written requests, and of streams cut at every position.

use tidemill_common::nodes::llm::Role;
use tidemill_common::nodes::llm::message::{ToolCall, ToolSpec};

use crate::outside::providers::media::tests::{document, media, request, text};
use crate::outside::providers::media::{SentMessage, SentPart};
use crate::outside::providers::ollama::*;
use crate::outside::providers::tests::{StreamedReply, read_however_cut};

fn written(request: &ChatRequest) -> Json {
    serde_json::from_str(&body::write(request).unwrap()).unwrap()
}

fn with_params(params: Json) -> ChatRequest {
    let Json::Object(params) = params else { panic!("parameters are an object") };
    ChatRequest { params, ..request(vec![text(Role::User, "hi")]) }
}

#[test]
fn parameters_become_options_but_for_those_that_stand_beside() {
    let params = json!({
        "temperature": 0.5, "max_tokens": 9, "keep_alive": "5m", "think": true, "num_ctx": 100, "tool_choice": "auto"
    });
    let request = ChatRequest { stop: vec!["END".into()], context_size: Some(8192), ..with_params(params) };
    assert_eq!(
        written(&request),
        json!({
            "model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": true, "keep_alive": "5m",
            "think": true,
            "options": {"temperature": 0.5, "num_predict": 9, "num_ctx": 100, "stop": ["END"]}
        })
    );
    let sized = ChatRequest { context_size: Some(8192), ..with_params(json!({})) };
    assert_eq!(written(&sized)["options"], json!({"num_ctx": 8192}));
    assert_eq!(written(&with_params(json!({}))).get("options"), None);
}

#[test]
fn the_form_of_an_answer_is_a_word_or_a_schema() {
    let schema = json!({"type": "object"});
    for (params, format) in [
        (json!({"response_format": "json_object"}), json!("json")),
        (json!({"response_format": "text"}), Json::Null),
        (json!({"response_format": "json_schema", "json_schema": schema.to_string()}), schema.clone()),
        (
            json!({"response_format": "json_schema", "json_schema": json!({"name": "n", "schema": schema}).to_string()}),
            schema.clone(),
        ),
        (json!({"format": "json"}), json!("json")),
    ] {
        let body = written(&with_params(params.clone()));
        assert_eq!((&body["format"], body.get("options")), (&format, None), "{params}");
    }
}

#[test]
fn pictures_and_calls_have_their_own_places() {
    let call = ToolCall { id: "c".into(), name: "f".into(), arguments: "{\"a\":1}".into() };
    let look = vec![SentPart::Text("look".into()), media(MediaKind::Image, "image/png", "png", None)];
    let messages = vec![
        SentMessage { parts: look, ..text(Role::User, "") },
        SentMessage { tool_calls: vec![call], ..text(Role::Assistant, "") },
        SentMessage { tool_call_id: Some("c".into()), ..text(Role::Tool, "42") },
    ];
    let tool = ToolSpec { name: "f".into(), description: "d".into(), parameters: json!({"type": "object"}) };
    let body = written(&ChatRequest { tools: vec![tool], ..request(messages) });
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": "look", "images": ["Ynl0ZXM="]},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
            {"role": "tool", "content": "42", "tool_name": "f"},
        ])
    );
    assert_eq!(body["tools"][0]["function"]["name"], "f");
    let message = SentMessage { parts: vec![document()], ..text(Role::User, "") };
    assert!(body::write(&request(vec![message])).is_err());
}

fn told(lines: &[Json]) -> StreamedReply {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    read_however_cut(Framing::Ndjson, || Lines, &text)
}

fn line(message: Json) -> Json {
    json!({"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": false})
}

#[test]
fn a_stream_becomes_a_reply() {
    let last = json!({
        "model": "m", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop",
        "total_duration": 1, "prompt_eval_count": 3, "eval_count": 4
    });
    let (deltas, reply) = told(&[
        line(json!({"role": "assistant", "content": "", "thinking": "hm"})),
        line(json!({"role": "assistant", "content": "größe"})),
        last,
    ]);
    let reply = reply.unwrap();
    assert_eq!(deltas, ["<think>\nhm", "\n</think>größe"]);
    assert_eq!((reply.tokens.prompt, reply.tokens.completion), (3, 4));
    assert_eq!(reply.finish_reason.as_deref(), Some("stop"));
    // A cached prompt is not counted, and old servers give no finish reason.
    let reply = told(&[json!({"message": {"content": "x"}, "done": true})]).1.unwrap();
    assert_eq!((reply.tokens.prompt, reply.finish_reason), (0, None));
}

#[test]
fn calls_of_tools_get_ids() {
    let call = |name: &str, arguments: Json| json!({"function": {"name": name, "arguments": arguments}});
    let (_, reply) = crate::outside::providers::tests::read(
        Framing::Ndjson,
        Lines,
        &[format!(
            "{}\n{}",
            line(json!({"content": "", "tool_calls": [call("f", json!({"a": 1})), call("f", json!({}))]})),
            json!({"message": {"content": ""}, "done": true, "done_reason": "stop"})
        )
        .as_bytes()],
    );
    let calls = reply.unwrap().tool_calls;
    let told: Vec<_> = calls.iter().map(|call| (&*call.name, &*call.arguments)).collect();
    assert_eq!(told, [("f", "{\"a\":1}"), ("f", "{}")]);
    assert!(calls[0].id != calls[1].id && calls[0].id.starts_with("chatcmpl-tool-"));
}

#[test]
fn errors_and_ends_that_come_too_early_fail_the_call() {
    for (last, class, said) in [
        (json!({"error": "model runner has stopped"}), ErrorClass::ServerUnavailable, "runner has stopped"),
        (line(json!({"content": "more"})), ErrorClass::Connection, "broke off"),
    ] {
        let error = told(&[line(json!({"content": "a"})), last]).1.unwrap_err();
        assert_eq!(error.class, class);
        assert!(error.message.contains(said), "{error}");
    }
}
