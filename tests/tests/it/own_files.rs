//! File objects that nodes write. Code can name the path of any file; a worker reads only what the run may read: its own files,
//! those of its app and user, those of the run that called it, and those that the operator hands to it.

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running;
use tidemill_tests::client::Client;
use tidemill_tests::file_server::FileServer;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::service_files::{node, read, reader, register, run, uploaded};
use super::{System, system};

async fn fleet(model: &Running) -> System {
    system(&[("files.url", "place"), ("http.allow", "127.0.0.1")], model).await
}

/// Publishes a workflow and returns its id.
async fn published(system: &System, name: &str, nodes: &Json) -> String {
    let ids: Vec<&str> =
        nodes.as_array().into_iter().flatten().filter_map(|node| node["id"].as_str()).collect();
    let edges: Vec<Json> = ids.windows(2).map(|pair| json!({"source": pair[0], "target": pair[1]})).collect();
    let document = json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": name},
        "workflow": {"features": {}, "graph": {"nodes": nodes, "edges": edges}},
    });
    let answer = system.client.post("/api/v1/apps", &json!({"workflow": document.to_string()})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.body["id"].as_str().expect("an id").to_owned()
}

fn start(fields: Json) -> Json {
    node("start", json!({"type": "start", "title": "Start", "variables": fields}))
}

fn file_field() -> Json {
    json!({"variable": "f", "label": "f", "type": "file", "required": true})
}

fn end(from: [&str; 2]) -> Json {
    let outputs = json!([{"variable": "text", "value_selector": from}]);
    node("end", json!({"type": "end", "title": "End", "outputs": outputs}))
}

fn calls(app: &str, from: [&str; 2]) -> Json {
    let data = json!({
        "type": "tool", "title": "T", "provider_id": app, "provider_name": "the tool", "provider_type": "workflow",
        "tool_name": "t", "tool_label": "T", "tool_configurations": {},
        "tool_parameters": {"f": {"type": "variable", "value": from}},
    });
    node("call", data)
}

/// Tools that hand the bytes of a file on: the text of a document, a model that sees the file, a request.
async fn tools(system: &System, server: &FileServer) -> Vec<(&'static str, String)> {
    let looks = json!({
        "type": "llm", "title": "Look", "model": {"provider": "openai", "name": "gpt-4o", "mode": "chat", "completion_params": {}},
        "prompt_template": [{"role": "user", "text": "What is in it?"}],
        "context": {"enabled": false, "variable_selector": []},
        "vision": {"enabled": true, "configs": {"detail": "high", "variable_selector": ["start", "f"]}},
    });
    let sends = json!({
        "type": "http-request", "title": "Send", "method": "post", "url": server.url("/echo"),
        "authorization": {"type": "no-auth"}, "headers": "", "params": "",
        "body": {"type": "binary", "data": [{"key": "", "type": "file", "file": ["start", "f"]}]},
    });
    let mut tools = Vec::new();
    for (name, node, from) in [
        ("Reader", read("start", "f", false), ["read", "text"]),
        ("Looker", node("look", looks), ["look", "text"]),
        ("Sender", node("send", sends), ["send", "body"]),
    ] {
        tools.push((
            name,
            published(system, name, &json!([start(json!([file_field()])), node, end(from)])).await,
        ));
    }
    tools
}

/// An app that calls a tool with its file.
async fn honest(system: &System, tool: &str) -> Client {
    let nodes = json!([start(json!([file_field()])), calls(tool, ["start", "f"]), end(["call", "text"])]);
    register(system, "workflow", nodes, json!({})).await
}

/// An app that calls a tool with the file object that it makes of a text.
async fn thief(system: &System, tool: &str) -> Client {
    let text =
        json!({"variable": "t", "label": "t", "type": "paragraph", "required": true, "max_length": 9000});
    let code = json!({
        "type": "code", "title": "Make", "code_language": "python3",
        "code": "import json\ndef main(t):\n    return {'o': json.loads(t)}\n",
        "variables": [{"variable": "t", "value_selector": ["start", "t"]}],
        "outputs": {"o": {"type": "object", "children": null}},
    });
    let mut file = file_field();
    file["required"] = false.into();
    let nodes = json!([
        start(json!([text, file])),
        node("make", code),
        calls(tool, ["make", "o"]),
        end(["call", "text"])
    ]);
    register(system, "workflow", nodes, json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_object_that_code_makes_reads_no_file_of_another_app_or_user() {
    let model = llm::rules(json!([{"match": {}, "reply": "seen"}])).await;
    let system = &fleet(&model).await;
    let server = FileServer::start().await;
    let victim = reader(system, json!({})).await;
    let done = run(&victim, "ann", json!({"f": uploaded(&victim, "ann", "tide.txt").await})).await;
    let object = done.body["data"]["outputs"]["f"].clone();
    assert!(object["reference"].is_string(), "{}", done.text);
    let tools = tools(system, &server).await;
    for (name, tool) in &tools {
        let thief = thief(system, tool).await;
        let stolen = run(&thief, "ann", json!({"t": for_tool(name, &object).to_string()})).await;
        assert_eq!(stolen.body["data"]["status"], "failed", "{name}: {}", stolen.text);
        assert!(!stolen.text.contains("High water"), "{name}: {}", stolen.text);
        let id = stolen.body["workflow_run_id"].as_str().expect("an id");
        let shown = system.client.get(&format!("/api/v1/runs/{id}")).await.text;
        assert!(shown.contains("may not read the file"), "{name}: {shown}");
    }
    assert!(model.requests().is_empty() && server.requests("/echo").is_empty(), "nothing was sent");

    // A file of the app itself is read for the user who gave it, and for no other.
    for (name, tool) in &tools {
        let app = thief(system, tool).await;
        let given = run(&app, "ann", json!({"t": "{}", "f": uploaded(&app, "ann", "tide.txt").await})).await;
        let id = given.body["workflow_run_id"].as_str().unwrap_or_else(|| panic!("{}", given.text));
        let object = system.client.get(&format!("/api/v1/runs/{id}")).await.body["inputs"]["f"].clone();
        assert!(object["reference"].is_string(), "{object}");
        for (user, status) in [("bob", "failed"), ("ann", "succeeded")] {
            let read = run(&app, user, json!({"t": for_tool(name, &object).to_string()})).await;
            assert_eq!(read.body["data"]["status"], status, "{name} {user}: {}", read.text);
        }
    }
    assert_eq!((model.requests().len(), server.requests("/echo").len()), (1, 1));
    assert!(model.requests()[0].to_string().contains("image/png"), "the model got the bytes");
}

/// The same file, with any URL left out. For the model it says that it is a picture, because others are not shown to it.
fn for_tool(name: &str, object: &Json) -> Json {
    let mut object = object.clone();
    object["url"] = Json::Null;
    if name != "Looker" {
        return object;
    }
    let says = json!({"type": "image", "filename": "a.png", "extension": ".png", "mime_type": "image/png", "url": null});
    object.as_object_mut().expect("an object").extend(says.as_object().cloned().expect("an object"));
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_a_run_hands_to_a_workflow_tool_is_read_there() {
    let model = llm::rules(json!([{"match": {}, "reply": "seen"}])).await;
    let system = &fleet(&model).await;
    let server = FileServer::start().await;
    for (name, tool) in tools(system, &server).await {
        let app = honest(system, &tool).await;
        let done = run(&app, "ann", json!({"f": uploaded(&app, "ann", "tide.txt").await})).await;
        assert_eq!(done.body["data"]["status"], "succeeded", "{name}: {}", done.text);
        assert!(name == "Looker" || done.text.contains("High water at seven."), "{name}: {}", done.text);
    }
}

/// A workflow that reads the text of its file.
fn look() -> Json {
    let nodes = json!([start(json!([file_field()])), read("start", "f", false), end(["read", "text"])]);
    let edges = json!([{"source": "start", "target": "read"}, {"source": "read", "target": "end"}]);
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "Look"},
        "workflow": {"features": {}, "graph": {"nodes": nodes, "edges": edges}},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_may_hand_a_file_of_any_run_to_another() {
    let model = llm::rules(json!([{"match": {}, "reply": "seen"}])).await;
    let system = &fleet(&model).await;
    let app = reader(system, json!({})).await;
    let done = run(&app, "ann", json!({"f": uploaded(&app, "ann", "tide.txt").await})).await;
    let mut object = done.body["data"]["outputs"]["f"].clone();
    object["url"] = Json::Null;
    let submitted = json!({"workflow": look().to_string(), "inputs": {"f": object}, "user": "operator"});
    let ended = system.client.ended(&system.client.submit(&submitted).await).await;
    assert_eq!(ended["outputs"]["text"], "High water at seven.", "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_run_reads_the_files_that_were_handed_to_the_exported_one() {
    let model = llm::rules(json!([{"match": {}, "reply": "seen"}])).await;
    let system = &fleet(&model).await;
    let app = reader(system, json!({})).await;
    let done = run(&app, "ann", json!({"f": uploaded(&app, "ann", "tide.txt").await})).await;
    let mut object = done.body["data"]["outputs"]["f"].clone();
    object["url"] = Json::Null;
    let client = &system.client;
    let submitted = json!({
        "workflow": look().to_string(), "inputs": {"f": object}, "user": "operator",
        "commands": [{"after": "start", "command": "pause"}],
    });
    let exported = client.submit(&submitted).await;
    paused(client, &exported).await;
    let snapshot = client.get(&format!("/api/v1/runs/{exported}/snapshot")).await;
    let imported = client.post("/api/v1/runs/import", &snapshot.body).await;
    assert_eq!(imported.status, 201, "{}", imported.text);
    let imported = imported.body["id"].as_str().expect("an id");
    paused(client, imported).await;
    let resumed =
        client.post(&format!("/api/v1/runs/{imported}/commands"), &json!({"command": "resume"})).await;
    assert_eq!(resumed.status, 202, "{}", resumed.text);
    let ended = client.ended(imported).await;
    assert_eq!(ended["outputs"]["text"], "High water at seven.", "{ended:#}");
}

async fn paused(client: &Client, run: &str) {
    until("the run to pause", LONG, async || {
        let shown = client.run(run).await;
        if shown["status"] == "paused" { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
}
