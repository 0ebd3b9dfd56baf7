//! A first try with the mock model that has no rules: it gives each kind of node an answer of the form that the node wants,
//! so that a workflow reaches its end without a key.

use serde_json::{Value as Json, json};
use tidemill_mock_llm::{MockLlm, Rules, Running};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};

struct Fleet {
    client: Client,
    model: Running,
    _cluster: Cluster,
    _scheduler: Scheduler,
    _worker: Worker,
}

/// A system whose model `plain` has no known features, while `able` calls tools and takes schemas.
async fn fleet() -> Fleet {
    let model = MockLlm::start(Rules::Friendly, ([127, 0, 0, 1], 0).into()).await.expect("a free port");
    let cluster = Cluster::start(&[], None).await;
    let settings = cluster.logs().join("models.toml");
    let text = format!(
        "[providers.openai]\nbase_url = \"{}\"\napi_key = \"none\"\n\
         [providers.openai.models.able]\nfeatures = [\"tool-call\", \"structured-output\"]\n",
        model.base_url()
    );
    std::fs::write(&settings, text).expect("the folder exists");
    let scheduler = cluster.scheduler().await;
    let worker = cluster.worker_with(&["--config", settings.to_str().expect("a text")]).await;
    Fleet { client: scheduler.client(), model, _cluster: cluster, _scheduler: scheduler, _worker: worker }
}

fn model(name: &str, mode: &str) -> Json {
    json!({"provider": "openai", "name": name, "mode": mode, "completion_params": {}})
}

/// A workflow with one node between start and end. `handles` are the node's exits; each goes to an end that shows its
/// name.
fn with_node(data: Json, outputs: &[&str], handles: &[&str]) -> String {
    let mut nodes = vec![
        json!({"id": "start", "data": {"type": "start", "title": "S", "variables": [
            {"variable": "q", "label": "q", "type": "paragraph"},
        ]}}),
        json!({"id": "n", "data": data}),
    ];
    let edge = |from: &str, handle: &str, to: &str| json!({"id": format!("{from}{handle}{to}"), "source": from, "target": to, "sourceHandle": handle, "targetHandle": "target"});
    let mut edges = vec![edge("start", "source", "n")];
    for handle in handles {
        let (say, end) = (format!("say_{handle}"), format!("end_{handle}"));
        nodes.push(json!({"id": say, "data": {"type": "template-transform", "title": "T", "template": handle, "variables": []}}));
        let mut shown = vec![json!({"variable": "took", "value_selector": [say, "output"]})];
        shown.extend(outputs.iter().map(|name| json!({"variable": name, "value_selector": ["n", name]})));
        nodes.push(json!({"id": end, "data": {"type": "end", "title": "E", "outputs": shown}}));
        edges.extend([edge("n", handle, &say), edge(&say, "source", &end)]);
    }
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "First"},
        "workflow": {"graph": {"nodes": nodes, "edges": edges}},
    })
    .to_string()
}

async fn outputs(client: &Client, workflow: &str) -> Json {
    let body = json!({"workflow": workflow, "inputs": {"q": "Where is\nthe \"bill\"?"}, "user": "u"});
    let ended = client.ended(&client.submit(&body).await).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    ended["outputs"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_classifier_takes_its_first_class_whatever_its_texts_contain() {
    let Fleet { client, .. } = &fleet().await;
    for mode in ["chat", "completion"] {
        let data = json!({
            "type": "question-classifier", "title": "C", "model": model("plain", mode),
            "query_variable_selector": ["start", "q"],
            "classes": [{"id": "1", "name": "the \"bills\""}, {"id": "2", "name": "other"}],
            "instruction": "First line.\nSecond \"line\".", "vision": {"enabled": false},
        });
        let outputs = outputs(client, &with_node(data, &["class_name"], &["1", "2"])).await;
        assert_eq!(outputs, json!({"took": "1", "class_name": "the \"bills\""}), "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extractor_gets_values_of_its_types_by_a_call_or_in_words() {
    let Fleet { client, model: mock, .. } = &fleet().await;
    for (name, mode, by) in [
        ("able", "chat", "function_call"),
        ("plain", "chat", "function_call"),
        ("able", "chat", "prompt"),
        ("plain", "completion", "prompt"),
    ] {
        let parameter = |name: &str, ty: &str, options: Json| json!({"name": name, "type": ty, "description": name, "required": true, "options": options});
        let data = json!({
            "type": "parameter-extractor", "title": "P", "model": model(name, mode), "query": ["start", "q"],
            "reasoning_mode": by, "instruction": "Two\nlines", "vision": {"enabled": false},
            "parameters": [
                parameter("city", "string", json!(null)), parameter("count", "number", json!(null)),
                parameter("kind", "select", json!(["b", "a"])), parameter("tags", "array[string]", json!(null)),
                parameter("sure", "bool", json!(null)),
            ],
        });
        mock.take_requests();
        let names = ["city", "count", "kind", "tags", "sure", "__is_success"];
        let outputs = outputs(client, &with_node(data, &names, &["source"])).await;
        let expected = json!({
            "took": "source", "city": "mock city", "count": 1, "kind": "b", "tags": ["mock tags"], "sure": true,
            "__is_success": 1,
        });
        assert_eq!(outputs, expected, "{name} {mode} {by}");
        let has_tools = mock.take_requests().iter().any(|request| request.get("tools").is_some());
        assert_eq!(has_tools, name == "able" && by == "function_call", "{name} {by}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn structured_output_fits_its_schema_by_parameter_or_in_words() {
    let Fleet { client, .. } = &fleet().await;
    for name in ["able", "plain"] {
        let data = json!({
            "type": "llm", "title": "L", "model": model(name, "chat"), "context": {"enabled": false, "variable_selector": []},
            "vision": {"enabled": false}, "prompt_template": [{"role": "user", "text": "{{#start.q#}}"}],
            "structured_output_enabled": true,
            "structured_output": {"schema": {
                "type": "object", "required": ["sum", "lines"], "additionalProperties": false,
                "properties": {
                    "sum": {"type": "number", "minimum": 10},
                    "lines": {"type": "array", "items": {"type": "object", "required": ["kind"], "properties": {
                        "kind": {"type": "string", "enum": ["fee", "tax"]},
                    }}},
                },
            }},
        });
        let outputs = outputs(client, &with_node(data, &["structured_output"], &["source"])).await;
        assert_eq!(outputs["structured_output"], json!({"sum": 10, "lines": [{"kind": "fee"}]}), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_calls_one_tool_once_and_then_answers() {
    let Fleet { client, model: mock, .. } = &fleet().await;
    let constant = |value: Json| json!({"type": "constant", "value": value});
    for (strategy, name) in [("function_calling", "able"), ("ReAct", "plain")] {
        let tool = json!({
            "enabled": true, "type": "builtin", "provider_name": "maths", "tool_name": "eval_expression", "settings": {},
            "parameters": {"expression": {"auto": 1, "value": null}}, "extra": {"description": "Counts"},
        });
        let data = json!({
            "type": "agent", "title": "Agent", "agent_strategy_name": strategy,
            "agent_strategy_provider_name": "langgenius/agent/agent", "agent_strategy_label": strategy,
            "agent_parameters": {
                "model": constant(json!({"provider": "openai", "model": name, "mode": "chat", "completion_params": {}})),
                "tools": constant(json!([tool])), "instruction": constant(json!("Count.")),
                "query": constant(json!("what is it")), "maximum_iterations": constant(json!(5)),
            },
        });
        mock.take_requests();
        let outputs = outputs(client, &with_node(data, &["text"], &["source"])).await;
        let text = outputs["text"].as_str().expect("a text");
        let asked = mock.take_requests();
        assert_eq!(asked.len(), 2, "{strategy}: one round with a call, one with the answer: {asked:#?}");
        let second = asked[1]["messages"].to_string();
        assert!(second.contains("mock expression"), "{strategy}: {second}");
        assert!(text.contains("answered: ") || text.contains("You said: "), "{strategy}: {text}");
    }
}
