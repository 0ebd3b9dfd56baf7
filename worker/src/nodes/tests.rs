//! Nodes that ask a model, against a service on this machine: what is asked, and what is paid.

use std::borrow::Cow;

use serde_json::{Value as Json, json};
use tidemill_common::config::HttpConfig;
use tidemill_common::files::Folder;
use tidemill_common::graph::build::import;
use tidemill_common::nodes::evaluate::UndefinedNames;
use tidemill_common::value::{Lookup, Segment, Variables};

use super::*;
use crate::fake::{FakeJobs, run_id, steps};
use crate::http::Http;
use crate::knowledge::tests::Service;
use crate::providers::Providers;

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

/// A reply, streamed, of 5 and 7 tokens.
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
    let steps = &steps(&FakeJobs::new());
    let folder = tempfile::tempdir().unwrap();
    let files = &Folder::at(&format!("file://{}", folder.path().display())).unwrap();
    let http = &Http::new(&HttpConfig::default()).unwrap();
    match &node.data {
        NodeData::Llm(data) => {
            let keeping = Keeping { run: &run_id(), http, files };
            let (on_delta, on_thought) = (&mut |_: &str| {}, &mut |_: &str, _: bool| {});
            let (undefined, tell) = (UndefinedNames::default(), &|_, _| {});
            let providers = &providers;
            let means = llm::Means { undefined, providers, pace: steps, keeping, on_delta, on_thought, tell };
            llm::run(data, node, &Values, means).await
        }
        NodeData::QuestionClassifier(data) => {
            question_classifier::run(data, node, &Values, &providers, steps).await
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
    // On Dify the last one escapes the node.
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
        assert_eq!(result.usage.map(|usage| usage.total_tokens), Some(12), "{error_type}");
    }
}
