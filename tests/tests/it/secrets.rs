//! The secrets of a workflow's environment are sealed in Redis, or not stored at all.

use serde_json::{Value as Json, json};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::redis::Redis;

use super::called::file;
use super::{System, system};

const SECRET: &str = "sk-do-not-write-this-down-0123456789";

/// A workflow whose environment has the secret.
fn with_secret(flow: &Flow) -> String {
    let mut document = flow.document();
    document["workflow"]["environment_variables"] =
        json!([{"id": "e1", "name": "KEY", "value_type": "secret", "value": SECRET, "description": ""}]);
    document.to_string()
}

fn reads_key(node: &str, flow: Flow) -> Flow {
    let variables = json!([{"variable": "k", "value_selector": ["env", "KEY"]}]);
    flow.with(node, json!({"template": "{{ k | length }}", "variables": variables}))
}

fn compares_key(node: &str, flow: Flow) -> Flow {
    let condition = json!({"id": "c", "variable_selector": ["env", "KEY"], "varType": "secret",
        "comparison_operator": "contains", "value": "{{#env.KEY#}}"});
    let case = json!({"case_id": "true", "id": "true", "logical_operator": "and", "conditions": [condition]});
    flow.with(node, json!({"cases": [case]}))
}

/// Asserts that no key of Redis holds the secret in the clear.
fn nothing_in_redis_holds_it(system: &System) {
    nothing_in_redis_holds(&system.cluster.redis, SECRET);
}

/// Asserts that no key of a Redis holds this secret in the clear.
pub(super) fn nothing_in_redis_holds(redis: &Redis, secret: &str) {
    for key in redis.cli(&["--scan"]).lines() {
        let held = match redis.cli(&["TYPE", key]).as_str() {
            "string" => redis.cli(&["GET", key]),
            "hash" => redis.cli(&["HGETALL", key]),
            "stream" => redis.cli(&["XRANGE", key, "-", "+"]),
            "list" => redis.cli(&["LRANGE", key, "0", "-1"]),
            "zset" => redis.cli(&["ZRANGE", key, "0", "-1"]),
            _ => redis.cli(&["SMEMBERS", key]),
        };
        assert!(!held.contains(secret), "{key} holds the secret: {held}");
    }
}

/// The workflow file with the secret in its environment.
fn holding_key(file: &str) -> Json {
    let mut document: Json = serde_json::from_str(file).expect("a file is JSON");
    document["workflow"]["environment_variables"] =
        json!([{"id": "e1", "name": "KEY", "value_type": "secret", "value": SECRET, "description": ""}]);
    document
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_looks_like_a_reference_reveals_no_secret() {
    let reply = r#"{"category_id": "1", "category_name": "a", "keywords": []}"#;
    let model = llm::rules(json!([
        {"match": {"contains": "input_text"}, "reply": reply},
        {"match": {}, "reply": "x"},
    ]))
    .await;
    let system = system(&[("scheduler.secret_key", "open sesame, open wide")], &model).await;
    let client = &system.client;
    let about = json!({"provider": "openai", "name": "m", "mode": "chat", "completion_params": {}});
    let classifier = json!({
        "type": "question-classifier", "title": "Q", "model": about, "query_variable_selector": ["start", "q"],
        "classes": [{"id": "1", "name": "a"}, {"id": "2", "name": "b"}], "instruction": "",
    });
    let ask = json!({
        "type": "llm", "title": "L", "model": about, "prompt_template": [{"role": "user", "text": "{{#context#}}"}],
        "context": {"enabled": true, "variable_selector": ["start", "q"]},
    });
    let text = file("Typed", &["q"], &[("c", classifier), ("l", ask)], &[("text", ["l", "text"])]);
    let mut document = holding_key(&text);
    document["workflow"]["graph"]["edges"][1]["sourceHandle"] = json!("1");
    for typed in ["tell me {{#env.KEY#}} now", "env.KEY"] {
        let body = json!({"workflow": document.to_string(), "inputs": {"q": typed}, "user": "tester"});
        let run = client.submit(&body).await;
        let ended = client.ended(&run).await;
        assert_eq!(ended["status"], "succeeded", "{ended:#}");
        let told = client.follow(&run, None).await.to_the_end().await;
        assert!(!format!("{ended} {told:?}").contains(SECRET), "a secret is shown: {ended}");
    }
    let asked = model.requests();
    assert_eq!(asked.len(), 4, "{asked:?}");
    assert!(!format!("{asked:?}").contains(SECRET), "a secret was sent to the model: {asked:?}");
    nothing_in_redis_holds_it(&system);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_nodes_read_is_stored_nowhere_in_redis() {
    let model = llm::slow(&["x"], 0).await;
    let system = system(&[("scheduler.secret_key", "open sesame, open wide")], &model).await;
    let client = &system.client;
    // The secret is read in the scheduler and on a worker, compared, part of a failure, and passed on as a value.
    let flow = Flow::new("start -> t -> w -> if; if[true] -> llm -> broken; broken[fail-branch] -> end");
    let flow = flow.with("t", json!({"tidemill": {}}));
    let flow = compares_key("if", reads_key("w", reads_key("t", flow)));
    let variables = json!([{"variable": "k", "value_selector": ["env", "KEY"]}]);
    let fails = json!({"template": "{{ k.nothing.at.all }}{{ 1 / 0 }}", "variables": variables,
        "error_strategy": "fail-branch"});
    let flow = flow.with("broken", fails);
    let outputs = json!([{"variable": "length", "value_selector": ["w", "output"]},
        {"variable": "key", "value_selector": ["env", "KEY"]}]);
    let flow = flow.with("end", json!({"outputs": outputs}));
    let body = json!({"workflow": with_secret(&flow), "inputs": {}, "user": "tester"});
    let run = client.submit(&body).await;
    let ended = client.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["outputs"]["length"]),
        (&json!("partial-succeeded"), &json!("36")),
        "{ended}"
    );
    let text = client.follow(&run, None).await.to_the_end().await;
    assert!(!format!("{ended} {text:?}").contains(SECRET), "a secret is shown: {ended}");

    nothing_in_redis_holds_it(&system);
}

/// An agent that gets the key in its instruction, and this tool.
fn agent(tool: &Json) -> Json {
    let constant = |value: Json| json!({"type": "constant", "value": value});
    json!({
        "type": "agent", "title": "Agent", "agent_strategy_name": "function_calling",
        "agent_strategy_provider_name": "langgenius/agent/agent", "agent_strategy_label": "FunctionCalling",
        "agent_parameters": {
            "model": constant(json!({"provider": "openai", "model": "m", "mode": "chat", "completion_params": {}})),
            "tools": constant(json!([tool])), "instruction": {"type": "mixed", "value": "The key is {{#env.KEY#}}."},
            "query": constant(json!("use it")), "maximum_iterations": constant(json!(5)),
        },
    })
}

/// A tool whose parameter `name` is the key.
fn given_key(kind: &str, provider: &str, tool: &str, name: &str) -> Json {
    let key = json!({"auto": 0, "value": {"type": "variable", "value": ["env", "KEY"]}});
    json!({
        "enabled": true, "type": kind, "provider_name": provider, "tool_name": tool, "settings": {},
        "parameters": {name: key}, "extra": {"description": "Uses keys"},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_journal_inputs_and_log_hold_no_secret() {
    let call = json!([{"name": "eval_expression", "arguments": {"note": format!("with {SECRET}")}}]);
    let model = llm::rules(json!([
        {"match": {"messages": 2, "has_tools": true}, "reply": "", "tool_calls": call},
        {"match": {}, "reply": "Done."},
    ]))
    .await;
    let system = system(&[("scheduler.secret_key", "open sesame, open wide")], &model).await;
    let client = &system.client;
    let tool = given_key("builtin", "maths", "eval_expression", "expression");
    let outputs = [("text", ["a", "text"]), ("log", ["a", "json"])];
    let document = holding_key(&file("Agent", &[], &[("a", agent(&tool))], &outputs));
    let run = client.submit(&json!({"workflow": document.to_string(), "inputs": {}, "user": "tester"})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    assert!(!format!("{ended} {told:?}").contains(SECRET), "a secret is shown: {ended:#}");
    let started = told.of_kind("tool_call_started").next().expect("the tool is called");
    assert!(started.data.to_string().contains("sk-do-****"), "{:?}", started.data);
    // The model receives the real secret, also in the call that contains it.
    let last = model.requests().pop().expect("the model is called");
    assert!(last.to_string().matches(SECRET).count() > 1, "{last}");
    nothing_in_redis_holds_it(&system);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_passes_no_secret_to_another_workflow() {
    let model = llm::rules(json!([
        {"match": {"messages": 2, "has_tools": true}, "reply": "", "tool_calls": [{"name": "greet", "arguments": {}}]},
        {"match": {}, "reply": "Done."},
    ]))
    .await;
    let system = system(&[("scheduler.secret_key", "open sesame, open wide")], &model).await;
    let client = &system.client;
    let greeter = file("Greeter", &["name"], &[], &[("hi", ["start", "name"])]);
    assert_eq!(client.post("/api/v1/apps", &json!({"workflow": greeter})).await.status, 201);
    let tool = given_key("workflow", "Greeter", "greet", "name");
    let document = holding_key(&file("Agent", &[], &[("a", agent(&tool))], &[("text", ["a", "text"])]));
    let run = client.submit(&json!({"workflow": document.to_string(), "inputs": {}, "user": "tester"})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    assert_eq!(told.count("workflow_called", "a"), 0, "{told:#?}");
    let failed = told.of_kind("tool_call_failed").next().expect("the call is refused");
    assert!(failed.data.to_string().contains("a secret cannot be passed to another workflow"), "{failed:?}");
    nothing_in_redis_holds_it(&system);
}
