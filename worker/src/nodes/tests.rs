//! Tests of nodes that call a model, with a local service: their requests and costs.

use std::borrow::Cow;

use serde_json::{Value as Json, json};
use tidemill_common::config::HttpConfig;
use tidemill_common::files::Folder;
use tidemill_common::graph::builder::import;
use tidemill_common::nodes::evaluate::UndefinedNames;
use tidemill_common::value::{Lookup, Segment, Variables};

use super::*;
use crate::outside::http::Http;
use crate::outside::knowledge::tests::Service;
use crate::outside::providers::Providers;
use crate::tests::fake::{FakeJobs, journal, run_id};

struct Values;

impl Variables for Values {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        match (node, name) {
            ("start", "q") => Lookup::Found(Cow::Owned(Segment::string("why?"))),
            _ => Lookup::Missing,
        }
    }
    fn names(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

const CHAT: &str = "/v1/chat/completions";

/// A streamed reply of 5 prompt tokens and 7 completion tokens.
fn said(choice: &Json) -> String {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}});
    format!("data: {}\n\ndata: {usage}\n\ndata: [DONE]\n\n", json!({"choices": [choice]}))
}

fn reply(text: &str) -> String {
    said(&json!({"index": 0, "delta": {"content": text}, "finish_reason": "stop"}))
}

fn model(mode: &str) -> Json {
    json!({"provider": "p", "name": "m", "mode": mode, "completion_params": {}})
}

async fn run_node(service: &Service, data: Json) -> NodeResult {
    let document = json!({"graph": {
        "nodes": [{"id": "start", "data": {"type": "start", "title": "S", "variables": []}}, {"id": "n", "data": data}],
        "edges": [{"source": "start", "target": "n"}],
    }});
    let imported = import(document.to_string().as_bytes());
    let graph = imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics));
    let node = graph.node(graph.find("n").unwrap());
    let profile =
        json!({"p": {"base_url": format!("{}/v1", service.base), "api_key": "k", "max_retries": 0}});
    let providers = Providers::new(&serde_json::from_value(profile).unwrap(), &|_| None).unwrap();
    let journal = &journal(&FakeJobs::new());
    let folder = tempfile::tempdir().unwrap();
    let files = &Folder::at(&format!("file://{}", folder.path().display())).unwrap();
    let http = &Http::new(&HttpConfig::default()).unwrap();
    match &node.data {
        NodeData::Llm(data) => {
            let file_store = FileStore { run: &run_id(), http, files };
            let (on_delta, on_thought) = (&mut |_: &str| {}, &mut |_: &str, _: bool| {});
            let (undefined, emit) = (UndefinedNames::default(), &|_, _| {});
            let providers = &providers;
            let means = llm::Means {
                undefined,
                providers,
                waiter: journal,
                file_store,
                on_delta,
                on_thought,
                warn: &|_| {},
                emit,
            };
            llm::run(data, node, &Values, means).await
        }
        NodeData::QuestionClassifier(data) => {
            question_classifier::run(data, node, &Values, &providers, journal, &|_| {}).await
        }
        other => panic!("{other:?}"),
    }
}

fn asking(mode: &str, template: Json) -> Json {
    json!({
        "type": "llm", "title": "L", "model": model(mode), "prompt_template": template,
        "context": {"enabled": false, "variable_selector": []}, "vision": {"enabled": false},
    })
}

#[tokio::test]
async fn a_reply_that_is_of_no_use_is_paid_for() {
    let mut structured = asking("chat", json!([{"role": "user", "text": "hi"}]));
    structured["structured_output_enabled"] = json!(true);
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    structured["structured_output"] = json!({"schema": schema});
    let mut apart = structured.clone();
    apart["reasoning_format"] = json!("separated");
    let classifier = json!({
        "type": "question-classifier", "title": "C", "model": model("chat"),
        "query_variable_selector": ["start", "q"], "classes": [{"id": "1", "name": "one"}], "instruction": "",
    });
    // In Dify the last error escapes the node.
    let escaping = "```json\n\"category_name category_id\"\n```";
    for (data, text, error_type) in [
        (structured, "{}", "LLMNodeError"),
        (apart, "{}", "LLMNodeError"),
        (classifier.clone(), "no idea", "ValueError"),
        (classifier, escaping, "WorkflowNodeError"),
    ] {
        let service = Service::new(&[(CHAT, 200, &reply(text))]).await;
        let result = run_node(&service, data).await;
        assert_eq!(result.failure.as_ref().map(|failure| failure.error_type.as_str()), Some(error_type));
        let told = result.usage.map_or(0, |usage| usage.total_tokens);
        let wasted = result.wasted.map(|wasted| (wasted.provider, wasted.model, wasted.usage.total_tokens));
        // A failure with a record reports its own cost, as in Dify.
        match error_type {
            "ValueError" => assert_eq!((told, wasted), (12, None)),
            _ => assert_eq!((told, wasted), (0, Some(("p".into(), "m".into(), 12))), "{error_type}"),
        }
    }
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_paid_for_as_far_as_it_came() {
    let plain = asking("chat", json!([{"role": "user", "text": "12345678"}]));
    let mut apart = plain.clone();
    apart["reasoning_format"] = json!("separated");
    let piece = json!({"choices": [{"index": 0, "delta": {"content": "twelve chars"}}]});
    let broken = format!("data: {piece}\n\n");
    for data in [plain, apart] {
        let service = Service::new(&[(CHAT, 200, &broken)]).await;
        let result = run_node(&service, data).await;
        assert_eq!(result.failure.unwrap().error_type, "InvokeConnectionError");
        let usage = result.wasted.expect("it was paid for").usage;
        // `user: 12345678` and the text, with four characters per token.
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (4, 3));
        assert_eq!((&usage.record["estimated"], result.usage), (&json!(true), None));
    }
    // A call that is refused at once costs nothing.
    let service = Service::new(&[(CHAT, 400, "{}")]).await;
    assert_eq!(
        run_node(&service, asking("chat", json!([{"role": "user", "text": "hi"}]))).await.wasted,
        None
    );
}

#[tokio::test]
async fn a_server_that_counts_nothing_is_estimated() {
    let object =
        json!({"choices": [{"index": 0, "delta": {"content": "twelve chars"}, "finish_reason": "stop"}]});
    let uncounted = format!("data: {object}\n\ndata: [DONE]\n\n");
    let service = Service::new(&[(CHAT, 200, &uncounted)]).await;
    let result = run_node(&service, asking("chat", json!([{"role": "user", "text": "12345678"}]))).await;
    let usage = result.usage.unwrap();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (4, 3, 7));
    assert_eq!(usage.record["estimated"], true, "{usage:?}");
}

#[tokio::test]
async fn the_first_piece_has_a_time_only_where_there_are_pieces() {
    let data = asking("chat", json!([{"role": "user", "text": "hi"}]));
    let service = Service::new(&[(CHAT, 200, &reply("well"))]).await;
    let usage = run_node(&service, data.clone()).await.usage.unwrap();
    assert!(usage.record["time_to_first_token"].is_number(), "{usage:?}");
    let whole = json!({
        "choices": [{"index": 0, "message": {"content": "well"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7},
    });
    let service = Service::new(&[(CHAT, 200, &whole.to_string())]).await;
    let usage = run_node(&service, data).await.usage.unwrap();
    for key in ["time_to_first_token", "time_to_generate"] {
        assert_eq!(usage.record[key], Json::Null, "{usage:?}");
    }
    assert_eq!(usage.total_tokens, 12);
}
