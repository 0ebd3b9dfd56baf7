//! Servers of tools, from the worker's settings to the nodes that call them: MCP over standard input and over HTTP,
//! an OpenAPI document, and a tool service.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running;
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};
use tidemill_tests::llm;

use super::called::file;

pub(super) const SERVERS: &str = include_str!("tool_servers.py");
const PETS: &str = r##"{
  "openapi": "3.0.0", "info": {"title": "Pets", "version": "1"}, "servers": [{"url": "http://SERVER"}],
  "paths": {"/pets/{name}": {"get": {
    "operationId": "find_pet", "summary": "Finds a pet",
    "parameters": [{"name": "name", "in": "path", "required": true, "schema": {"type": "string"}}],
    "responses": {"200": {"description": "a pet"}}
  }}}
}"##;

/// A server that ends with its test.
pub(super) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Starts the servers over HTTP; returns their common address.
pub(super) fn serve(program: &Path) -> (Server, String) {
    let mut command = Command::new("python3");
    let mut child = command.arg(program).arg("http").stdout(Stdio::piped()).spawn().expect("python3 starts");
    let mut port = String::new();
    let output = child.stdout.take().expect("it was asked for");
    BufReader::new(output).read_line(&mut port).expect("it prints its port");
    (Server(child), format!("127.0.0.1:{}", port.trim()))
}

struct Fleet {
    _server: Server,
    _cluster: Cluster,
    scheduler: Scheduler,
    _worker: Worker,
}

async fn fleet(model: &Running) -> Fleet {
    let cluster = Cluster::start(&[("http.allow", "127.0.0.1"), ("files.url", "place")], None).await;
    let place = |name: &str| cluster.logs().join(name);
    let (program, spec, settings) = (place("servers.py"), place("pets.json"), place("tools.toml"));
    std::fs::write(&program, SERVERS).expect("the folder exists");
    let (server, address) = serve(&program);
    std::fs::write(&spec, PETS.replace("SERVER", &address)).expect("the folder exists");
    let text = format!(
        r#"
[providers.openai]
base_url = "{model}"
api_key = "none"
[providers.openai.models.m]
features = ["tool-call", "vision"]
[tools]
endpoint = "http://{address}/tools"
[tools.mcp.near]
command = ["python3", "{program}", "stdio"]
[tools.mcp.far]
url = "http://{address}/mcp"
headers = {{ "X-Team" = "search" }}
[tools.api.pets]
spec = "{spec}"
auth_type = "api_key_header"
api_key_header_prefix = "bearer"
api_key_value = "pets-key"
"#,
        model = model.base_url(),
        program = program.display(),
        spec = spec.display(),
    );
    std::fs::write(&settings, text).expect("the folder exists");
    let scheduler = cluster.scheduler().await;
    let worker = cluster.worker_with(&["--config", settings.to_str().expect("a text")]).await;
    Fleet { _server: server, _cluster: cluster, scheduler, _worker: worker }
}

/// A node that calls a tool.
fn tool((kind, provider, name): (&str, &str, &str), arguments: &Json) -> Json {
    let constant = |value: &Json| json!({"type": "constant", "value": value});
    let given = arguments.as_object().expect("an object").iter();
    let given: Json =
        given.map(|(name, value)| (name.clone(), constant(value))).collect::<serde_json::Map<_, _>>().into();
    json!({
        "type": "tool", "title": "T", "provider_id": provider, "provider_name": provider, "provider_type": kind,
        "tool_name": name, "tool_label": name, "tool_configurations": {}, "tool_parameters": given,
    })
}

/// A tool that an agent may call with these arguments.
fn offered((kind, provider, name): (&str, &str, &str), arguments: &[&str]) -> Json {
    let auto = |name: &&str| ((*name).to_owned(), json!({"auto": 1, "value": null}));
    json!({
        "enabled": true, "type": kind, "provider_name": provider, "tool_name": name, "settings": {},
        "parameters": arguments.iter().map(auto).collect::<serde_json::Map<_, _>>(),
    })
}

const ADD: [(&str, &str, &str); 2] = [("mcp", "near", "add"), ("mcp", "far", "add")];
const PET: (&str, &str, &str) = ("api", "pets", "find_pet");
const SERVICE: (&str, &str, &str) = ("builtin", "acme", "serve");

#[tokio::test(flavor = "multi_thread")]
async fn tool_nodes_call_the_servers_of_the_settings() {
    let model = llm::rules(json!([{"match": {}, "reply": "a dot"}])).await;
    let fleet = fleet(&model).await;
    let client = fleet.scheduler.client();
    let sum = json!({"a": 1, "b": 2});
    let sees = json!({
        "type": "llm", "title": "L", "model": {"provider": "openai", "name": "m", "mode": "chat", "completion_params": {}},
        "prompt_template": [{"role": "user", "text": "What is this?"}], "context": {"enabled": false},
        "vision": {"enabled": true, "configs": {"detail": "high", "variable_selector": ["draw", "files"]}},
    });
    let nodes = [
        ("near", tool(ADD[0], &sum)),
        ("far", tool(ADD[1], &sum)),
        ("pet", tool(PET, &json!({"name": "Rex"}))),
        ("service", tool(SERVICE, &json!({}))),
        ("draw", tool(("mcp", "near", "draw"), &json!({}))),
        ("sees", sees),
    ];
    let outputs = [
        ("near", ["near", "text"]),
        ("far", ["far", "text"]),
        ("pet", ["pet", "text"]),
        ("service", ["service", "text"]),
        ("files", ["draw", "files"]),
        ("seen", ["sees", "text"]),
    ];
    let text = file("Tools", &[], &nodes, &outputs);
    let run = client.ended(&client.submit(&json!({"workflow": text, "inputs": {}})).await).await;
    assert_eq!(run["status"], "succeeded", "{run:#}");
    let said =
        ["near", "far", "service", "seen"].map(|name| run["outputs"][name].as_str().unwrap_or_default());
    assert_eq!(said, ["3", "3", "served", "a dot"], "{run:#}");
    assert!(run["outputs"]["pet"].as_str().unwrap().contains("Rex"), "{run:#}");
    // A picture without a name gets one from its type, and is sent to a model that can read pictures.
    let picture = &run["outputs"]["files"][0];
    assert_eq!(
        (&picture["extension"], &picture["mime_type"]),
        (&json!(".png"), &json!("image/png")),
        "{run:#}"
    );
    let asked = model.take_requests()[0].to_string();
    assert!(asked.contains("data:image/png;base64,"), "{asked}");
    // The usage that servers report is counted.
    let spent = |id: &str| {
        let node = run["nodes"].as_array().unwrap().iter().find(|node| node["id"] == id).unwrap();
        (node["tokens"].as_u64().unwrap(), node["price"].as_str().map(str::to_owned))
    };
    for id in ["near", "far"] {
        assert_eq!(spent(id), (7, Some("0.5".into())), "{run:#}");
    }
    assert_eq!(spent("service").0, 11, "{run:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_calls_the_servers_of_the_settings() {
    let call = |name: &str, arguments: Json| json!({"name": name, "arguments": arguments});
    let calls = json!([
        call("add", json!({"a": 20, "b": 3})),
        call("find_pet", json!({"name": "Rex"})),
        call("serve", json!({})),
    ]);
    let model = llm::rules(json!([
        {"match": {"messages": 2, "has_tools": true}, "reply": "", "tool_calls": calls},
        {"match": {"messages": 6}, "reply": "", "tool_calls": [call("add", json!({"a": 30, "b": 5}))]},
        {"match": {}, "reply": "Done."},
    ]))
    .await;
    let fleet = fleet(&model).await;
    let client = fleet.scheduler.client();
    for (way, provider) in ADD.iter().map(|way| (*way, way.1)) {
        model.take_requests();
        let tools = json!([offered(way, &["a", "b"]), offered(PET, &["name"]), offered(SERVICE, &[])]);
        let constant = |value: Json| json!({"type": "constant", "value": value});
        let agent = json!({
            "type": "agent", "title": "Agent", "agent_strategy_name": "function_calling",
            "agent_strategy_provider_name": "langgenius/agent/agent", "agent_strategy_label": "FunctionCalling",
            "agent_parameters": {
                "model": constant(json!({"provider": "openai", "model": "m", "mode": "chat", "completion_params": {}})),
                "tools": constant(tools), "instruction": constant(json!("Be brief.")),
                "query": constant(json!("go")), "maximum_iterations": constant(json!(5)),
            },
        });
        let text = file("Agent", &[], &[("a", agent)], &[("text", ["a", "text"])]);
        let id = client.submit(&json!({"workflow": text, "inputs": {}})).await;
        let run = client.ended(&id).await;
        assert_eq!(run["status"], "succeeded", "{provider}: {run:#}");
        assert!(run["outputs"]["text"].as_str().unwrap().ends_with("Done."), "{run:#}");
        let asked = model.take_requests();
        // The model gets the server's description of the tool.
        let offered = asked[0]["tools"].as_array().unwrap();
        let add = offered.iter().find(|tool| tool["function"]["name"] == "add").expect("it is offered");
        assert_eq!(add["function"]["description"], "Adds two numbers", "{add:#}");
        assert_eq!(add["function"]["parameters"]["properties"]["a"]["type"], "number", "{add:#}");
        let told = asked.last().unwrap()["messages"].to_string();
        for said in ["23", "35", "Rex", "served"] {
            assert!(told.contains(said), "{provider}: {said} in {told}");
        }
        let events = client.follow(&id, None).await.to_the_end().await;
        assert_eq!(events.count("tool_call_completed", "a"), 4, "{events:#?}");
        // Three rounds of the model, two calls that cost 7 tokens, and one that costs 11.
        let spent = run["total_tokens"].as_u64().unwrap();
        assert_eq!(spent, 3 * 12 + 2 * 7 + 11, "{run:#}");
    }
}
