//! Datasources in workflows, and options of parameters, on a fleet.

use serde_json::{Value as Json, json};
use tidemill_tests::llm;

use crate::lab::Lab;

const SOURCE: &str = "tidemill/source:0.1.0";
const PICK: &str = "tidemill/pick:0.1.0";

#[tokio::test(flavor = "multi_thread")]
async fn a_datasource_node_reads_pages_and_files_through_its_plugin() {
    let Some(lab) = Lab::start(&[("files.url", "place"), ("worker.providers_refresh_ms", "0")]).await else {
        return;
    };
    let page = json!({"workspace_id": "w", "page": {"page_id": "p", "type": "page"}});
    let without = run(&lab, "pages", "online_document", &page).await;
    assert!(without["error"].as_str().unwrap().contains("tidemill plugins add"), "{without}");
    let folder = tidemill_tests::workspace().join("plugins/tests/plugins/source");
    lab.well(&["plugins", "add", &folder.display().to_string(), "--yes"], "").await;
    lab.ready(SOURCE, lab.workers.len()).await;
    let without = run(&lab, "pages", "online_document", &page).await;
    assert!(without["error"].as_str().unwrap().contains("tidemill plugins config"), "{without}");
    for (provider, token) in [("pages", "the-right-token"), ("drive", "the-right-token")] {
        let id = format!("tidemill/source/{provider}");
        let said = lab.well(&["plugins", "config", &id, "--secret-stdin", "token"], token).await;
        assert!(said.contains("the plugin accepts the credentials"), "{said}");
    }
    let refused = lab
        .tidemill(
            &["plugins", "config", "tidemill/source/pages", "--secret-stdin", "token", "--app", "x"],
            "wrong",
        )
        .await;
    assert!(!refused.status.success(), "{refused:?}");

    let read = run(&lab, "pages", "online_document", &page).await;
    assert_eq!(
        (&read["status"], &read["outputs"]["content"]),
        (&json!("succeeded"), &json!("page p of w")),
        "{read}"
    );
    let gone = json!({"workspace_id": "w", "page": {"page_id": "gone", "type": "page"}});
    let failed = run(&lab, "pages", "online_document", &gone).await;
    assert!(failed["error"].as_str().unwrap().contains("there is no such page"), "{failed}");
    let loaded = run(&lab, "drive", "online_drive", &json!({"id": "f", "bucket": "b"})).await;
    let file = &loaded["outputs"]["file"];
    assert_eq!((&file["filename"], &file["size"]), (&json!("a.txt"), &json!(7)), "{loaded}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_options_of_a_parameter_come_from_the_plugin_on_a_worker() {
    let Some(lab) = Lab::start(&[]).await else { return };
    let folder = tidemill_tests::workspace().join("plugins/tests/plugins/pick");
    lab.well(&["plugins", "add", &folder.display().to_string(), "--yes"], "").await;
    lab.ready(PICK, lab.workers.len()).await;
    let said = lab.well(&["plugins", "options", "tidemill/pick/pick", "pick", "room"], "").await;
    assert!(said.contains("room-blue  Blue") && said.contains("room-green  Green"), "{said}");
    let path = format!("/api/v1/plugins/{}/options", PICK.replace('/', "%2F"));
    let body = json!({"provider": "pick", "tool": "pick", "parameter": "room"});
    let answer = lab.client.post(&path, &body).await;
    assert_eq!(
        (answer.status, &answer.body["options"][0]["value"]),
        (200, &json!("room-blue")),
        "{}",
        answer.text
    );
    let body = json!({"provider": "pick", "tool": "none", "parameter": "room"});
    let answer = lab.client.post(&path, &body).await;
    assert_eq!((answer.status, &answer.body["code"]), (422, &json!("no_options")), "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_tells_the_model_the_parameters_at_run_time_and_runs_the_version_that_its_tool_names() {
    let Some(lab) = Lab::start(&[]).await else { return };
    let call = json!([{"name": "pick", "arguments": {"persons": 3}}]);
    let model = llm::rules(json!([
        {"match": {"messages": 2, "has_tools": true}, "reply": "", "tool_calls": call},
        {"match": {}, "reply": "Done."},
    ]))
    .await;
    let url = model.base_url();
    lab.well(&["providers", "add", "acme", "--base-url", &url, "--api-key-stdin"], "none").await;
    let folder = tidemill_tests::workspace().join("plugins/tests/plugins/pick");
    lab.well(&["plugins", "add", &folder.display().to_string(), "--yes"], "").await;
    lab.ready(PICK, lab.workers.len()).await;
    let constant = |value: Json| json!({"type": "constant", "value": value});
    let tool = json!({
        "enabled": true, "type": "builtin", "provider_name": "tidemill/pick/pick", "tool_name": "pick", "settings": {},
        "plugin_unique_identifier": "tidemill/pick:0.1.0@ab",
        "parameters": {"persons": {"auto": 1, "value": null}}, "extra": {"description": "Picks a room"},
    });
    let sulky = json!({
        "enabled": true, "type": "builtin", "provider_name": "tidemill/pick/pick", "tool_name": "sulky", "settings": {},
        "parameters": {"color": {"auto": 1, "value": null}}, "extra": {"description": "Sulks"},
    });
    let agent = json!({
        "type": "agent", "title": "Agent", "agent_strategy_name": "function_calling",
        "agent_strategy_provider_name": "langgenius/agent/agent", "agent_strategy_label": "FunctionCalling",
        "agent_parameters": {
            "model": constant(json!({"provider": "langgenius/acme/acme", "model": "m", "mode": "chat", "completion_params": {}})),
            "tools": constant(json!([tool, sulky])), "instruction": constant(json!("Be brief.")),
            "query": constant(json!("a room for three")), "maximum_iterations": constant(json!(3)),
        },
    });
    let start = json!({"id": "start", "data": {"type": "start", "title": "Start", "variables": []}});
    let edge = |from: &str, to: &str| json!({"id": from, "source": from, "target": to, "sourceHandle": "source", "targetHandle": "target"});
    let workflow = json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "Agent"},
        "workflow": {"graph": {
            "nodes": [start, {"id": "agent", "data": agent}, {"id": "end", "data": {"type": "end", "title": "End", "outputs": [
                {"variable": "text", "value_selector": ["agent", "text"]},
            ]}}],
            "edges": [edge("start", "agent"), edge("agent", "end")],
        }},
    });
    let body = json!({"workflow": workflow.to_string(), "inputs": {}, "user": "tester"});
    let run = lab.client.submit(&body).await;
    let ended = lab.client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let asked = model.take_requests();
    let offered = &asked[0]["tools"][0]["function"]["parameters"];
    assert_eq!(offered["properties"]["persons"]["type"], "number", "{offered}");
    assert_eq!(offered["required"], json!(["persons"]), "{offered}");
    let offered = &asked[0]["tools"][1]["function"]["parameters"];
    assert_eq!(offered["properties"]["color"]["type"], "string", "the declared ones: {offered}");
    let warning = &ended["warnings"][0];
    assert_eq!(
        (&warning["code"], &warning["tool"]),
        (&json!("tool.parameters_unknown"), &json!("sulky")),
        "{ended}"
    );
    assert!(warning["message"].as_str().unwrap().contains("not today"), "{warning}");
    let told = asked.last().expect("it was asked")["messages"].to_string();
    assert!(told.contains("persons") && told.contains('3'), "{told}");
}

/// Runs a workflow that begins with a datasource.
async fn run(lab: &Lab, name: &str, kind: &str, info: &Json) -> Json {
    let output = |name: &str| json!({"variable": name, "value_selector": ["source", name]});
    let workflow = json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "Source"},
        "workflow": {"graph": {
            "nodes": [
                {"id": "source", "data": {
                    "type": "datasource", "title": "Source", "plugin_id": "tidemill/source", "provider_name": name,
                    "provider_type": kind, "datasource_name": name, "datasource_parameters": {},
                    "plugin_unique_identifier": SOURCE,
                }},
                {"id": "end", "data": {"type": "end", "title": "End", "outputs": [output("content"), output("file")]}},
            ],
            "edges": [{"id": "e", "source": "source", "target": "end", "sourceHandle": "source", "targetHandle": "target"}],
        }},
    });
    let sys = json!({"datasource_type": kind, "datasource_info": info});
    let body = json!({"workflow": workflow.to_string(), "inputs": {}, "sys": sys, "user": "tester"});
    let run = lab.client.submit(&body).await;
    lab.client.ended(&run).await
}
