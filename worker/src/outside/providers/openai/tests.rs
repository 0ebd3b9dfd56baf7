//! Tests of streams cut at every position.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::message::ToolCall;

use crate::outside::providers::ErrorClass;
use crate::outside::providers::media::Source;
use crate::outside::providers::openai::*;
use crate::outside::providers::tests::{StreamedReply, read_however_cut};

fn event(object: &Json) -> String {
    format!("data: {object}\n\n")
}

fn choice(delta: Json, finish_reason: Json) -> String {
    event(
        &json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}], "usage": null}),
    )
}

fn delta(delta: Json) -> String {
    choice(delta, Json::Null)
}

fn finish(reason: &str) -> String {
    choice(json!({}), json!(reason))
}

fn told(events: &[String]) -> StreamedReply {
    read_however_cut(Framing::Sse, Chunks::default, &events.concat())
}

fn done() -> String {
    "data: [DONE]\n\n".into()
}

fn usage(prompt: u64, completion: u64) -> Json {
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": 999})
}

#[test]
fn a_stream_becomes_a_reply() {
    let (deltas, reply) = told(&[
        // Azure begins like this, and later sends content filter results.
        event(&json!({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]})),
        delta(json!({"role": "assistant", "content": ""})),
        ": keep-alive\r\n\r\n".into(),
        delta(json!({"content": "grö"})),
        event(&json!({"choices": [{"index": 0, "content_filter_results": {}, "finish_reason": null}]})),
        event(&json!({"choices": [{"index": 1, "delta": {"content": "another choice"}}]})),
        delta(json!({"content": [{"type": "text", "text": "ße"}]})),
        finish("stop"),
        event(&json!({"choices": [], "usage": usage(5, 7)})),
        done(),
        delta(json!({"content": "behind the end"})),
    ]);
    let reply = reply.unwrap();
    assert_eq!(deltas, ["grö", "ße"]);
    assert_eq!((reply.text.as_str(), reply.finish_reason.as_deref()), ("größe", Some("stop")));
    assert_eq!((reply.tokens.prompt, reply.tokens.completion), (5, 7));
}

#[test]
fn usage_is_read_wherever_it_stands() {
    let with = |delta: Json, reason: Json, usage: Json| {
        event(&json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": usage}))
    };
    let text = || delta(json!({"content": "a"}));
    for (events, expected) in [
        (vec![text(), finish("stop"), event(&json!({"choices": [], "usage": usage(1, 2)})), done()], (1, 2)),
        (vec![text(), with(json!({}), json!("stop"), usage(1, 2)), done()], (1, 2)),
        (
            vec![
                with(json!({"content": "a"}), Json::Null, usage(1, 1)),
                with(json!({}), json!("stop"), usage(1, 2)),
                event(&json!({"choices": [], "usage": null})),
            ],
            (1, 2),
        ),
        (vec![text(), finish("stop"), event(&json!({"usage": usage(1, 2)})), done()], (1, 2)),
        (vec![text(), finish("stop"), done()], (0, 0)),
        (vec![text(), event(&json!({"choices": [], "usage": {"prompt_tokens": 3}})), done()], (3, 0)),
    ] {
        let reply = told(&events).1.unwrap();
        assert_eq!((reply.tokens.prompt, reply.tokens.completion), expected, "{events:?}");
    }
}

#[test]
fn calls_of_tools_come_together() {
    let piece = |call: Json| delta(json!({"tool_calls": [call]}));
    let numbered = [
        delta(json!({"role": "assistant", "content": null, "tool_calls": [
            {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
        ]})),
        piece(json!({"index": 0, "function": {"arguments": "{\"x\""}})),
        piece(
            json!({"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}),
        ),
        piece(json!({"index": 0, "function": {"arguments": ":1}"}})),
        finish("tool_calls"),
        done(),
    ];
    let by_id = [
        piece(json!({"id": "a", "function": {"name": "f", "arguments": "{\"x\""}})),
        piece(json!({"id": "a", "function": {"arguments": ":1}"}})),
        piece(json!({"id": "b", "function": {"name": "g", "arguments": {}}})),
        finish("tool_calls"),
    ];
    let whole = [event(&json!({"choices": [{"message": {"content": null, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}}
    ]}, "finish_reason": "tool_calls"}]}))];
    let call = |id: &str, name: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
    };
    for events in [&numbered[..], &by_id, &whole] {
        let (deltas, reply) = told(events);
        let reply = reply.unwrap();
        assert!(deltas.is_empty());
        assert_eq!(reply.tool_calls, [call("a", "f", "{\"x\":1}"), call("b", "g", "{}")], "{events:?}");
        assert_eq!((reply.first_token, reply.finish_reason.as_deref()), (None, Some("tool_calls")));
    }
    let stray = [piece(json!({"function": {"arguments": "{}"}})), done()];
    let error = told(&stray).1.unwrap_err();
    assert_eq!(error.class, ErrorClass::Value);
    assert_eq!(
        error.message,
        "tool_call_id is empty but no existing tool call is available to apply the delta"
    );
}

#[test]
fn an_empty_piece_is_no_first_token() {
    let reply =
        told(&[delta(json!({"role": "assistant", "content": ""})), finish("stop"), done()]).1.unwrap();
    assert_eq!((reply.text.as_str(), reply.first_token), ("", None));
}

#[test]
fn completions_and_refusals_are_text() {
    let piece = |text: &str, reason: Json| {
        event(&json!({"choices": [{"text": text, "index": 0, "finish_reason": reason}]}))
    };
    let (deltas, reply) = told(&[piece("Once ", Json::Null), piece("upon", json!("length")), done()]);
    assert_eq!(
        (deltas.concat().as_str(), reply.unwrap().finish_reason.as_deref()),
        ("Once upon", Some("length"))
    );
    let (deltas, reply) = told(&[delta(json!({"refusal": "I will not."})), finish("stop"), done()]);
    assert_eq!((deltas.concat().as_str(), reply.is_ok()), ("I will not.", true));
}

#[test]
fn pictures_and_sound_are_files_of_the_reply() {
    let picture = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    let (deltas, reply) = told(&[
        delta(json!({"content": "See: "})),
        delta(json!({"images": [picture("data:image/png;base64,Ynl0ZXM=")]})),
        delta(json!({"content": [picture("https://h/b.jpg"), {"type": "text", "text": " and hear."}]})),
        delta(json!({"audio": {"id": "a", "transcript": " La", "data": "Ynk="}})),
        delta(json!({"audio": {"data": "dGVz", "expires_at": 5}})),
        finish("stop"),
        done(),
    ]);
    let reply = reply.unwrap();
    // From the first file on no text is passed on, because the file's address is not known yet.
    assert_eq!((deltas, reply.text.as_str()), (vec!["See: ".to_owned()], "See:  and hear. La"));
    let files: Vec<_> =
        reply.media.iter().map(|file| (file.at, file.kind, file.mime_type.as_str(), &file.source)).collect();
    let bytes = Source::Bytes(bytes::Bytes::from_static(b"bytes"));
    let sound = Source::Bytes(bytes::Bytes::from_static(b"bytes"));
    assert_eq!(
        files,
        [
            (5, MediaKind::Image, "image/png", &bytes),
            (5, MediaKind::Image, "", &Source::Url("https://h/b.jpg".into())),
            (18, MediaKind::Audio, "", &sound),
        ]
    );
    let whole = json!({"choices": [{"message": {"content": null, "images": [picture("https://h/b.jpg")], "audio": {
        "id": "a", "data": "Ynl0ZXM=", "transcript": "La"
    }}, "finish_reason": "stop"}]});
    let reply = told(&[event(&whole)]).1.unwrap();
    assert_eq!((reply.text.as_str(), reply.media.len()), ("La", 2));
}

#[test]
fn files_of_a_try_that_broke_off_are_not_in_the_next() {
    use crate::outside::providers::RateFacts;
    use crate::outside::providers::reading::Reader;
    let mut on_delta = |_: &str| {};
    let mut reader = ReplyReader::new("p", Chunks::default(), &mut on_delta);
    let url = "data:image/png;base64,Ynl0ZXM=";
    let picture = json!({"choices": [{"delta": {
        "images": [{"type": "image_url", "image_url": {"url": url}}], "audio": {"data": "Ynk="}
    }}]});
    for _ in 0..2 {
        reader.begin();
        reader.take(&picture).unwrap();
        assert!(!reader.handed_on(), "nothing was told, so another try is as good");
    }
    reader.done();
    reader.end(RateFacts::default()).unwrap();
    assert_eq!(reader.into_reply().media.len(), 2);
}

#[test]
fn a_file_that_is_nowhere_fails_the_call_in_difys_words() {
    for (part, said) in [
        (
            json!({"type": "image_url", "image_url": {}}),
            "Multimodal output requires either url or base64_data",
        ),
        (
            json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,a b"}}),
            "Multimodal output base64_data is invalid",
        ),
        (
            json!({"type": "file", "file": {"file_data": "data:x"}}),
            "Multimodal output base64_data is invalid",
        ),
    ] {
        let error = told(&[delta(json!({"content": [part]})), done()]).1.unwrap_err();
        assert_eq!((error.class, error.message.as_str()), (ErrorClass::Value, said));
    }
}

#[test]
fn sound_that_comes_as_a_whole_is_asked_for_without_a_stream() {
    for (format, streams) in [("pcm16", true), ("mp3", false)] {
        let params = json!({"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": format}});
        assert_eq!(body::is_whole_sound(params.as_object().unwrap()), !streams);
    }
}

#[test]
fn errors_within_a_stream_fail_the_call() {
    for (last, class, said) in [
        (
            event(&json!({"error": {"message": "filtered", "code": "content_filter"}})),
            ErrorClass::BadRequest,
            "filtered",
        ),
        (event(&json!({"error": "out of memory"})), ErrorClass::ServerUnavailable, "out of memory"),
        (event(&json!({"object": "error", "message": "no", "code": 404})), ErrorClass::BadRequest, "no"),
        ("data: <html>\n\n".into(), ErrorClass::Connection, "not JSON: <html>"),
        (String::new(), ErrorClass::Connection, "broke off"),
    ] {
        let (deltas, reply) = told(&[delta(json!({"content": "a"})), last]);
        let error = reply.unwrap_err();
        assert_eq!((deltas.concat().as_str(), error.class), ("a", class));
        assert!(error.message.contains(said), "{error}");
    }
}

#[test]
fn what_came_before_something_unreadable_counts_whatever_the_pieces() {
    let (text, unreadable) = (delta(json!({"content": "a"})).into_bytes(), b"data: \xff\n\n");
    let whole = [&text[..], unreadable].concat();
    for pieces in [&[&whole[..]][..], &[&text, unreadable]] {
        let (deltas, reply) = crate::outside::providers::tests::read(Framing::Sse, Chunks::default(), pieces);
        assert_eq!(deltas, ["a"]);
        assert!(reply.unwrap_err().message.ends_with("is not UTF-8"));
    }
}
