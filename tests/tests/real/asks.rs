//! What plugins ask back, answered on a fleet; and an agent strategy of a plugin.

use serde_json::{Value as Json, json};
use tidemill_tests::llm;

use crate::lab::{ENDED_WITHIN, Lab, Tool, asks, constant, many, many_as, workflow};

pub(crate) const ID: &str = "tidemill/asks:0.1.0";
const STRATEGY: &str = "tidemill/asks/echo";

/// The tool `say` of another version of the plugin `many`.
const OTHER: &str = r#"
from dify_plugin import Tool


class Say(Tool):
    def _invoke(self, tool_parameters):
        yield self.create_text_message("other " + str(tool_parameters["text"]))
"#;

/// A node that asks for something.
pub(crate) fn ask<'a>(id: &'a str, what: &str, text: &str) -> Tool<'a> {
    let more = json!({
        "provider_id": "tidemill/asks/asks", "provider_name": "tidemill/asks/asks",
        "plugin_unique_identifier": "tidemill/asks:0.1.0@0000",
    });
    Tool { more, ..Tool::new(id, "ask", json!({"what": constant(what), "text": constant(text)})) }
}

fn rules() -> Json {
    json!([
        {"match": {"contains": "tool please"}, "reply": "", "tool_calls": [{"name": "f", "arguments": {}}]},
        {"match": {"contains": "boats or mills"}, "reply": "{\"category_id\": \"2\", \"category_name\": \"mills\"}"},
        {"match": {}, "chunks": ["The ", "tide ", "comes."]},
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plugin_asks_back_is_answered_within_its_manifest() {
    let model = llm::rules(rules()).await;
    let settings = [("files.url", "place"), ("plugins.nesting_max", "2")];
    let Some(lab) = Lab::with_model(&settings, Some(&model)).await else { return };
    lab.install(&asks(), ID).await;
    lab.install(&many(), "tidemill/many:0.1.0").await;

    let chats = lab
        .run(&[
            ask("chat", "chat", "hello"),
            ask("calls", "chat", "tool please"),
            ask("whole", "whole", "hello"),
        ])
        .await;
    assert_eq!(chats["status"], "succeeded", "{chats}");
    let outputs = &chats["outputs"];
    assert_eq!(
        (&outputs["chat_text"], &outputs["whole_text"]),
        (&json!("The tide comes."), &json!("The tide comes."))
    );
    let chat = &outputs["chat_json"][0];
    assert!(chat["pieces"].as_u64() >= Some(3), "the words came in pieces: {outputs}");
    assert!(chat["tokens"].as_u64() > Some(0), "{outputs}");
    assert_eq!(outputs["calls_json"][0]["calls"], json!(["f"]));
    // Each question is in the ledger of the run, under its model.
    let spent = &chats["models"];
    assert_eq!((&spent[0]["model"], &spent[0]["calls"]), (&json!("gpt-4o"), &json!(3)), "{chats}");
    assert_eq!(spent.as_array().map(Vec::len), Some(1), "nothing is counted twice: {chats}");

    let vectors = lab.run(&[ask("vectors", "vectors", "a mill")]).await;
    assert_eq!(vectors["outputs"]["vectors_json"][0]["vectors"], 2, "{vectors}");

    // The storage belongs to the plugin, in all runs, and is bounded.
    for (expected, what) in [("False one", "storage"), ("True one", "storage"), ("False", "forget")] {
        let kept = lab.run(&[ask("keep", what, "one")]).await;
        assert_eq!(kept["outputs"]["keep_text"], expected, "{kept}");
    }
    let large = lab.run(&[ask("large", "large", "")]).await;
    assert!(large["outputs"]["large_text"].as_str().unwrap().contains("may have 2048"), "{large}");
    lab.run(&[ask("keep", "storage", "one")]).await;

    let tool = lab.run(&[ask("tool", "tool", "ab")]).await;
    assert_eq!(tool["outputs"]["tool_text"], "abab", "{tool}");
    assert_eq!(tool["outputs"]["tool_json"][0]["bytes"], 25_600, "{tool}");
    let itself = lab.run(&[ask("itself", "itself", "")]).await;
    let said = itself["outputs"]["itself_text"].as_str().unwrap();
    assert!(said.contains("2 deep at most (plugins.nesting_max)"), "{itself}");

    let upload = lab.run(&[ask("upload", "upload", "abc")]).await;
    let expected = json!({"name": "note.txt", "size": 3, "has_id": true});
    assert_eq!(upload["outputs"]["upload_json"][0], expected, "{upload}");

    let classified = lab.run(&[ask("sort", "classify", "boats or mills")]).await;
    assert_eq!(classified["outputs"]["sort_json"][0]["class_id"], "2", "{classified}");
    let app = lab.run(&[ask("app", "app", r#"{"app": "unknown"}"#)]).await;
    let said = app["outputs"]["app_text"].as_str().unwrap();
    assert!(said.contains("app not found"), "{app}");

    // What it has stored goes with its last version.
    assert!(lab.cluster.redis.cli(&["KEYS", "tm:plugin-values*"]).contains("tidemill/asks"));
    lab.well(&["plugins", "rm", ID], "").await;
    assert_eq!(lab.cluster.redis.cli(&["KEYS", "tm:plugin-values*"]).trim(), "");
}

/// A list with the tool `say` of the plugin `many`.
fn say() -> Json {
    json!([{
        "enabled": true, "type": "builtin", "provider_name": "tidemill/many/many", "tool_name": "say",
        "tool_label": "say", "settings": {}, "parameters": {"text": {"auto": 0, "value": {"type": "constant", "value": "ab"}}},
    }])
}

/// A workflow with an agent of the strategy.
fn agent(tools: &Json, query: &str) -> Json {
    let mut document = workflow(&[]);
    let model = json!({"provider": "langgenius/openai/openai", "model": "gpt-4o", "mode": "chat", "completion_params": {}});
    let agent = json!({
        "type": "agent", "title": "Agent", "agent_strategy_name": "echo", "agent_strategy_provider_name": STRATEGY,
        "agent_strategy_label": "Echo", "plugin_unique_identifier": "tidemill/asks:0.1.0@0000",
        "agent_parameters": {
            "model": constant(model), "tools": constant(tools.clone()), "query": constant(query),
        },
    });
    let graph = &mut document["workflow"]["graph"];
    graph["nodes"]
        .as_array_mut()
        .expect("a graph has nodes")
        .insert(1, json!({"id": "agent", "data": agent}));
    let edge = |from: &str, to: &str| json!({"id": format!("{from}-{to}"), "source": from, "target": to, "sourceHandle": "source", "targetHandle": "target"});
    graph["edges"] = json!([edge("start", "agent"), edge("agent", "end")]);
    let outputs =
        ["text", "json", "usage"].map(|name| json!({"variable": name, "value_selector": ["agent", name]}));
    graph["nodes"][2]["data"]["outputs"] = json!(outputs);
    document
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_strategy_of_a_plugin_runs_with_models_and_tools_of_the_fleet() {
    let model = llm::rules(rules()).await;
    let Some(lab) = Lab::with_model(&[], Some(&model)).await else { return };
    lab.install(&many(), "tidemill/many:0.1.0").await;
    let document = agent(&say(), "When?");

    let run = lab.begin_with(&document).await;
    let unknown = lab.client.ended(&run).await;
    let error = unknown["error"].as_str().unwrap();
    assert!(error.contains("tidemill/asks:0.1.0") && error.contains("tidemill plugins add"), "{unknown}");

    lab.install(&asks(), ID).await;
    let run = lab.begin_with(&document).await;
    let ended = lab.client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let outputs = &ended["outputs"];
    assert_eq!(outputs["text"], "The tide comes. | ab", "{ended}");
    assert!(outputs["usage"]["total_tokens"].as_u64() > Some(1), "what this worker has counted: {outputs}");
    let json = outputs["json"].as_array().unwrap();
    assert_eq!((&json[0]["label"], &json[0]["status"]), (&json!("ROUND 1"), &json!("success")), "{json:?}");
    assert_eq!(json[0]["data"], json!({"rounds": 3, "tools": ["say"]}), "{json:?}");
    assert_eq!(json[1..], [json!({"rounds": 3})]);
    let events = lab.client.get(&format!("/api/v1/runs/{run}/events?follow=false")).await.text;
    assert!(events.contains("agent_log") && events.contains("ROUND 1"), "{events}");

    // It calls the version that the file names, or else the newest.
    let other = many_as("0.2.0", &[("tools/say.py", OTHER)]);
    lab.install(other.path(), "tidemill/many:0.2.0").await;
    for (named, expected) in [("0.1.0", "ab"), ("0.2.0", "other ab"), ("9.9", "other ab")] {
        let mut tools = say();
        tools[0]["plugin_unique_identifier"] = json!(format!("tidemill/many:{named}@0000"));
        let run = lab.begin_with(&agent(&tools, "When?")).await;
        let ended = lab.client.ended_within(&run, ENDED_WITHIN).await;
        assert_eq!(ended["outputs"]["text"], format!("The tide comes. | {expected}"), "{named}: {ended}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strategy_calls_no_tool_that_needs_approval_and_no_question() {
    let model = llm::rules(rules()).await;
    let Some(lab) = Lab::with_model(&[], Some(&model)).await else { return };
    lab.install(&many(), "tidemill/many:0.1.0").await;
    lab.install(&asks(), ID).await;
    let ended = async |document: &Json, approved: Option<Json>| {
        let mut body = json!({"workflow": document.to_string(), "inputs": {}, "user": "tester"});
        if let Some(tools) = approved {
            body["options"] = json!({"tool_approval": {"auto_approved_tools": tools}});
        }
        let run = lab.client.submit(&body).await;
        lab.client.ended_within(&run, ENDED_WITHIN).await
    };

    let given = agent(&say(), "When?");
    let refused = ended(&given, Some(json!([]))).await;
    let error = refused["error"].as_str().unwrap_or_default();
    assert!(error.contains("tidemill/many/many/say must be approved"), "{refused}");
    for approved in ["say", "tidemill/many/many/say"] {
        let free = ended(&given, Some(json!([approved]))).await;
        assert_eq!(free["outputs"]["text"], "The tide comes. | ab", "{approved}: {free}");
    }

    // One that the strategy was not given.
    let other = agent(&json!([]), "call say");
    for approved in [json!([]), json!(["say"])] {
        let refused = ended(&other, Some(approved)).await;
        let said = refused["outputs"]["text"].as_str().unwrap_or_default();
        assert!(said.contains("not among tool_approval.auto_approved_tools"), "{refused}");
    }
    for approved in [None, Some(json!(["tidemill/many/many/say"]))] {
        let free = ended(&other, approved).await;
        assert_eq!(free["outputs"]["text"], "ab", "{free}");
    }

    let question = ended(&agent(&json!([]), "call tidemill:options"), None).await;
    let said = question["outputs"]["text"].as_str().unwrap_or_default();
    assert!(said.contains("is no tool that a plugin can call"), "{question}");
}
