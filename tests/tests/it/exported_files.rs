//! Files as Dify's editor exports them, with what an export leaves to its installation: what a model can do, variables
//! under the start node, agents of other plugins, models that are not chosen yet.

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running;
use tidemill_tests::client::Client;
use tidemill_tests::file_server::FileServer;
use tidemill_tests::llm;

use super::called::file;
use super::tool_servers::{SERVERS, serve};
use super::{System, system};

fn model(provider: &str, name: &str) -> Json {
    json!({"provider": provider, "name": name, "mode": "chat", "completion_params": {}})
}

/// The parts of the last message that the model got.
fn last_parts(model: &Running) -> Vec<String> {
    let asked = model.take_requests();
    let messages = asked.last().expect("it was asked")["messages"].as_array().cloned().unwrap_or_default();
    let content = messages.last().map(|last| last["content"].clone()).unwrap_or_default();
    match content {
        Json::Array(parts) => {
            parts.iter().map(|part| part["type"].as_str().unwrap_or_default().to_owned()).collect()
        }
        _ => vec!["text".into()],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_are_sent_unless_the_model_is_known_not_to_see_them() {
    let mock = llm::rules(json!([{"match": {}, "reply": "a mill"}])).await;
    let System { client, .. } = &system(&[("http.allow", "127.0.0.1")], &mock).await;
    let server = FileServer::start().await;
    server.serve("/mill.png", "image/png", None, b"\x89PNG");
    for (provider, name, expected) in [
        ("langgenius/openai/openai", "gpt-4o", &["image_url", "text"][..]),
        // Nothing is known of it: the API refuses if it cannot see pictures.
        ("langgenius/openai_api_compatible/openai_api_compatible", "a-model-of-ours", &["image_url", "text"]),
        ("langgenius/deepseek/deepseek", "deepseek-chat", &["text"]),
    ] {
        let look = json!({
            "type": "llm", "title": "Look", "model": model(provider, name),
            "prompt_template": [{"role": "user", "text": "What is on the picture?"}],
            "context": {"enabled": false, "variable_selector": []},
            "vision": {"enabled": true, "configs": {"detail": "high", "variable_selector": ["start", "pic"]}},
        });
        let mut text: Json =
            serde_json::from_str(&file("Look", &[], &[("look", look)], &[("said", ["look", "text"])]))
                .expect("JSON");
        text["workflow"]["graph"]["nodes"][0]["data"]["variables"] = json!([{
            "variable": "pic", "label": "Pic", "type": "file", "required": true, "allowed_file_types": ["image"],
            "allowed_file_upload_methods": ["remote_url"],
        }]);
        let picture =
            json!({"type": "image", "transfer_method": "remote_url", "url": server.url("/mill.png")});
        let run = json!({"workflow": text.to_string(), "inputs": {"pic": picture}});
        let ended = client.ended(&client.submit(&run).await).await;
        assert_eq!(
            (&ended["status"], &ended["outputs"]["said"]),
            (&json!("succeeded"), &json!("a mill")),
            "{ended:#}"
        );
        assert_eq!(last_parts(&mock), expected, "{name}");
        let codes: Vec<&Json> =
            ended["warnings"].as_array().into_iter().flatten().map(|one| &one["code"]).collect();
        let left_out = expected.len() == 1;
        assert_eq!(codes, if left_out { vec!["model.files_left_out"] } else { vec![] }, "{ended:#}");
        let hint = ended["warnings"][0]["hint"].as_str().unwrap_or_default();
        assert_eq!(hint.contains("[providers.deepseek.models.\"deepseek-chat\"]"), left_out, "{hint}");
    }
}

/// The editor's default query of 2024 and 2025, and further readers of variables under the start node.
const UNDER_START: &str = r##"
app: {mode: advanced-chat, name: under the start node}
kind: app
version: 0.3.1
workflow:
  environment_variables: [{id: e, name: KEY, value_type: secret, value: hush-hush-hush}]
  graph:
    nodes:
    - {id: '17', data: {type: start, title: Start, variables: []}}
    - id: shout
      data: {type: template-transform, title: Shout, template: "[{{ q }}]", variables: [{variable: q, value_selector: ['17', sys.query]}]}
    - id: pick
      data:
        type: if-else
        title: Pick
        cases: [{case_id: 'true', id: 'true', logical_operator: and, conditions: [
          {id: c, comparison_operator: contains, value: tide, variable_selector: ['17', sys.query]}]}]
    - id: sort
      data:
        type: question-classifier
        title: Sort
        query_variable_selector: ['17', sys.query]
        model: {provider: openai, name: gpt-4o, mode: chat, completion_params: {}}
        classes: [{id: '1', name: mills}, {id: '2', name: other}]
    - id: count
      data: {type: code, title: Count, code_language: python3, code: "def main(q, key):\n    return {'n': len(q), 'k': len(key)}",
        outputs: {n: {type: number}, k: {type: number}}, variables: [{variable: q, value_selector: ['17', sys.query]},
          {variable: key, value_selector: ['17', env.KEY]}]}
    - {id: answer, data: {type: answer, title: Answer, answer: "{{#shout.output#}} {{#sort.class_name#}} {{#count.n#}} {{#count.k#}}"}}
    edges:
    - {source: '17', target: shout}
    - {source: shout, target: pick}
    - {source: pick, sourceHandle: 'true', target: sort}
    - {source: sort, sourceHandle: '1', target: count}
    - {source: count, target: answer}
"##;

#[tokio::test(flavor = "multi_thread")]
async fn variables_under_the_start_node_are_those_of_the_system() {
    let class = json!({"category_id": "1", "category_name": "mills"}).to_string();
    let mock = llm::rules(json!([{"match": {}, "reply": class}])).await;
    let System { client, .. } = &system(&[("scheduler.secret_key", "open sesame, open wide")], &mock).await;
    let app = client.post("/api/v1/apps", &json!({"workflow": UNDER_START})).await;
    assert_eq!(app.status, 201, "{}", app.text);
    let chat = client.with_key(app.body["key"].as_str());
    let body = json!({"query": "a tide mill", "inputs": {}, "user": "u", "response_mode": "blocking"});
    let said = chat.post("/v1/chat-messages", &body).await;
    assert_eq!(said.body["answer"], "[a tide mill] mills 11 14", "{}", said.text);
    let asked = mock.take_requests();
    assert!(asked[0]["messages"].to_string().contains("a tide mill"), "{asked:#?}");
    let run = client.get(&format!("/api/v1/runs/{}", run_of(client).await)).await;
    assert!(!run.text.contains("hush-hush-hush"), "{}", run.text);
}

/// The only run.
async fn run_of(client: &Client) -> String {
    let runs = client.get("/api/v1/runs").await;
    runs.body["data"][0]["id"].as_str().unwrap_or_else(|| panic!("{}", runs.text)).to_owned()
}

fn agent(plugin: &str, strategy: &str, servers: (&str, Json)) -> Json {
    let constant = |value: Json| json!({"type": "constant", "value": value});
    let mut data = json!({
        "type": "agent", "title": "Agent", "agent_strategy_name": strategy, "agent_strategy_provider_name": plugin,
        "agent_strategy_label": "MCP", "output_schema": null,
        "agent_parameters": {
            "model": constant(json!({"provider": "openai", "model": "gpt-4o", "mode": "chat", "completion_params": {}})),
            "tools": constant(json!([])), "instruction": constant(json!("Use the server's tools.")),
            "query": constant(json!("{{#start.question#}}")),
        },
    });
    data["agent_parameters"][servers.0] = constant(servers.1);
    data
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_plugins_with_mcp_servers_call_the_tools_of_these_servers() {
    let mock = llm::rules(json!([
        {"match": {"messages": 2, "has_tools": true}, "reply": "", "tool_calls": [{"name": "add", "arguments": {"a": 20, "b": 3}}]},
        {"match": {}, "reply": "Done."},
    ]))
    .await;
    let System { client, cluster, .. } = &system(&[("http.allow", "127.0.0.1")], &mock).await;
    let program = cluster.logs().join("servers.py");
    std::fs::write(&program, SERVERS).expect("the folder exists");
    let (_server, address) = serve(&program);
    let team = json!({"team": {"transport": "streamable_http", "url": format!("http://{address}/mcp"), "headers": {"X-Team": "search"}}});
    let nested = json!({"mcpServers": team}).to_string();
    for (plugin, strategy, servers) in [
        (
            "hjlarry/agent/mcp_agent",
            "function_calling",
            ("mcp_server", json!(format!("http://{address}/sse"))),
        ),
        // The path does not say that the server has the first version of the transport.
        (
            "hjlarry/agent/mcp_agent",
            "function_calling",
            ("mcp_server", json!(format!("http://{address}/older"))),
        ),
        ("hjlarry/agent/mcp_agent", "function_calling", ("mcp_server", json!(team.to_string()))),
        (
            "junjiem/mcp_see_agent/mcp_see_agent",
            "mcp_sse_function_calling",
            ("mcp_servers_config", json!(nested)),
        ),
    ] {
        let text = file(
            "Agent",
            &["question"],
            &[("a", agent(plugin, strategy, servers.clone()))],
            &[("text", ["a", "text"])],
        );
        let id = client.submit(&json!({"workflow": text, "inputs": {"question": "How much is it?"}})).await;
        let run = client.ended(&id).await;
        assert_eq!(run["status"], "succeeded", "{servers:?}: {run:#}");
        let asked = mock.take_requests();
        let offered: Vec<&Json> =
            asked[0]["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
        assert_eq!(offered, ["add", "draw"], "{asked:#?}");
        let told = asked.last().unwrap()["messages"].as_array().unwrap().last().unwrap().to_string();
        assert!(told.contains("23"), "{told}");
        let node = client.get(&format!("/api/v1/runs/{id}")).await;
        assert!(!node.text.contains("\"X-Team\\\":\\\"search"), "headers are masked: {}", node.text);
    }
    let foreign = agent("someone/agent/agent", "function_calling", ("other", json!(1)));
    let text = file("Foreign", &["question"], &[("a", foreign)], &[("text", ["a", "text"])]);
    let id = client.submit(&json!({"workflow": text, "inputs": {"question": "How much is it?"}})).await;
    let run = client.ended(&id).await;
    let error = run["error"].as_str().unwrap_or_default();
    assert!(
        error.contains("the plugin someone/agent, which is not installed")
            && error.contains("tidemill plugins add"),
        "{run:#}"
    );
}

/// A workflow as an editor of 2024 wrote it: a body without its own start node, an option that is left empty, and nodes
/// of version "2".
const OLD: &str = r##"
kind: app
version: 0.1.2
app: {mode: workflow, name: Old, icon: x, icon_background: "#fff", description: ""}
workflow:
  features: {text_to_speech: {enabled: true}}
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: []}}
    - id: list
      data: {type: code, title: List, code_language: python3, variables: [], outputs: {words: {type: "array[string]", children: null}},
        code: "def main():\n    return {'words': ['ebb', 'flood']}"}
    - {id: each, data: {type: iteration, title: Each, start_node_id: loud, iterator_selector: [list, words],
        output_selector: [loud, output], output_type: "array[string]"}}
    - {id: loud, parentId: each, data: {type: template-transform, title: Loud, isInIteration: true, iteration_id: each,
        isIterationStart: true, template: "{{ w | upper }}?", variables: [{variable: w, value_selector: [each, item]}]}}
    - {id: clock, data: {type: tool, title: Clock, provider_id: time, provider_type: builtin, provider_name: time,
        tool_name: current_time, tool_label: Now, tool_parameters: {}, tool_configurations: {format: null, timezone: Asia/Tokyo}}}
    - {id: year, data: {type: tool, title: Year, version: '2', provider_id: time, provider_type: builtin, provider_name: time,
        tool_name: current_time, tool_label: Now, tool_parameters: {},
        tool_configurations: {format: {type: mixed, value: "%Y!"}, timezone: {type: constant, value: Asia/Tokyo}}}}
    - id: agent
      data:
        type: agent
        title: Agent
        version: '2'
        agent_strategy_provider_name: langgenius/agent/agent
        agent_strategy_name: function_calling
        agent_strategy_label: FunctionCalling
        agent_parameters:
          model: {type: constant, value: {provider: openai, model: gpt-4o, mode: chat, completion_params: {}}}
          tools: {type: constant, value: []}
          instruction: {type: constant, value: "Be brief."}
          query: {type: constant, value: "When is high water?"}
    - {id: end, data: {type: end, title: End, outputs: [{variable: out, value_selector: [each, output]},
        {variable: now, value_selector: [clock, text]}, {variable: year, value_selector: [year, text]},
        {variable: said, value_selector: [agent, text]}]}}
    edges:
    - {source: start, target: list}
    - {source: list, target: each}
    - {source: each, target: clock}
    - {source: clock, target: year}
    - {source: year, target: agent}
    - {source: agent, target: end}
"##;

#[tokio::test(flavor = "multi_thread")]
async fn files_of_old_editors_run_to_their_values_and_say_which_feature_is_not_served() {
    let mock = llm::rules(json!([{"match": {}, "reply": "at noon"}])).await;
    let System { client, .. } = &system(&[], &mock).await;
    let run = client.submit(&json!({"workflow": OLD, "inputs": {}, "user": "u"})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let outputs = &ended["outputs"];
    assert_eq!(
        (&outputs["out"], &outputs["said"]),
        (&json!(["EBB?", "FLOOD?"]), &json!("at noon")),
        "{ended:#}"
    );
    // The format that a time has without an option, and a year.
    let text = |name: &str| outputs[name].as_str().unwrap_or_default().to_owned();
    assert!(
        text("now").len() == "2026-01-31 08:00:00 JST".len() && text("now").ends_with(" JST"),
        "{ended:#}"
    );
    assert!(text("year").len() == 5 && text("year").ends_with('!'), "{ended:#}");
    let warned: Vec<_> = ended["warnings"].as_array().into_iter().flatten().collect();
    assert_eq!(warned.len(), 1, "{ended:#}");
    assert_eq!(
        (&warned[0]["code"], &warned[0]["feature"]),
        (&json!("features.not_served"), &json!("text_to_speech"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_not_chosen_fails_its_node_only_when_it_is_reached() {
    let mock = llm::rules(json!([{"match": {}, "reply": "x"}])).await;
    let System { client, .. } = &system(&[], &mock).await;
    let say = json!({
        "type": "llm", "title": "Say", "model": model("", ""), "prompt_template": [{"role": "user", "text": "hi"}],
        "context": {"enabled": false, "variable_selector": []}, "vision": {"enabled": false},
    });
    let pick = json!({"type": "if-else", "title": "Pick", "cases": [{"case_id": "true", "id": "true", "logical_operator": "and",
        "conditions": [{"id": "c", "comparison_operator": "is", "value": "yes", "variable_selector": ["start", "ask"]}]}]});
    let mut text: Json =
        serde_json::from_str(&file("Not chosen", &["ask"], &[("pick", pick), ("say", say)], &[]))
            .expect("JSON");
    let graph = &mut text["workflow"]["graph"];
    graph["edges"][1]["sourceHandle"] = json!("true");
    graph["nodes"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": "other", "data": {"type": "end", "title": "O", "outputs": []}}));
    graph["edges"]
        .as_array_mut()
        .unwrap()
        .push(json!({"source": "pick", "sourceHandle": "false", "target": "other"}));
    for (asked, status) in [("no", "succeeded"), ("yes", "failed")] {
        let run = json!({"workflow": text.to_string(), "inputs": {"ask": asked}});
        let ended = client.ended(&client.submit(&run).await).await;
        assert_eq!(ended["status"], status, "{ended:#}");
        assert_eq!(
            ended["error"].to_string().contains("no model is chosen"),
            status == "failed",
            "{ended:#}"
        );
    }
    assert!(mock.take_requests().is_empty(), "no model was called");
}
