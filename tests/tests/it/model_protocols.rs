//! The worker's clients of all model APIs against the mock, over real HTTP: the same rules must give the same
//! results.

#![allow(
    clippy::unwrap_used,
    reason = "everything here is a test; clippy only knows that of functions with #[test]"
)]

use std::net::SocketAddr;

use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::message::{Message, ToolSpec};
use tidemill_common::nodes::llm::params::Params;
use tidemill_common::nodes::llm::{ModelMode, Role};
use tidemill_mock_llm::{MockLlm, Running, rules};
use tidemill_worker::outside::providers::{
    Model, ModelError, ModelReply, Providers, ProvidersConfig, Question,
};

async fn mock(document: Json) -> Running {
    let rules = rules::parse(&document).unwrap();
    MockLlm::start(rules, SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap()
}

/// A kind of API as a profile names it, and the path at which the mock serves it.
#[derive(Debug, Clone, Copy)]
struct Kind {
    kind: &'static str,
    api_version: Option<&'static str>,
    mode: ModelMode,
    path: &'static str,
}

const fn kind(kind: &'static str, path: &'static str) -> Kind {
    Kind { kind, api_version: None, mode: ModelMode::Chat, path }
}

const KINDS: [Kind; 6] = [
    kind("openai_compatible", "/v1/chat/completions"),
    Kind { mode: ModelMode::Completion, ..kind("openai_compatible", "/v1/completions") },
    kind("azure_openai", "/openai/v1/chat/completions"),
    Kind {
        api_version: Some("2024-10-21"),
        ..kind("azure_openai", "/openai/deployments/deployed/chat/completions")
    },
    kind("anthropic", "/v1/messages"),
    kind("ollama", "/api/chat"),
];

impl Kind {
    async fn model(self, mock: &Running, further: &Json) -> Model {
        // Azure's address has only a host; the others accept any form of the address.
        let base_url = if self.kind == "azure_openai" { mock.url() } else { mock.base_url() };
        let mut profile = json!({
            "kind": self.kind, "base_url": base_url, "api_key": "sk-k", "deployment_map": {"m": "deployed"}
        });
        if let Some(version) = self.api_version {
            profile["api_version"] = json!(version);
        }
        for (key, value) in further.as_object().unwrap() {
            profile[key] = value.clone();
        }
        let config: ProvidersConfig = serde_json::from_value(json!({"acme": profile})).unwrap();
        Providers::new(&config, &|_| None).unwrap().model("acme", "m").await.unwrap()
    }

    async fn ask(self, mock: &Running, stream: bool) -> (Vec<String>, Result<ModelReply, ModelError>) {
        let quick = json!({"read_timeout_ms": 400, "max_retries": 2});
        let tools = match self.mode {
            ModelMode::Chat => vec![ToolSpec {
                name: "f".into(),
                description: "adds".into(),
                parameters: json!({"type": "object"}),
            }],
            ModelMode::Completion => Vec::new(),
        };
        let question = Question {
            messages: vec![Message::text(Role::User, "hi")],
            params: Params::default(),
            tools,
            mode: self.mode,
            stream,
        };
        let mut pieces = Vec::new();
        let mut on_delta = |piece: &str| pieces.push(piece.to_owned());
        let reply = self.model(mock, &quick).await.ask(question, &mut on_delta).await;
        (pieces, reply)
    }
}

#[tokio::test]
async fn every_api_gives_the_same_reply_streamed_or_not() {
    for kind in KINDS {
        let mock = mock(json!([{
            "match": {"equals": "hi"}, "chunks": ["one ", "two"], "usage": {"prompt_tokens": 11, "completion_tokens": 12}
        }]))
        .await;
        for stream in [true, false] {
            let (pieces, reply) = kind.ask(&mock, stream).await;
            let reply = reply.unwrap();
            let expected: &[&str] = if stream { &["one ", "two"] } else { &["one two"] };
            assert_eq!(
                (pieces, reply.text.as_str()),
                (expected.iter().map(ToString::to_string).collect(), "one two")
            );
            assert_eq!((reply.tokens.prompt, reply.tokens.completion), (11, 12), "{kind:?}");
            let usual = if kind.kind == "anthropic" { "end_turn" } else { "stop" };
            assert_eq!(reply.finish_reason.as_deref(), Some(usual), "{kind:?}");
        }
        let paths: Vec<Json> = mock.requests().iter().map(|request| request["path"].clone()).collect();
        assert_eq!(paths, [kind.path, kind.path]);
    }
}

#[tokio::test]
async fn tool_calls_are_complete_however_they_are_sent() {
    for kind in KINDS.into_iter().filter(|kind| kind.mode == ModelMode::Chat) {
        let calls = json!([{"name": "f", "arguments": {"a": 12345}}, {"name": "f", "arguments": {}}]);
        let mock =
            mock(json!([{"match": {"has_tools": true}, "tool_calls": calls, "tool_call_pieces": 4}])).await;
        for stream in [true, false] {
            let reply = kind.ask(&mock, stream).await.1.unwrap();
            let told: Vec<_> =
                reply.tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
            assert_eq!(told, [("f", "{\"a\":12345}"), ("f", "{}")], "{kind:?}, stream {stream}");
            assert!(reply.tool_calls[0].id != reply.tool_calls[1].id && !reply.tool_calls[0].id.is_empty());
        }
    }
}

#[tokio::test]
async fn temporary_failures_are_retried_and_others_are_not_for_every_api() {
    let soon = json!({"retry-after-ms": "1"});
    for kind in KINDS {
        for (rule, outcome, times) in [
            (json!({"fail_times": 1, "status": 429, "headers": {"Retry-After": "0.05"}}), "", 2),
            (json!({"fail_times": 2, "status": 500, "headers": soon}), "", 3),
            (json!({"status": 529, "headers": soon}), "InvokeServerUnavailableError", 3),
            (json!({"status": 401, "error": "no sk-k"}), "InvokeAuthorizationError", 1),
            (json!({"status": 400}), "InvokeBadRequestError", 1),
            (json!({"status": 429, "headers": {"x-should-retry": "false"}}), "InvokeRateLimitError", 1),
            (json!({"status": 429, "headers": {"Retry-After": "3600"}}), "InvokeRateLimitError", 1),
            (json!({"break_stream": true}), "InvokeConnectionError", 1),
            (json!({"invalid_json": true}), "InvokeConnectionError", 1),
            (json!({"stream_error": "enough"}), "InvokeServerUnavailableError", 1),
            (json!({"reset": true}), "InvokeConnectionError", 1),
            (json!({"reset": true, "break_in": "character"}), "InvokeConnectionError", 1),
            (json!({"break_in": "event"}), "InvokeConnectionError", 1),
            (json!({"break_in": "character"}), "InvokeConnectionError", 1),
            (json!({"first_delay_ms": 60_000}), "InvokeConnectionError", 2),
            (json!({"first_delay_ms": 120}), "", 1),
        ] {
            let mut told = rule.clone();
            told["reply"] = json!("text");
            let mock = mock(json!([told])).await;
            let (pieces, reply) = kind.ask(&mock, true).await;
            let class = reply.as_ref().err().map_or("", |error| error.class.error_type());
            assert_eq!((class, mock.requests().len()), (outcome, times), "{kind:?} {rule}: {reply:?}");
            match reply {
                Ok(reply) => assert_eq!(reply.text, "text"),
                Err(error) => {
                    assert!(
                        error.message.starts_with("[acme] ") && !error.message.contains("sk-k"),
                        "{error}"
                    );
                    let shown = ["break_stream", "invalid_json", "stream_error", "reset", "break_in"]
                        .iter()
                        .any(|key| rule.get(*key).is_some());
                    assert_eq!(pieces.concat(), if shown { "text" } else { "" }, "{kind:?} {rule}");
                }
            }
        }
    }
}

#[tokio::test]
async fn the_error_type_of_a_provider_decides_the_class_and_whether_to_retry() {
    const QUOTA: &str = "insufficient_quota";
    for kind in KINDS {
        for (rule, class) in [
            (json!({"status": 429, "error_type": QUOTA, "error_code": QUOTA}), "InvokeRateLimitError"),
            (json!({"status": 429, "error_code": QUOTA}), "InvokeRateLimitError"),
            (json!({"status": 400, "error_code": "content_filter"}), "InvokeBadRequestError"),
            (json!({"stream_error": "m", "error_type": "rate_limit_error"}), "InvokeRateLimitError"),
            (json!({"stream_error": "m", "error_type": "overloaded_error"}), "InvokeServerUnavailableError"),
            (json!({"stream_error": "m", "error_code": "content_filter"}), "InvokeBadRequestError"),
            (json!({"stream_error": "m", "error_code": 401}), "InvokeAuthorizationError"),
        ] {
            // Ollama's errors have no type: only the status decides, and inside a stream nothing does.
            let is_nameless = kind.kind == "ollama";
            if is_nameless && rule.get("stream_error").is_none() {
                continue;
            }
            let class = if is_nameless { "InvokeServerUnavailableError" } else { class };
            let mut told = rule.clone();
            told["reply"] = json!("text");
            let mock = mock(json!([told])).await;
            let error = kind.ask(&mock, true).await.1.unwrap_err();
            assert_eq!(
                (error.class.error_type(), mock.requests().len()),
                (class, 1),
                "{kind:?} {rule}: {error}"
            );
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_inside_tool_calls_is_retried_unless_text_was_streamed() {
    for kind in KINDS.into_iter().filter(|kind| kind.mode == ModelMode::Chat) {
        let calls = json!([{"name": "f", "arguments": {"a": 12345}}]);
        for reset in [false, true] {
            let mock = mock(json!([{
                "tool_calls": calls, "tool_call_pieces": 4, "break_in": "calls", "break_times": 1, "reset": reset
            }]))
            .await;
            let (pieces, reply) = kind.ask(&mock, true).await;
            let reply = reply.unwrap();
            let called: Vec<_> =
                reply.tool_calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
            // Nothing of the broken try is left.
            assert_eq!((called, pieces.len()), (vec![("f", "{\"a\":12345}")], 0), "{kind:?}, reset {reset}");
            assert_eq!(mock.requests().len(), 2, "{kind:?}, reset {reset}");
        }
        for (rule, class) in [
            (json!({}), "InvokeConnectionError"),
            (json!({"reset": true}), "InvokeConnectionError"),
            (json!({"invalid_json": true}), "InvokeConnectionError"),
            (json!({"stream_error": "enough"}), "InvokeServerUnavailableError"),
        ] {
            let mut told = rule.clone();
            for (key, value) in
                [("reply", json!("text")), ("break_in", json!("calls")), ("tool_calls", calls.clone())]
            {
                told[key] = value;
            }
            let mock = mock(json!([told])).await;
            let (pieces, reply) = kind.ask(&mock, true).await;
            let error = reply.unwrap_err();
            assert_eq!(
                (pieces.concat().as_str(), error.class.error_type()),
                ("text", class),
                "{kind:?} {rule}"
            );
            assert_eq!(mock.requests().len(), 1, "{kind:?} {rule}");
        }
    }
}

#[tokio::test]
async fn a_call_whose_connection_is_reset_is_retried() {
    for kind in KINDS {
        let mock = mock(json!([{"reply": "text", "reset": true, "break_times": 1}])).await;
        let (pieces, reply) = kind.ask(&mock, false).await;
        assert_eq!((pieces.concat().as_str(), reply.unwrap().text.as_str()), ("text", "text"), "{kind:?}");
        assert_eq!(mock.requests().len(), 2, "{kind:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_json_fails_without_a_stream_too() {
    for kind in KINDS {
        let mock = mock(json!([{"invalid_json": true}])).await;
        let error = kind.ask(&mock, false).await.1.unwrap_err();
        assert_eq!(error.class.error_type(), "InvokeConnectionError", "{kind:?}");
    }
}

#[tokio::test]
async fn the_reply_has_the_limits_that_an_api_reports() {
    let soon = (chrono::Utc::now() + chrono::TimeDelta::seconds(60)).to_rfc3339();
    for kind in KINDS {
        let headers = match kind.kind {
            "anthropic" => json!({
                "anthropic-ratelimit-requests-limit": "60", "anthropic-ratelimit-requests-remaining": "59",
                "anthropic-ratelimit-requests-reset": soon, "anthropic-ratelimit-input-tokens-limit": "40000",
                "anthropic-ratelimit-input-tokens-remaining": "0", "anthropic-ratelimit-input-tokens-reset": soon,
            }),
            _ => json!({
                "x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-reset-requests": "1m0s", "x-ratelimit-limit-tokens": "40000",
                "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "60s",
            }),
        };
        let mock = mock(json!([{"reply": "x", "headers": headers}])).await;
        let rate = kind.ask(&mock, true).await.1.unwrap().rate;
        let near = |ms: Option<u64>| ms.is_some_and(|ms| (50_000..=60_000).contains(&ms));
        assert_eq!((rate.requests.limit, rate.requests.remaining), (Some(60), Some(59)), "{kind:?}");
        assert_eq!(rate.tokens.limit, Some(40_000), "{kind:?}");
        // The remaining tokens grow again with the time since the answer began.
        assert!(rate.tokens.remaining.is_some_and(|left| left < 4_000), "{kind:?}: {rate:?}");
        assert!(near(rate.requests.reset_ms) && near(rate.tokens.reset_ms), "{kind:?}: {rate:?}");
    }
    // When a limit is used up and nothing else gives a time, its reset says how long to wait; here too long for a
    // client.
    let later = (chrono::Utc::now() + chrono::TimeDelta::seconds(7200)).to_rfc3339();
    let used_up =
        json!({"anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": later});
    let mock = mock(json!([{"status": 429, "headers": used_up}])).await;
    let error = KINDS[4].ask(&mock, true).await.1.unwrap_err();
    assert!(error.retry_after_ms.is_some_and(|ms| (7_000_000..=7_200_000).contains(&ms)), "{error:?}");
    assert_eq!(mock.requests().len(), 1);
}

#[tokio::test]
async fn texts_become_vectors_in_as_many_requests_as_necessary() {
    let texts: Vec<String> = ["a red fox", "the fox", "a dog", "", "x"].map(str::to_owned).to_vec();
    for kind in KINDS.into_iter().filter(|kind| kind.kind != "anthropic") {
        let mock = mock(json!([{"fail_times": 1, "status": 503, "headers": {"retry-after-ms": "1"}}])).await;
        let model = kind.model(&mock, &json!({"models": {"m": {"max_chunks": 2}}})).await;
        let (vectors, tokens) = model.embed(&texts).await.unwrap();
        assert_eq!((vectors.len(), tokens.prompt), (5, 8), "{kind:?}");
        let near = |a: usize, b: usize| vectors[a].iter().zip(&vectors[b]).map(|(a, b)| a * b).sum::<f32>();
        assert!(near(0, 1) > near(1, 2), "{kind:?}");
        assert_eq!(mock.requests().len(), 4, "one failed, three of two texts each");
    }
    let mock = mock(json!([])).await;
    let error = KINDS[4].model(&mock, &json!({})).await.embed(&texts).await.unwrap_err();
    assert_eq!(error.message, "[acme] Bad Request Error, the API of the model m has no embeddings");
}

#[tokio::test]
async fn documents_are_ranked_best_first() {
    let documents: Vec<String> = ["a dog", "the fox", "a red fox"].map(str::to_owned).to_vec();
    let mock = mock(json!([])).await;
    let ranking = KINDS[0].model(&mock, &json!({})).await.rerank("red fox", &documents, 2).await.unwrap();
    assert_eq!(ranking.0, [(2, 1.0), (1, 0.5)]);
    assert_eq!(mock.requests()[0]["path"], "/v1/rerank");
    assert!(KINDS[2].model(&mock, &json!({})).await.rerank("red fox", &documents, 2).await.is_err());
}
