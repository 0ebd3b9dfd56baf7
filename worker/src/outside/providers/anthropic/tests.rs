//! Tests of written requests, and of streams cut at every position.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::Role;
use tidemill_common::nodes::llm::message::{ToolCall, ToolSpec};

use crate::outside::providers::ErrorClass;
use crate::outside::providers::anthropic::*;
use crate::outside::providers::media::tests::{document, media, request, text};
use crate::outside::providers::media::{SentMessage, SentPart};
use crate::outside::providers::tests::{StreamedReply, read_however_cut};

fn written(request: &ChatRequest) -> Json {
    serde_json::from_str(&body::write(request).unwrap().body).unwrap()
}

fn with_params(params: Json) -> ChatRequest {
    let Json::Object(params) = params else { panic!("parameters are an object") };
    ChatRequest { params, ..request(vec![text(Role::User, "hi")]) }
}

fn of(parts: Vec<SentPart>) -> SentMessage {
    SentMessage { parts, ..text(Role::User, "") }
}

fn call(id: &str) -> SentMessage {
    let call = ToolCall { id: id.into(), name: "f".into(), arguments: "{\"a\":1}".into() };
    SentMessage { tool_calls: vec![call], ..text(Role::Assistant, "") }
}

fn result(id: &str, said: &str) -> SentMessage {
    SentMessage { tool_call_id: Some(id.into()), ..text(Role::Tool, said) }
}

fn words(text: &str) -> Json {
    json!({"type": "text", "text": text})
}

#[test]
fn a_conversation_is_put_in_the_order_that_the_api_wants() {
    let user = |content: Vec<Json>| json!({"role": "user", "content": content});
    let model = |content: Vec<Json>| json!({"role": "assistant", "content": content});
    let used = || json!({"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}});
    for (messages, system, expected) in [
        (
            vec![
                text(Role::System, "one"),
                text(Role::User, "a"),
                text(Role::System, "two"),
                text(Role::User, "b"),
            ],
            json!("one\ntwo"),
            vec![user(vec![words("a"), words("b")])],
        ),
        (
            vec![text(Role::Assistant, "before"), text(Role::User, "a"), text(Role::Assistant, "so \n")],
            Json::Null,
            vec![
                user(vec![words("(the conversation goes on)")]),
                model(vec![words("before")]),
                user(vec![words("a")]),
                model(vec![words("so")]),
            ],
        ),
        (
            vec![
                text(Role::User, "a"),
                text(Role::Assistant, " "),
                text(Role::User, ""),
                text(Role::User, "b"),
            ],
            Json::Null,
            vec![user(vec![words("a"), words("b")])],
        ),
        (vec![text(Role::System, "alone")], Json::Null, vec![user(vec![words("alone")])]),
        (
            vec![
                text(Role::User, "a"),
                call("c"),
                text(Role::User, "and"),
                result("c", "42"),
                result("d", ""),
            ],
            Json::Null,
            vec![
                user(vec![words("a")]),
                model(vec![used()]),
                user(vec![
                    json!({"type": "tool_result", "tool_use_id": "c", "content": [words("42")]}),
                    json!({"type": "tool_result", "tool_use_id": "d"}),
                    words("and"),
                ]),
            ],
        ),
    ] {
        let body = written(&request(messages));
        assert_eq!((body["system"].clone(), &body["messages"]), (system, &json!(expected)));
    }
}

#[test]
fn files_become_blocks() {
    let parts = vec![
        media(MediaKind::Image, "image/png", "png", None),
        media(MediaKind::Image, "image/png", "png", Some("https://h/a.png")),
        document(),
        media(MediaKind::Document, "application/pdf", "pdf", Some("https://h/a.pdf")),
        media(MediaKind::Document, "text/markdown", "md", None),
    ];
    let block = |kind: &str, source: Json| json!({"type": kind, "source": source});
    let titled = |name: &str, source: Json| json!({"type": "document", "source": source, "title": name});
    assert_eq!(
        written(&request(vec![of(parts)]))["messages"][0]["content"],
        json!([
            block("image", json!({"type": "base64", "media_type": "image/png", "data": "Ynl0ZXM="})),
            block("image", json!({"type": "url", "url": "https://h/a.png"})),
            titled(
                "name.pdf",
                json!({"type": "base64", "media_type": "application/pdf", "data": "Ynl0ZXM="})
            ),
            titled("name.pdf", json!({"type": "url", "url": "https://h/a.pdf"})),
            titled("name.md", json!({"type": "text", "media_type": "text/plain", "data": "bytes"})),
        ])
    );
    for part in [
        media(MediaKind::Audio, "audio/mpeg", "mp3", None),
        media(MediaKind::Video, "video/mp4", "mp4", None),
        media(MediaKind::Document, "application/msword", "doc", None),
    ] {
        let error = body::write(&request(vec![of(vec![part])])).unwrap_err();
        assert_eq!(error.class, ErrorClass::BadRequest);
    }
}

#[test]
fn parameters_are_those_of_the_api() {
    for (params, expected) in [
        (json!({}), json!({"max_tokens": 4096})),
        (
            json!({"max_tokens": 9, "temperature": 0.5, "top_k": 3, "seed": 1, "presence_penalty": 1, "user": "u"}),
            json!({"max_tokens": 9, "temperature": 0.5, "top_k": 3, "metadata": {"user_id": "u"}}),
        ),
        (json!({"max_tokens_to_sample": 5, "thinking": false}), json!({"max_tokens": 5})),
        (
            json!({"thinking": true, "thinking_budget": 2000, "max_tokens": 100, "temperature": 0.2}),
            json!({"max_tokens": 2100, "thinking": {"type": "enabled", "budget_tokens": 2000}}),
        ),
        (
            json!({"thinking": {"type": "adaptive"}, "max_tokens": 100}),
            json!({"max_tokens": 100, "thinking": {"type": "adaptive"}}),
        ),
        (json!({"response_format": "json_object", "tool_choice": "auto"}), json!({"max_tokens": 4096})),
    ] {
        let mut body = written(&with_params(params.clone()));
        let body = body.as_object_mut().unwrap();
        for key in ["model", "messages", "stream"] {
            assert!(body.shift_remove(key).is_some());
        }
        assert_eq!(json!(body), expected, "{params}");
    }
    let request = ChatRequest { stop: vec!["END".into(), "\n".into()], ..with_params(json!({})) };
    assert_eq!(written(&request)["stop_sequences"], json!(["END"]));
}

fn thought(signature: &str) -> Json {
    json!({"type": "thinking", "thinking": "hm", "signature": signature})
}

fn used(id: &str) -> Json {
    json!({"type": "tool_use", "id": id, "name": "f", "input": {"a": 1}})
}

/// A model that reasoned, wrote text and called a tool.
fn thinking_call(id: &str) -> SentMessage {
    let verbatim = vec![thought("s"), words("I look."), used(id)];
    SentMessage { verbatim, ..call(id) }
}

#[test]
fn what_was_thought_is_sent_back_as_it_came_and_thinking_goes_on() {
    let amid = |messages: Vec<SentMessage>, params: Json| {
        let messages = [vec![text(Role::User, "a")], messages].concat();
        written(&ChatRequest { messages, ..with_params(params) })
    };
    let on = || json!({"thinking": true, "temperature": 0.2});
    let body = amid(vec![thinking_call("c"), result("c", "42")], on());
    assert_eq!(body["messages"][1]["content"], json!([thought("s"), words("I look."), used("c")]));
    assert_eq!((&body["thinking"]["type"], body.get("temperature")), (&json!("enabled"), None));
    // Only the start of the turn must be reasoning; later calls need none.
    let twice = vec![thinking_call("c"), result("c", "42"), call("d"), result("d", "43")];
    assert_eq!(amid(twice, on())["thinking"]["type"], "enabled");
    // A new question is a new turn.
    let anew = vec![call("c"), result("c", "42"), text(Role::Assistant, "so"), text(Role::User, "and?")];
    assert_eq!(amid(anew, on())["thinking"]["type"], "enabled");
    for (params, thinks) in [(on(), false), (json!({"thinking": {"type": "adaptive"}}), true)] {
        let body = amid(vec![call("c"), result("c", "42")], params);
        assert_eq!(body.get("thinking").is_some(), thinks, "the turn began without a thought");
    }
}

#[test]
fn blocks_are_kept_as_they_came_where_they_will_be_sent_back() {
    let mut events = vec![
        started(),
        begin(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "h"})),
        delta(0, json!({"type": "thinking_delta", "thinking": "m"})),
        delta(0, json!({"type": "signature_delta", "signature": "Zm9v"})),
        end(0),
        begin(1, json!({"type": "redacted_thinking", "data": "x"})),
        end(1),
        begin(2, json!({"type": "text", "text": ""})),
        delta(2, json!({"type": "text_delta", "text": "I look."})),
        end(2),
        begin(3, json!({"type": "text", "text": ""})),
        end(3),
        begin(4, json!({"type": "server_tool_use", "id": "x", "name": "search", "input": {}})),
        end(4),
        begin(5, json!({"type": "tool_use", "id": "a", "name": "f", "input": {}})),
        arguments(5, "{\"a\""),
        arguments(5, ":1}"),
        end(5),
        begin(6, json!({"type": "tool_use", "id": "b", "name": "g", "input": {}})),
        end(6),
    ];
    events.extend(stopped("tool_use", 2));
    let keeping = |keeps: bool| {
        read_however_cut(Framing::Sse, || Events::new(false).keeping(keeps), &events.concat()).1.unwrap()
    };
    assert_eq!(keeping(false).verbatim, Vec::<Json>::new());
    let reply_blocks = [
        thought("Zm9v"),
        json!({"type": "redacted_thinking", "data": "x"}),
        words("I look."),
        used("a"),
        json!({"type": "tool_use", "id": "b", "name": "g", "input": {}}),
    ];
    assert_eq!(keeping(true).verbatim, reply_blocks);
    assert_eq!(keeping(true).tool_calls.len(), 2);
    let whole =
        json!({"type": "message", "stop_reason": "tool_use", "content": [thought("Zm9v"), used("a")]});
    let whole =
        read_however_cut(Framing::Sse, || Events::new(false).keeping(true), &event(&whole)).1.unwrap();
    assert_eq!(whole.verbatim, [thought("Zm9v"), used("a")]);
}

#[test]
fn an_answer_of_a_given_form_is_the_call_of_a_tool() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let wrapped = json!({"name": "n", "schema": schema}).to_string();
    let params = json!({"response_format": "json_schema", "json_schema": wrapped});
    let alone = written(&with_params(params.clone()));
    assert_eq!(alone["tools"][0]["name"], "llm_response");
    assert_eq!(alone["tools"][0]["input_schema"], schema);
    assert_eq!(alone["tool_choice"], json!({"type": "tool", "name": "llm_response"}));
    let tool =
        ToolSpec { name: "f".into(), description: String::new(), parameters: json!({"type": "object"}) };
    let among = written(&ChatRequest { tools: vec![tool.clone()], ..with_params(params) });
    assert_eq!(
        (among["tools"].as_array().unwrap().len(), &among["tool_choice"]),
        (2, &json!({"type": "auto"}))
    );
    let offered =
        written(&ChatRequest { tools: vec![tool], ..with_params(json!({"tool_choice": "required"})) });
    assert_eq!(offered["tools"], json!([{"name": "f", "input_schema": {"type": "object"}}]));
    assert_eq!(offered["tool_choice"], json!({"type": "any"}));
}

fn event(object: &Json) -> String {
    format!("event: {}\ndata: {object}\n\n", object["type"].as_str().unwrap())
}

fn begin(index: u64, block: Json) -> String {
    event(&json!({"type": "content_block_start", "index": index, "content_block": block}))
}

fn delta(index: u64, delta: Json) -> String {
    event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

fn end(index: u64) -> String {
    event(&json!({"type": "content_block_stop", "index": index}))
}

fn arguments(index: u64, piece: &str) -> String {
    delta(index, json!({"type": "input_json_delta", "partial_json": piece}))
}

fn started() -> String {
    event(&json!({"type": "message_start", "message": {
        "id": "m", "type": "message", "role": "assistant", "content": [], "stop_reason": null,
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1}
    }}))
}

fn stopped(reason: &str, tokens: u64) -> [String; 2] {
    [
        event(&json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": tokens}})),
        event(&json!({"type": "message_stop"})),
    ]
}

fn told(answers_with_tool: bool, events: &[String]) -> StreamedReply {
    read_however_cut(Framing::Sse, || Events::new(answers_with_tool), &events.concat())
}

#[test]
fn a_stream_becomes_a_reply() {
    let mut events = vec![
        started(),
        event(&json!({"type": "ping"})),
        begin(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(0, json!({"type": "signature_delta", "signature": "Zm9v"})),
        end(0),
        begin(1, json!({"type": "redacted_thinking", "data": "x"})),
        end(1),
        begin(2, json!({"type": "text", "text": ""})),
        delta(2, json!({"type": "text_delta", "text": "größe"})),
        delta(2, json!({"type": "citations_delta", "citation": {}})),
        event(&json!({"type": "something_new", "text": "?"})),
        end(2),
        begin(3, json!({"type": "tool_use", "id": "a", "name": "f", "input": {}})),
        arguments(3, ""),
        arguments(3, "{\"x\""),
        arguments(3, ":1}"),
        end(3),
        begin(4, json!({"type": "tool_use", "id": "b", "name": "g", "input": {}})),
        end(4),
    ];
    events.extend(stopped("tool_use", 20));
    let (deltas, reply) = told(false, &events);
    let reply = reply.unwrap();
    assert_eq!(deltas, ["<think>\nhm", "\n</think>größe"]);
    let calls: Vec<_> = reply.tool_calls.iter().map(|it| (&*it.id, &*it.name, &*it.arguments)).collect();
    assert_eq!(calls, [("a", "f", "{\"x\":1}"), ("b", "g", "{}")]);
    assert_eq!((reply.tokens.prompt, reply.tokens.completion), (15, 20));
    assert_eq!(reply.finish_reason.as_deref(), Some("tool_use"));
}

#[test]
fn an_answer_without_a_stream_becomes_the_same() {
    let whole = json!({
        "type": "message", "stop_reason": "max_tokens", "usage": {"input_tokens": 3, "output_tokens": 4},
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "so"},
            {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}
        ]
    });
    let (deltas, reply) = told(false, &[event(&whole)]);
    let reply = reply.unwrap();
    assert_eq!(
        (deltas.concat().as_str(), &*reply.tool_calls[0].arguments),
        ("<think>\nhm\n</think>so", "{\"x\":1}")
    );
    assert_eq!((reply.tokens.prompt, reply.tokens.completion), (3, 4));
    assert_eq!(reply.finish_reason.as_deref(), Some("max_tokens"));
}

#[test]
fn the_call_that_is_the_answer_is_text() {
    let mut events = vec![
        started(),
        begin(0, json!({"type": "tool_use", "id": "a", "name": "llm_response", "input": {}})),
        arguments(0, "{\"a\":"),
        arguments(0, "1}"),
        end(0),
    ];
    events.extend(stopped("tool_use", 2));
    let (deltas, reply) = told(true, &events);
    let reply = reply.unwrap();
    assert_eq!((deltas.len(), reply.text.as_str(), reply.tool_calls.len()), (2, "{\"a\":1}", 0));
    assert_eq!(reply.finish_reason.as_deref(), Some("end_turn"));
    let reply = told(false, &events).1.unwrap();
    assert_eq!((reply.text.as_str(), reply.tool_calls.len()), ("", 1));
}

#[test]
fn a_refusal_is_a_reply_and_an_error_is_none() {
    let mut refused = vec![started()];
    refused.extend(stopped("refusal", 0));
    let reply = told(false, &refused).1.unwrap();
    assert_eq!((reply.text.as_str(), reply.finish_reason.as_deref()), ("", Some("refusal")));
    for (kind, class, retryable) in [
        ("overloaded_error", ErrorClass::ServerUnavailable, true),
        ("api_error", ErrorClass::ServerUnavailable, true),
        ("rate_limit_error", ErrorClass::RateLimit, true),
        ("authentication_error", ErrorClass::Authorization, false),
        ("invalid_request_error", ErrorClass::BadRequest, false),
    ] {
        let failed = event(&json!({"type": "error", "error": {"type": kind, "message": "so it is"}}));
        let error = told(false, &[started(), failed]).1.unwrap_err();
        assert_eq!((error.class, error.retryable), (class, retryable), "{kind}");
        assert!(error.message.ends_with("so it is"), "{error}");
    }
    let cut_off = [started(), begin(0, json!({"type": "text", "text": "a"}))];
    assert_eq!(told(false, &cut_off).1.unwrap_err().class, ErrorClass::Connection);
}
