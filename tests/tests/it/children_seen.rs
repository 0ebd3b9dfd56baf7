//! Nodes inside other nodes as clients see them: their text while it is made, their starts, their tries, and the rows of
//! nodes. Also the Calls that a worker has checked.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::check::{Event, Transcript};
use tidemill_tests::wait::until;

use super::children::{Fleet, PROMPT, QUESTION, Setup, extraction, keywords};

/// Outputs that show the tool's text, and after it that of the extraction.
fn tool_first() -> Json {
    json!([
        {"variable": "said", "value_selector": ["tool1", "text"]},
        {"variable": "keywords", "value_selector": ["tool1_ext_1", "text"]},
    ])
}

/// Outputs that show only the tool's text.
fn tool_alone() -> Json {
    json!([{"variable": "said", "value_selector": ["tool1", "text"]}])
}

/// The chunks of the extraction that are no part of an answer.
fn live(told: &Transcript) -> Vec<&Event> {
    let chunks = told.of_kind("node_run_stream_chunk").filter(|it| it.node() == Some("tool1_ext_1"));
    chunks.filter(|it| it.data["in_answer"] == false).collect()
}

fn joined(chunks: &[&Event]) -> String {
    chunks.iter().map(|it| it.data["chunk"].as_str().unwrap_or_default()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a28_the_text_of_a_child_comes_before_its_parent_whether_or_not_an_answer_shows_it() {
    let fleet = Fleet::start(keywords()).await;
    for outputs in [tool_first(), tool_alone()] {
        let (run, told) = fleet.run(&Setup { outputs, ..Setup::default() }).await;
        assert_eq!(run["status"], "succeeded", "{run:#}");
        let chunks = live(&told);
        assert_eq!(joined(&chunks), "Raft, consensus");
        assert!(chunks.iter().all(|it| it.data["selector"] == json!(["tool1_ext_1", "text"])));
        assert_eq!(chunks.last().map(|it| it.data["is_final"].clone()), Some(json!(true)));
        let at = |kind: &str, node: &str| {
            let found = told.events.iter().position(|it| it.kind == kind && it.node() == Some(node));
            found.unwrap_or_else(|| panic!("no {kind} of {node}"))
        };
        let order = [
            at("node_run_started", "tool1_ext_1"),
            at("node_run_stream_chunk", "tool1_ext_1"),
            at("node_run_succeeded", "tool1_ext_1"),
            at("node_run_started", "tool1"),
            at("node_run_stream_chunk", "tool1"),
        ];
        assert!(order.is_sorted(), "{order:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a29_difys_stream_tells_what_a_child_is_and_shows_only_the_answers_text() {
    let fleet = Fleet::start(keywords()).await;
    let client = &fleet.system.client;
    let setup = Setup { outputs: tool_alone(), ..Setup::default() };
    let app = client.post("/api/v1/apps", &json!({"workflow": setup.workflow()})).await;
    assert_eq!(app.status, 201, "{}", app.text);
    let app = client.with_key(app.body["key"].as_str());
    let body = json!({"inputs": {"q": QUESTION}, "response_mode": "streaming", "user": "u"});
    let request = app.request(Method::POST, "/v1/workflows/run").header("content-type", "application/json");
    let mut stream = app.open(request.body(body.to_string())).await;
    let mut frames = Vec::new();
    while let Some(message) = stream.next().await {
        frames.extend(message.data.map(|data| serde_json::from_str::<Json>(&data).expect("events are JSON")));
    }
    let of = |event: &str| -> Vec<Json> {
        frames.iter().filter(|it| it["event"] == event).map(|it| it["data"].clone()).collect()
    };
    let started = of("node_started");
    let fields = ["is_virtual", "parent_node_id", "extraction_source", "extraction_prompt"];
    for data in &started {
        let given: Vec<Option<&Json>> = fields.iter().map(|field| data.get(*field)).collect();
        if data["node_id"] == "tool1_ext_1" {
            let expected = [json!(true), json!("tool1"), json!("llm1.context"), json!(PROMPT)];
            assert_eq!(given, expected.iter().map(Some).collect::<Vec<_>>());
        } else {
            assert_eq!(given, [None; 4], "{data}");
        }
    }
    let ids: Vec<&str> = started.iter().filter_map(|data| data["node_id"].as_str()).collect();
    assert_eq!(ids, ["start", "llm1", "tool1_ext_1", "tool1", "end"]);
    assert!(of("text_chunk").iter().all(|data| data["from_variable_selector"][0] == "tool1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a03_the_model_of_an_agent_is_inherited_with_its_parameters() {
    let echo = json!([{"match": {"equals": PROMPT}, "echo": "params"}]);
    let fleet = Fleet::start(echo).await;
    let model = json!({"provider": "openai", "model": "gpt-4-agent", "mode": "chat", "completion_params": {"temperature": 0.4}});
    let agent = json!({
        "type": "agent", "title": "Agent", "agent_strategy_name": "function_calling",
        "agent_strategy_provider_name": "langgenius/agent/agent", "agent_strategy_label": "F",
        "agent_parameters": {
            "model": {"type": "constant", "value": model},
            "query": {"type": "constant", "value": "{{#start.q#}}"},
            "instruction": {"type": "constant", "value": "Be brief."},
        },
    });
    let parameters = json!({"query": extraction(json!({}))});
    let (run, told) = fleet.run(&Setup { llm: agent, parameters, ..Setup::default() }).await;
    assert_eq!(run["status"], "succeeded", "{run:#}");
    let params: Json =
        serde_json::from_str(run["outputs"]["keywords"].as_str().unwrap_or("")).unwrap_or_default();
    assert_eq!(params["temperature"], 0.4, "{run:#}");
    assert_eq!(fleet.asked().pop().map(|asked| asked["model"].clone()), Some(json!("gpt-4-agent")));
    let started = |node: &str| {
        told.of_kind("node_run_started").find(|it| it.node() == Some(node)).expect("it began").data.clone()
    };
    let (agent, tool) = (started("llm1"), started("tool1"));
    assert_eq!(agent["agent_strategy"], json!({"name": "function_calling", "icon": null}));
    assert_eq!((&tool["provider_type"], &tool["provider_id"]), (&json!("builtin"), &json!("acme")));
    assert_eq!(
        (&agent["predecessor_node_id"], &tool["predecessor_node_id"]),
        (&json!("start"), &json!("llm1"))
    );
    assert!(started("end").get("provider_type").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a07_the_number_of_calls_is_that_of_the_tries_and_each_is_told() {
    // A provider would repeat such failures itself.
    let down = json!([{"match": {"equals": PROMPT}, "status": 500, "error": "down"}]);
    let fleet = Fleet::start(down).await;
    let retry = json!({"retry_config": {"max_retries": 2, "retry_interval": 10, "retry_enabled": true}});
    let (run, told) = fleet.run(&Setup { more: retry, ..Setup::default() }).await;
    assert_eq!(run["status"], "failed", "{run:#}");
    assert_eq!(fleet.asked().len(), 3);
    let indexes: Vec<&Json> = told.of_kind("node_run_retry").map(|it| &it.data["retry_index"]).collect();
    assert_eq!(indexes, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ve_a30_rows_of_nodes_have_values_when_they_are_asked_for() {
    let fleet = Fleet::start(keywords()).await;
    let (run, _) = fleet.run(&Setup::default()).await;
    let id = run["id"].as_str().expect("a run has an id");
    let row = |run: &Json, node: &str| {
        run["nodes"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|it| it["id"] == node)
            .cloned()
            .expect("it is a node")
    };
    assert!(row(&run, "tool1_ext_1").get("inputs").is_none());
    let with = fleet.system.client.get(&format!("/api/v1/runs/{id}?values=true")).await.body;
    assert_eq!(with["values_complete"], true, "{with:#}");
    let child = row(&with, "tool1_ext_1");
    assert_eq!(child["inputs"], json!({"context_source": "llm1.context", "extraction_prompt": PROMPT}));
    assert_eq!(child["outputs"], json!({"text": "Raft, consensus"}));
    assert_eq!(row(&with, "end")["outputs"]["keywords"], "Raft, consensus");
    let wrong = fleet.system.client.get(&format!("/api/v1/runs/{id}?values=maybe")).await;
    assert_eq!(wrong.status, 400, "{}", wrong.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn se_37_built_in_calls_describe_themselves_and_workers_check_registered_ones() {
    let fleet = Fleet::start(json!([])).await;
    let client = &fleet.system.client;
    let shown = client.get("/api/v1/calls/llm").await;
    assert_eq!(shown.status, 200, "{}", shown.text);
    assert_eq!((&shown.body["id"], &shown.body["built_in"]), (&json!("LLM"), &json!(true)));
    assert_eq!(shown.body["info"]["zh"]["name"], "大模型");
    assert_eq!(shown.body["input_schema"]["properties"]["user_prompt"]["type"], "string");
    assert_eq!(shown.body["output_schema"]["required"], json!(["text"]));
    assert_eq!(client.get("/api/v1/calls/none").await.status, 404);

    let manifest = |transport: Json| {
        json!({"info": {"en": {"name": "G", "description": "Greets"}}, "operations": ["init", "exec"], "streaming": true,
            "transport": transport})
    };
    let url = format!("{}/greet", fleet.outside.base_url);
    for (id, transport, usable, reason) in [
        ("far", json!({"type": "http", "url": url}), true, ""),
        ("closed", json!({"type": "http", "url": "http://127.0.0.1:9/greet"}), false, "does not answer"),
        ("program", json!({"type": "process", "command": ["/bin/cat"]}), false, "calls.programs"),
    ] {
        let request = client.request(Method::PUT, &format!("/api/v1/calls/{id}"));
        let request =
            request.header("content-type", "application/json").body(manifest(transport).to_string());
        let stored = client.send(request).await;
        assert_eq!(stored.status, 201, "{}", stored.text);
        // Workers look at the catalog every ten seconds.
        let check = until("the worker has checked it", Duration::from_secs(60), async || {
            let call = client.get(&format!("/api/v1/calls/{id}")).await.body;
            let check = call["workers"][0].clone();
            if check["usable"].is_boolean() { Ok(check) } else { Err(call.to_string()) }
        })
        .await;
        assert_eq!(check["usable"], usable, "{check}");
        let said = check["reason"].as_str().unwrap_or_default();
        assert!(said.contains(reason) && said.is_empty() == usable, "{said}");
    }
    assert!(fleet.outside.take().iter().all(|call| call.body.is_empty()), "nothing of a Call is run");
}
