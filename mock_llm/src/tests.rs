use serde_json::{Value as Json, json};

use super::protocols::{Protocol, vectors};
use super::reply::{self, MockResponse};
use super::rules::{self, Match, Rule, Rules, Says};
use super::{friendly, matching, rules::Echo};

fn list(document: Json) -> Vec<Rule> {
    match rules::parse(&document).unwrap() {
        Rules::List(list) => list,
        Rules::Friendly => panic!("a document never makes friendly rules"),
    }
}

fn user(text: &str) -> Json {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]})
}

fn whole(answer: MockResponse) -> (u16, Json) {
    match answer {
        MockResponse::Whole { status, body } => (status, body),
        MockResponse::Stream { events, .. } => panic!("a stream: {events:?}"),
        MockResponse::Garbage(text) => panic!("{text}"),
    }
}

fn text(answer: MockResponse) -> String {
    whole(answer).1["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

#[test]
fn all_conditions_of_a_match_must_hold() {
    let body = json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "be classification kind"},
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": "x"},
            {"role": "user", "content": [{"type": "text", "text": "par"}, {"type": "image_url"}, {"type": "text", "text": "ts"}]}
        ],
        "tools": []
    });
    for (condition, fits) in [
        (json!({}), true),
        (json!({"model": "m"}), true),
        (json!({"model": "n"}), false),
        (json!({"equals": "parts"}), true),
        (json!({"equals": "first"}), false),
        (json!({"contains": "art"}), true),
        (json!({"contains": "first"}), false),
        (json!({"system_contains": "classification"}), true),
        (json!({"system_contains": "parts"}), false),
        (json!({"has_tools": false}), true),
        (json!({"has_tools": true}), false),
        (json!({"model": "m", "equals": "no"}), false),
    ] {
        let rule = &list(json!([{"match": condition.clone()}]))[0];
        assert_eq!(matching::fits(&rule.matches, &body), fits, "{condition}");
    }
    assert!(matching::fits(&Match { equals: Some(String::new()), ..Match::default() }, &json!({})));
}

#[test]
fn the_first_rule_that_matches_is_used() {
    let rules = list(json!([{"match": {"contains": "a"}}, {"match": {}}]));
    assert_eq!(matching::find(&rules, &user("xax")).unwrap().0, 0);
    assert_eq!(matching::find(&rules, &user("x")).unwrap().0, 1);
    assert!(matching::find(&rules[..1], &user("x")).is_none());
}

#[test]
fn each_call_gets_the_next_reply_and_the_last_one_repeats() {
    let rules = list(json!([{"reply": ["one", "two"]}, {"chunks": ["a", "b"]}, {}]));
    let expected: Vec<String> =
        (1..=3).map(|call| text(reply::answer(Protocol::OpenAi, &rules[0], call, &user("x")))).collect();
    assert_eq!(expected, ["one", "two", "two"]);
    assert_eq!(text(reply::answer(Protocol::OpenAi, &rules[1], 1, &user("x"))), "ab");
    assert_eq!(text(reply::answer(Protocol::OpenAi, &rules[2], 1, &user("x"))), "");
}

#[test]
fn echoes_repeat_the_request() {
    let body = json!({
        "model": "m", "temperature": 1e-7, "a": 1.0, "big": 1e16, "stop": ["ü"], "tools": [{"x": 1}],
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": "é\n"}],
    });
    for (kind, expected) in [
        (Echo::Messages, "[[\"system\",\"s\"],[\"user\",\"u\"],[\"assistant\",\"é\\n\"]]"),
        (Echo::LastUser, "u"),
        (Echo::LastMessage, "é\n"),
        (Echo::Params, r#"{"a":1.0,"big":1e+16,"stop":["ü"],"temperature":1e-07}"#),
        (Echo::Tools, r#"[{"x":1}]"#),
    ] {
        let rule = Rule { says: Says::Echo(kind), ..Rule::default() };
        assert_eq!(text(reply::answer(Protocol::OpenAi, &rule, 1, &body)), expected);
    }
}

#[test]
fn calls_fail_as_often_as_the_rule_says() {
    let rules = list(json!([
        {"fail_times": 1, "status": 429, "error": "slow down", "reply": "ok"},
        {"status": 503},
        {"fail_times": 0, "status": 500, "reply": "ok"},
    ]));
    let status = |rule: usize, call| whole(reply::answer(Protocol::OpenAi, &rules[rule], call, &user("x"))).0;
    assert_eq!(
        [status(0, 1), status(0, 2), status(1, 1), status(1, 9), status(2, 1)],
        [429, 200, 503, 503, 200]
    );
    let (_, body) = whole(reply::answer(Protocol::OpenAi, &rules[0], 1, &user("x")));
    assert_eq!(body, json!({"error": {"message": "slow down"}}));
    assert_eq!(
        whole(reply::answer(Protocol::OpenAi, &rules[1], 1, &user("x"))).1,
        json!({"error": {"message": "mock failure"}})
    );
}

#[test]
fn a_whole_reply_has_the_form_of_the_api() {
    let rules = list(json!([{
        "reply": "R", "tool_calls": [{"name": "f", "arguments": {"a": 1}}], "usage": {"prompt_tokens": 1, "extra": 2}
    }]));
    assert_eq!(
        whole(reply::answer(Protocol::OpenAi, &rules[0], 1, &user("x"))).1.to_string(),
        json!({
            "id": "chatcmpl-mock", "created": 0, "model": "m", "object": "chat.completion",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "R", "tool_calls": [
                {"id": "call_0", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}
            ]}, "finish_reason": "tool_calls"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 7, "extra": 2, "total_tokens": 8}
        })
        .to_string()
    );
}

#[test]
fn a_stream_has_the_same_bytes_every_time() {
    let rules = list(json!([
        {"chunks": ["a", "b"], "tool_calls": [{"name": "f", "arguments": "x"}], "chunk_delay_ms": 9},
        {"chunks": ["a"], "break_stream": true}
    ]));
    let body = json!({"model": "m", "stream": true, "messages": []});
    let stream = |rule: usize| match reply::answer(Protocol::OpenAi, &rules[rule], 1, &body) {
        MockResponse::Stream { events, .. } => events,
        other => panic!("{other:?}"),
    };
    let head =
        r#"data: {"id":"chatcmpl-mock","created":0,"model":"m","object":"chat.completion.chunk","choices":"#;
    let choice = |delta: &str, finish: &str| {
        format!("{head}[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n")
    };
    let texts: Vec<String> = stream(0).into_iter().map(|(_, event)| event).collect();
    let call = r#"{"tool_calls":[{"index":0,"id":"call_0","type":"function","function":{"name":"f","arguments":"x"}}]}"#;
    assert_eq!(
        texts,
        [
            choice(r#"{"role":"assistant","content":""}"#, "null"),
            choice(r#"{"content":"a"}"#, "null"),
            choice(r#"{"content":"b"}"#, "null"),
            choice(call, "null"),
            choice("{}", "\"tool_calls\""),
            format!(
                "{head}[],\"usage\":{{\"prompt_tokens\":5,\"completion_tokens\":7,\"total_tokens\":12}}}}\n\n"
            ),
            "data: [DONE]\n\n".to_owned(),
        ]
    );
    assert_eq!(stream(0).iter().map(|(wait, _)| wait.as_millis()).sum::<u128>(), 9);
    assert_eq!(stream(1).len(), 2);
}

#[test]
fn every_protocol_sends_the_same_reply_in_its_own_format() {
    let rules = list(json!([
        {"chunks": ["a"], "tool_calls": [{"name": "f", "arguments": "{\"x\":1}"}], "tool_call_pieces": 2}
    ]));
    let body = json!({"model": "m", "stream": true, "messages": []});
    for (protocol, parts) in [
        (
            Protocol::OpenAi,
            &["\"content\":\"a\"", "\"arguments\":\"{\\\"x\\\"\"", "\"arguments\":\":1}\"", "[DONE]"][..],
        ),
        (Protocol::Azure, &["prompt_filter_results", "\"content\":\"a\"", "[DONE]"]),
        (Protocol::Completions, &["\"text\":\"a\"", "[DONE]"]),
        (
            Protocol::Anthropic,
            &[
                "event: message_start\n",
                "\"text_delta\"",
                "\"partial_json\":\":1}\"",
                "\"stop_reason\":\"tool_use\"",
                "message_stop",
            ],
        ),
        (Protocol::Ollama, &["\"content\":\"a\"", "\"arguments\":{\"x\":1}", "\"done\":true"]),
    ] {
        let MockResponse::Stream { events, media_type, .. } = reply::answer(protocol, &rules[0], 1, &body)
        else {
            panic!("a stream was asked for");
        };
        let text: String = events.into_iter().map(|(_, event)| event).collect();
        let mut rest = text.as_str();
        for part in parts {
            let at = rest.find(part).unwrap_or_else(|| panic!("{protocol:?}: no {part} in {rest}"));
            rest = &rest[at + part.len()..];
        }
        assert_eq!(media_type == "application/x-ndjson", protocol == Protocol::Ollama);
    }
}

#[test]
fn requests_of_other_protocols_are_read_as_a_chat() {
    let anthropic = json!({"system": "be kind", "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]});
    let heard = Protocol::Anthropic.heard(&anthropic);
    assert_eq!((matching::last_user(&heard).as_str(), matching::messages(&heard).len()), ("hi", 2));
    let prompt = json!({"prompt": "once"});
    assert_eq!(matching::last_user(&Protocol::Completions.heard(&prompt)), "once");
    assert_eq!(Protocol::Ollama.heard(&json!({}))["stream"], true);
}

#[test]
fn texts_with_common_words_have_similar_vectors() {
    let answer =
        vectors::embeddings(&json!({"input": ["a red fox", "the red fox", "something else"], "model": "e"}));
    let vector =
        |at: usize| -> Vec<f64> { serde_json::from_value(answer["data"][at]["embedding"].clone()).unwrap() };
    let near = |a: usize, b: usize| vector(a).iter().zip(vector(b)).map(|(a, b)| a * b).sum::<f64>();
    assert!((near(0, 0) - 1.0).abs() < 1e-9);
    assert!(near(0, 1) > near(0, 2));
    let ranking = vectors::ranking(
        &json!({"query": "red fox", "documents": ["a dog", "a fox", "a red fox"], "top_n": 2}),
    );
    let results = ranking["results"].as_array().unwrap();
    assert_eq!(results.iter().map(|it| it["index"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn streams_break_in_every_way() {
    let stream = |rule: Json| {
        let rule = list(json!([rule])).remove(0);
        match reply::answer(Protocol::Ollama, &rule, 1, &json!({"model": "m", "stream": true})) {
            MockResponse::Stream { events, .. } => events,
            other => panic!("{other:?}"),
        }
    };
    let last = |rule: Json| stream(rule).pop().unwrap().1;
    assert_eq!(last(json!({"reply": "a", "invalid_json": true})), "{\"choices\": [oops\n");
    assert_eq!(last(json!({"reply": "a", "stream_error": "enough"})), "{\"error\":\"enough\"}\n");
    assert!(last(json!({"reply": "a", "break_stream": true})).contains("\"done\":false"));
    assert_eq!(stream(json!({"reply": "a", "first_delay_ms": 7}))[0].0.as_millis(), 7);
    let calls = json!({"reply": "a", "tool_calls": [{"name": "f", "arguments": {}}], "break_in": "calls"});
    assert!(last(calls).contains("tool_calls"), "it breaks after the calls and before the end");
    let rule = list(json!([{"invalid_json": true}])).remove(0);
    assert!(matches!(reply::answer(Protocol::OpenAi, &rule, 1, &user("x")), MockResponse::Garbage(_)));
}

#[test]
fn a_stream_breaks_within_an_event_or_a_character_as_often_as_the_rule_says() {
    let body = json!({"model": "m", "stream": true});
    for protocol in [Protocol::OpenAi, Protocol::Anthropic, Protocol::Ollama] {
        for (place, is_text, resets) in [("event", true, false), ("character", false, true)] {
            let document = json!([{"reply": "a", "break_in": place, "reset": resets, "break_times": 1}]);
            let rule = list(document).remove(0);
            let MockResponse::Stream { torn, resets: reset, .. } = reply::answer(protocol, &rule, 1, &body)
            else {
                panic!("a stream was asked for");
            };
            assert!(!torn.is_empty() && !torn.ends_with(b"\n"), "{protocol:?}");
            assert_eq!(
                (std::str::from_utf8(&torn).is_ok(), reset),
                (is_text, resets),
                "{protocol:?} {place}"
            );
            let MockResponse::Stream { torn, resets, .. } = reply::answer(protocol, &rule, 2, &body) else {
                panic!("a stream was asked for");
            };
            assert!(torn.is_empty() && !resets, "the second does not break");
        }
    }
    let rule = list(json!([{"reply": "a", "reset": true}])).remove(0);
    let torn = reply::answer(Protocol::OpenAi, &rule, 1, &user("x"));
    assert!(
        matches!(torn, MockResponse::Stream { media_type: "application/json", resets: true, .. }),
        "{torn:?}"
    );
}

#[test]
fn errors_have_the_type_and_code_of_the_rule_where_the_protocol_has_them() {
    let rule = json!({"status": 429, "error": "no", "error_type": "t", "error_code": 7});
    let rule = list(json!([rule])).remove(0);
    for (protocol, error) in [
        (Protocol::OpenAi, json!({"message": "no", "type": "t", "code": 7})),
        (Protocol::Azure, json!({"message": "no", "type": "t", "code": 7})),
        (Protocol::Anthropic, json!({"type": "t", "message": "no", "code": 7})),
        (Protocol::Ollama, json!("no")),
    ] {
        let (status, body) = whole(reply::answer(protocol, &rule, 1, &user("x")));
        assert_eq!((status, &body["error"]), (429, &error), "{protocol:?}");
    }
}

#[test]
fn without_rules_the_last_message_is_repeated_word_by_word() {
    let rule = friendly::rule(&user("good day"));
    assert_eq!(rule.says, Says::Chunks(["You ", "said: ", "good ", "day"].map(str::to_owned).to_vec()));
    assert_eq!(text(reply::answer(Protocol::OpenAi, &rule, 1, &user("good day"))), "You said: good day");
    assert!(
        text(reply::answer(Protocol::OpenAi, &friendly::rule(&json!({})), 1, &json!({})))
            .starts_with("Hello")
    );
}

#[test]
fn rules_are_found_in_three_forms_of_document() {
    let rule = json!({"reply": "x"});
    for document in [
        json!([rule.clone()]),
        json!({"llm": [rule.clone()]}),
        json!({"mocks": {"llm": [rule.clone()]}, "inputs": {}}),
    ] {
        assert_eq!(list(document.clone()).len(), 1, "{document}");
    }
    assert_eq!(list(json!({"mocks": {"tools": {}}})).len(), 0);
}

#[test]
fn an_error_names_the_rule_and_the_key() {
    for (document, expected) in [
        (
            json!([{}, {"delay_ms": "soon"}]),
            "rule 1, key \"delay_ms\": must be a whole number from 0 up, not \"soon\"",
        ),
        (
            json!([{"match": {"contain": "x"}}]),
            "rule 0, key \"match.contain\": unknown key; the keys are model,",
        ),
        (json!([{"replay": "x"}]), "rule 0, key \"replay\": unknown key"),
        (json!([{"echo": "all"}]), "rule 0, key \"echo\": must be one of messages"),
        (
            json!([{"reply": "x", "chunks": []}]),
            "rule 0, key \"chunks\": cannot be used together with \"reply\"",
        ),
        (json!([{"reply": []}]), "rule 0, key \"reply\""),
        (json!([{"status": 99}]), "rule 0, key \"status\""),
        (json!([{"break_in": "two"}]), "rule 0, key \"break_in\": must be one of calls, event, character"),
        (json!([{"error_code": true}]), "rule 0, key \"error_code\": must be a text or a whole number"),
        (json!([{"usage": {"prompt_tokens": "5"}}]), "rule 0, key \"usage.prompt_tokens\""),
        (json!([{"headers": {"a b": "c"}}]), "rule 0, key \"headers.a b\""),
        (json!(["x"]), "rule 0, key \"\": a rule must be an object"),
        (json!({"llm": {}}), "\"llm\" is not a list; write"),
        (json!({"rules": []}), "the document has no rules; write"),
    ] {
        let error = rules::parse(&document).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{document}: {error}");
    }
}
