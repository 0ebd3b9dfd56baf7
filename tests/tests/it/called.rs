//! Workflows as tools: apps that run as sub-workflow runs, on real processes.

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::system;

/// A workflow file with these nodes between start and end, and with these outputs.
pub(super) fn file(
    name: &str,
    inputs: &[&str],
    nodes: &[(&str, Json)],
    outputs: &[(&str, [&str; 2])],
) -> String {
    let input =
        |name: &&str| json!({"variable": name, "label": name, "type": "text-input", "required": false});
    let variables: Vec<Json> = inputs.iter().map(input).collect();
    let outputs: Vec<Json> =
        outputs.iter().map(|(name, from)| json!({"variable": name, "value_selector": from})).collect();
    let mut all =
        vec![json!({"id": "start", "data": {"type": "start", "title": "S", "variables": variables}})];
    all.extend(nodes.iter().map(|(id, data)| json!({"id": id, "data": data})));
    all.push(json!({"id": "end", "data": {"type": "end", "title": "E", "outputs": outputs}}));
    let ids: Vec<String> =
        all.iter().map(|node| node["id"].as_str().expect("nodes have ids").to_string()).collect();
    let edges: Vec<Json> = ids.windows(2).map(|two| json!({"source": two[0], "target": two[1]})).collect();
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": name},
        "workflow": {"graph": {"nodes": all, "edges": edges}},
    })
    .to_string()
}

/// A tool node that calls an app with a text as its input.
pub(super) fn tool(app: &str, input: &str, text: &str) -> Json {
    let mut parameters = json!({});
    parameters[input] = json!({"type": "mixed", "value": text});
    json!({
        "type": "tool", "title": "T", "provider_id": app, "provider_name": "the tool", "provider_type": "workflow",
        "tool_name": "t", "tool_label": "T", "tool_configurations": {}, "tool_parameters": parameters,
    })
}

fn template(text: &str) -> Json {
    json!({"type": "template-transform", "title": "G", "template": text,
        "variables": [{"variable": "name", "value_selector": ["start", "name"]}]})
}

async fn register(client: &Client, text: &str) -> String {
    let answer = client.post("/api/v1/apps", &json!({"workflow": text})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.body["id"].as_str().expect("an app has an id").to_string()
}

async fn submit(client: &Client, text: &str) -> String {
    client.submit(&json!({"workflow": text, "inputs": {"name": "Ada"}, "user": "tester"})).await
}

fn caller(app: &str) -> String {
    let node = tool(app, "name", "dear {{#start.name#}}");
    let outputs =
        [("text", ["t", "text"]), ("json", ["t", "json"]), ("hi", ["t", "hi"]), ("files", ["t", "files"])];
    file("Caller", &["name"], &[("t", node)], &outputs)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_answers_as_a_tool_and_both_runs_name_each_other() {
    let system = system(&[], &llm::rules(json!([{"match": {}, "reply": "x"}])).await).await;
    let client = &system.client;
    let greeter = file("Greeter", &["name"], &[("g", template("Hi {{ name }}"))], &[("hi", ["g", "output"])]);
    let app = register(client, &greeter).await;
    for named in [app.as_str(), "Greeter"] {
        let run = submit(client, &caller(named)).await;
        let ended = client.ended(&run).await;
        assert_eq!(ended["status"], "succeeded", "{ended:#}");
        let said = r#"{"hi": "Hi dear Ada"}"#;
        let expected =
            json!({"text": said, "json": [{"hi": "Hi dear Ada"}], "hi": "Hi dear Ada", "files": []});
        assert_eq!(ended["outputs"], expected, "{ended:#}");
        let calls = ended["calls"].as_array().unwrap();
        assert_eq!((calls.len(), &ended["calls_count"], &calls[0]["node"]), (1, &json!(1), &json!("t")));
        let called = client.run(calls[0]["run"].as_str().unwrap()).await;
        assert_eq!(
            (&called["status"], &called["app"], &called["user"]),
            (&json!("succeeded"), &json!(app), &json!("tester"))
        );
        assert_eq!(called["caller"], json!({"run": run, "node": "t", "frame": ""}), "{called:#}");
        assert_eq!(called["shard"], ended["shard"]);
        let told = client.follow(&run, None).await.to_the_end().await;
        let order: Vec<_> = told.of_kind("workflow_called").collect();
        assert_eq!(order.len(), 1);
        assert_eq!(order[0].data["called_run_id"], calls[0]["run"], "{:?}", order[0].data);
        let began = client.follow(calls[0]["run"].as_str().unwrap(), None).await.to_the_end().await;
        assert_eq!(began.of_kind("graph_run_started").next().unwrap().data["caller_run_id"], json!(run));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_a_called_app_is_the_error_of_the_tool() {
    let system =
        system(&[("run.call_depth_max", "2")], &llm::rules(json!([{"match": {}, "reply": "x"}])).await).await;
    let client = &system.client;
    let form = json!({"type": "human-input", "title": "F", "required_variables": ["conversation.x"], "pause_reason": "x"});
    register(client, &file("Waits", &["name"], &[("w", form)], &[])).await;
    let broken = json!({"type": "code", "title": "C", "code_language": "python3", "code": "def main():\n  return 1/0",
        "variables": [], "outputs": {"x": {"type": "string", "children": null}}});
    register(client, &file("Breaks", &["name"], &[("c", broken)], &[])).await;
    register(client, &file("Deeper", &["name"], &[("t", tool("Deeper", "name", "x"))], &[])).await;
    for (app, class, message) in [
        ("nobody", "ToolRuntimeInvocationError", "app not found"),
        ("Waits", "ToolRuntimeInvocationError", "Failed to invoke tool the tool: node w waits for an answer"),
        ("Breaks", "ToolRuntimeInvocationError", "Failed to invoke tool the tool: "),
        (
            "Deeper",
            "ToolRuntimeInvocationError",
            "Failed to invoke tool the tool: Failed to invoke tool the tool: Max workflow call depth 2 reached.",
        ),
    ] {
        let mut node = tool(app, "name", "x");
        node["error_strategy"] = "fail-branch".into();
        let outputs = [("error", ["t", "error_message"]), ("class", ["t", "error_type"])];
        let mut text: Json =
            serde_json::from_str(&file("Caller", &["name"], &[("t", node)], &outputs)).unwrap();
        text["workflow"]["graph"]["edges"][1]["sourceHandle"] = "fail-branch".into();
        let ended = client.ended(&submit(client, &text.to_string()).await).await;
        assert_eq!(ended["outputs"]["class"], class, "{app}: {ended:#}");
        let error = ended["outputs"]["error"].as_str().unwrap();
        assert!(error.starts_with(message), "{app}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cost_of_a_called_app_counts_for_its_caller_and_a_stop_reaches_it() {
    let model = llm::slow(&["one ", "two"], 1_500).await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let ask = json!({"type": "llm", "title": "L", "model": {"provider": "openai", "name": "m", "mode": "chat", "completion_params": {}},
        "prompt_template": [{"role": "user", "text": "{{#start.name#}}"}], "context": {"enabled": false}});
    register(client, &file("Asks", &["name"], &[("l", ask)], &[("hi", ["l", "text"])])).await;
    let [first, second] = [submit(client, &caller("Asks")).await, submit(client, &caller("Asks")).await];
    let called = until("the second call to be running", LONG, async || {
        let shown = client.run(&second).await;
        let run = shown["calls"][0]["run"].as_str().map(str::to_string);
        let status = match &run {
            Some(run) => client.get(&format!("/api/v1/runs/{run}")).await.body["status"].clone(),
            None => Json::Null,
        };
        if status == "running" { Ok(run.unwrap()) } else { Err(shown.to_string()) }
    })
    .await;
    let waits = client.run(&second).await;
    let node = waits["nodes"].as_array().unwrap().iter().find(|node| node["id"] == "t").unwrap().clone();
    assert_eq!(node["parked"], format!("run {called} of Asks"), "{node:#}");
    let stop = json!({"command": "stop"});
    assert_eq!(client.post(&format!("/api/v1/runs/{second}/commands"), &stop).await.status, 202);
    for (run, error) in
        [(&second, "Aborted: User requested abort"), (&called, "Aborted: the node that called it")]
    {
        let ended = client.ended(run).await;
        assert_eq!(ended["status"], "stopped", "{ended:#}");
        assert!(ended["error"].as_str().unwrap().starts_with(error), "{ended:#}");
    }
    let ended = client.ended(&first).await;
    let inner = client.run(ended["calls"][0]["run"].as_str().unwrap()).await;
    assert!(inner["total_tokens"].as_u64().unwrap() > 0, "{inner:#}");
    assert_eq!(
        (&ended["outputs"]["hi"], &ended["total_tokens"]),
        (&json!("one two"), &inner["total_tokens"])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_retried_calls_the_app_again() {
    let model = llm::rules(json!([
        {"match": {}, "reply": "well", "status": 400, "fail_times": 1},
    ]))
    .await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let ask = json!({"type": "llm", "title": "L", "model": {"provider": "openai", "name": "m", "mode": "chat", "completion_params": {}},
        "prompt_template": [{"role": "user", "text": "hi"}], "context": {"enabled": false}});
    register(client, &file("Fails once", &["name"], &[("l", ask)], &[("hi", ["l", "text"])])).await;
    let mut text: Json = serde_json::from_str(&caller("Fails once")).unwrap();
    text["workflow"]["graph"]["nodes"][1]["data"]["retry_config"] =
        json!({"retry_enabled": true, "max_retries": 2, "retry_interval": 100});
    let ended = client.ended(&submit(client, &text.to_string()).await).await;
    assert_eq!((&ended["outputs"]["hi"], &ended["calls_count"]), (&json!("well"), &json!(2)), "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_argument_and_a_large_output_are_passed_between_the_runs() {
    let system = system(&[], &llm::rules(json!([{"match": {}, "reply": "x"}])).await).await;
    let client = &system.client;
    let echo = file("Echo", &["name"], &[("g", template("{{ name }}"))], &[("hi", ["g", "output"])]);
    let echo: Json = {
        let mut echo: Json = serde_json::from_str(&echo).unwrap();
        echo["workflow"]["graph"]["nodes"][0]["data"]["variables"][0]["type"] = "paragraph".into();
        echo
    };
    register(client, &echo.to_string()).await;
    let mut text: Json = serde_json::from_str(&caller("Echo")).unwrap();
    text["workflow"]["graph"]["nodes"][0]["data"]["variables"][0]["type"] = "paragraph".into();
    let long = "ä".repeat(60_000);
    let run =
        client.submit(&json!({"workflow": text.to_string(), "inputs": {"name": long}, "user": "u"})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{}", ended["error"]);
    assert_eq!(ended["outputs"]["hi"], format!("dear {long}"));
}

/// An app as a tool of an agent.
fn workflow_tool(app: &str, name: &str) -> Json {
    json!({
        "enabled": true, "type": "workflow", "provider_name": app, "tool_name": name, "settings": {},
        "parameters": {"name": {"auto": 1, "value": null}}, "extra": {"description": "Greets"},
    })
}

/// An agent node with these tools.
fn agent(tools: &Json) -> Json {
    let constant = |value: Json| json!({"type": "constant", "value": value});
    json!({
        "type": "agent", "title": "Agent", "agent_strategy_name": "function_calling",
        "agent_strategy_provider_name": "langgenius/agent/agent", "agent_strategy_label": "FunctionCalling",
        "agent_parameters": {
            "model": constant(json!({"provider": "openai", "model": "m", "mode": "chat", "completion_params": {}})),
            "tools": constant(tools.clone()), "instruction": constant(json!("Be brief.")),
            "query": constant(json!("greet Ada")), "maximum_iterations": constant(json!(5)),
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_calls_an_app_and_each_event_of_the_call_comes_once() {
    let usage = json!({"prompt_tokens": 8, "completion_tokens": 2});
    let call = json!([{"name": "greet", "arguments": {"name": "Ada"}}]);
    let model = llm::rules(json!([
        {"match": {"messages": 2, "has_tools": true}, "reply": "", "usage": usage, "tool_calls": call},
        {"match": {"messages": 4}, "reply": "Done.", "usage": usage},
        {"match": {}, "reply": "inner", "usage": usage},
    ]))
    .await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let ask = json!({"type": "llm", "title": "L", "model": {"provider": "openai", "name": "m", "mode": "chat", "completion_params": {}},
        "prompt_template": [{"role": "user", "text": "{{#start.name#}}"}], "context": {"enabled": false}});
    register(client, &file("Greeter", &["name"], &[("l", ask)], &[("hi", ["l", "text"])])).await;
    let agent = agent(&json!([workflow_tool("Greeter", "greet")]));
    let text = file("Caller", &["name"], &[("a", agent)], &[("text", ["a", "text"])]);
    let run = submit(client, &text).await;
    let ended = client.ended(&run).await;
    assert_eq!((&ended["status"], &ended["calls_count"]), (&json!("succeeded"), &json!(1)), "{ended:#}");
    assert!(ended["outputs"]["text"].as_str().unwrap().ends_with("Done."), "{ended:#}");
    // Two rounds of the agent, and the call of the model in the sub-workflow run.
    assert_eq!(ended["total_tokens"], 30, "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    for kind in ["tool_call_started", "workflow_called", "tool_call_completed"] {
        assert_eq!(told.count(kind, "a"), 1, "{kind}: {told:#?}");
    }
    let completed = told.of_kind("tool_call_completed").next().unwrap();
    assert!(completed.data.to_string().contains("inner"), "{completed:#?}");
    // The model gets the app's start form as the parameters of the tool.
    let asked = model.requests();
    let tool = asked.iter().find_map(|request| request["tools"].get(0)).expect("a tool is offered");
    let name = json!({"name": {"type": "string", "description": "name"}});
    let parameters = json!({"type": "object", "properties": name, "required": []});
    assert_eq!((&tool["function"]["name"], &tool["function"]["parameters"]), (&json!("greet"), &parameters));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_an_agent_is_unchanged_after_it_waited_for_an_app() {
    let call = |tool: &str| json!([{"name": tool, "arguments": {"name": "Ada"}}]);
    let model = llm::rules(json!([
        {"match": {"messages": 2, "has_tools": true}, "reply": "", "tool_calls": call("missing")},
        {"match": {"messages": 4, "has_tools": true}, "reply": "", "tool_calls": call("greet")},
        {"match": {}, "reply": "Done."},
    ]))
    .await;
    let system = system(&[], &model).await;
    let client = &system.client;
    register(
        client,
        &file("Greeter", &["name"], &[("g", template("Hi {{ name }}"))], &[("hi", ["g", "output"])]),
    )
    .await;
    let tools = json!([workflow_tool("nobody", "missing"), workflow_tool("Greeter", "greet")]);
    let text = file("Caller", &["name"], &[("a", agent(&tools))], &[("log", ["a", "json"])]);
    let run = submit(client, &text).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let warnings = ended["warnings"].as_array().expect("a list");
    let codes: Vec<_> = warnings.iter().map(|one| (&one["code"], &one["app"], &one["node_id"])).collect();
    assert_eq!(codes, [(&json!("tool.app_unknown"), &json!("nobody"), &json!("a"))], "{ended:#}");
    // The first call had failed when the job was parked for the second one.
    let log = ended["outputs"]["log"].as_array().unwrap();
    for (label, status) in [("CALL missing", "error"), ("CALL greet", "success")] {
        let line =
            log.iter().find(|line| line["label"] == label).unwrap_or_else(|| panic!("{label}: {log:#?}"));
        assert_eq!(line["status"], status, "{line:#}");
    }
    let told = client.follow(&run, None).await.to_the_end().await;
    let mut over = std::collections::BTreeMap::new();
    for line in told.of_kind("node_run_agent_log").map(|event| &event.data) {
        let (id, status) = (line["message_id"].as_str().unwrap(), line["status"].as_str().unwrap());
        let before = over.insert(id, status).unwrap_or("start");
        assert!(before == "start" || before == status, "{before} before {line:#}");
    }
    // Three rounds, three thoughts, two calls.
    assert_eq!((over.len(), over.values().filter(|status| **status == "start").count()), (8, 0), "{told:#?}");
}
