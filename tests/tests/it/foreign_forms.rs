//! Workflows in the forms of design documents and other programs, run as they stand: bare graphs with what an editor would
//! have added left out, and the words of other engines.

use serde_json::{Value as Json, json};
use tidemill_tests::llm;

use super::{System, system};

/// Runs a workflow to its end; the request has these further fields.
async fn run(system: &System, workflow: &Json, more: Json) -> Json {
    let mut body = json!({"workflow": workflow.to_string(), "user": "tester"});
    if let (Some(body), Json::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
    let run = system.client.submit(&body).await;
    system.client.ended(&run).await
}

/// Asserts the end of a run.
fn ends(run: &Json, status: &str, outputs: Json) {
    assert_eq!((&run["status"], &run["outputs"]), (&json!(status), &outputs), "{run:#}");
}

fn chain(ids: &[&str]) -> Vec<Json> {
    ids.windows(2).map(|pair| json!({"source": pair[0], "target": pair[1]})).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_without_context_and_mode_answers_the_input_query() {
    let model = llm::rules(json!([{"match": {"contains": "How deep is the sea?"}, "reply": "deep"}])).await;
    let system = system(&[], &model).await;
    let graph = json!({
        "nodes": [
            {"id": "begin", "data": {"type": "start", "title": "Begin", "variables": [
                {"variable": "query", "label": "Question", "type": "string", "required": true},
            ]}},
            {"id": "ask", "data": {
                "type": "llm", "title": "Ask",
                "model": {"provider": "openai", "name": "m", "completion_params": {"temperature": 0.1}},
                "prompt_template": [
                    {"role": "system", "text": "Answer in one word."}, {"role": "user", "text": "{{#sys.query#}}"},
                ],
            }},
            {"id": "finish", "data": {"type": "end", "title": "Finish", "outputs": [
                {"variable": "said", "value_selector": ["ask", "text"]},
            ]}},
        ],
        "edges": [
            {"id": "one", "source": "begin", "target": "ask", "sourceHandle": "source"},
            {"id": "two", "source": "ask", "target": "finish", "sourceHandle": "source"},
        ],
    });
    let inputs = json!({"inputs": {"query": "How deep is the sea?"}});
    for file in [graph.clone(), json!({"graph_config": graph})] {
        ends(&run(&system, &file, inputs.clone()).await, "succeeded", json!({"said": "deep"}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_without_a_provider_takes_its_input_from_nodes_inside_it() {
    let model = llm::rules(json!([
        {"match": {"contains": "Name the zone of the time"}, "reply": "UTC"},
        {"match": {"contains": "Name the wanted zone"}, "reply": "Asia/Tokyo"},
        {"match": {"contains": "When is noon"}, "reply": "Noon is in the middle of the day."},
    ]))
    .await;
    let system = system(&[], &model).await;
    let child = |id: &str, title: &str, text: &str| {
        json!({"id": id, "type": "llm", "data": {
            "title": title, "model": {"provider": "openai", "name": "small"},
            "prompt_template": [{"role": "user", "text": "{{#first.context#}}"}, {"role": "user", "text": text}],
        }})
    };
    let nodes = [
        json!({"id": "start", "type": "start", "data": {"variables": [
            {"variable": "query", "label": "q", "type": "string", "required": true}]}}),
        json!({"id": "first", "type": "llm", "data": {
            "model": {"provider": "openai", "name": "large"},
            "prompt_template": [{"role": "user", "text": "{{#start.query#}}"}],
        }}),
        json!({"id": "convert", "type": "tool", "data": {
            "virtual_nodes": [
                child("from", "From", "Name the zone of the time"), child("to", "To", "Name the wanted zone"),
            ],
            "tool_name": "timezone_conversion",
            "tool_parameters": {
                "current_timezone": {"type": "variable", "value": ["from", "text"]},
                "target_timezone": {"type": "variable", "value": ["to", "text"]},
                "current_time": {"type": "constant", "value": "2024-01-01 12:00:00"},
            },
        }}),
        // The same by an extraction, without `tool_parameters`.
        json!({"id": "again", "type": "tool", "data": {
            "tool_name": "timezone_conversion",
            "inputs": [
                {"name": "target_timezone", "type": "extraction", "value": {
                    "source_node_id": "first", "source_variable": "context",
                    "extraction_prompt": "Name the wanted zone",
                }},
                {"name": "current_timezone", "type": "constant", "value": "UTC"},
                {"name": "current_time", "type": "constant", "value": "2024-01-01 12:00:00"},
            ],
        }}),
        json!({"id": "end", "type": "end", "data": {"outputs": [
            {"variable": "a", "value_selector": ["convert", "text"]},
            {"variable": "b", "value_selector": ["again", "text"]},
        ]}}),
    ];
    let graph = json!({"nodes": nodes, "edges": chain(&["start", "first", "convert", "again", "end"])});
    let inputs = json!({"inputs": {"query": "When is noon?"}});
    let ended = run(&system, &graph, inputs).await;
    let noon = "2024-01-01 21:00:00";
    ends(&ended, "succeeded", json!({"a": noon, "b": noon}));

    let unknown = json!({"nodes": [
        {"id": "s", "data": {"type": "start"}},
        {"id": "t", "data": {"type": "tool", "title": "T", "tool_name": "fly", "tool_parameters": {}}},
    ], "edges": chain(&["s", "t"])});
    let failed = run(&system, &unknown, json!({"inputs": {}})).await;
    let error = failed["error"].as_str().unwrap_or_default();
    assert!(
        ["no provider has a tool fly", "provider_id", "[tools.mcp.NAME]"]
            .iter()
            .all(|part| error.contains(part)),
        "{failed:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_iteration_without_a_start_node_runs_its_body_for_each_item() {
    let model = llm::rules(json!([])).await;
    let system = system(&[], &model).await;
    let graph = json!({"nodes": [
        {"id": "s", "data": {"type": "start", "variables": []}},
        {"id": "list", "data": {"type": "code", "code_language": "python3", "variables": [],
            "code": "def main():\n    return {'items': ['a', 'b']}", "outputs": {"items": {"type": "array[string]"}}}},
        {"id": "each", "data": {
            "type": "iteration", "iterator_selector": ["list", "items"], "output_selector": ["body", "output"],
            "is_parallel": false, "parallel_nums": 1, "error_handle_mode": "terminated",
        }},
        {"id": "body", "parentId": "each", "data": {"type": "template-transform", "template": "<{{ x }}>",
            "variables": [{"variable": "x", "value_selector": ["each", "item"]}]}},
        {"id": "e", "data": {"type": "end", "outputs": [{"variable": "all", "value_selector": ["each", "output"]}]}},
    ], "edges": chain(&["s", "list", "each", "e"])});
    let ended = run(&system, &graph, json!({"inputs": {}})).await;
    ends(&ended, "succeeded", json!({"all": ["<a>", "<b>"]}));
}

#[tokio::test(flavor = "multi_thread")]
async fn error_strategies_conditions_and_branches_are_read_as_the_documents_write_them() {
    let model = llm::rules(json!([])).await;
    let system = system(&[], &model).await;
    // In a bare graph retries are on without `retry_enabled`.
    let fetch = json!({
        "type": "code", "title": "Fetch", "code_language": "python3", "variables": [],
        "code": "def main():\n    raise ValueError('gone')", "outputs": {"body": {"type": "string"}},
        "error_strategy": "fail-branch",
        "retry_config": {"max_retries": 1, "retry_interval": 1},
        "default_value": {"body": "none", "status_code": 0},
    });
    let route = json!({"type": "if-else", "title": "Route", "conditions": [
        {"id": "small", "logical_operator": "and", "conditions": [
            {"variable_selector": ["s", "n"], "comparison_operator": ">", "value": "1"},
            {"variable_selector": ["s", "n"], "comparison_operator": "<", "value": "5"},
        ]},
        {"id": "word", "logical_operator": "or", "conditions": [
            {"variable_selector": ["s", "t"], "comparison_operator": "contains", "value": "sea"},
        ]},
    ]});
    let number = json!({"variable": "n", "label": "n", "type": "number", "required": true});
    let text = json!({"variable": "t", "label": "t", "type": "string", "required": true});
    let says = |id: &str, text: &str| json!({"id": id, "data": {"type": "template-transform", "template": text, "variables": []}});
    let output = |name: &str| json!({"variable": name, "value_selector": [name, "output"]});
    let graph = json!({"nodes": [
        {"id": "s", "data": {"type": "start", "variables": [number, text]}},
        {"id": "fetch", "data": fetch}, {"id": "route", "data": route},
        says("good", "good"), says("bad", "bad"), says("small", "small"), says("word", "word"),
        {"id": "e", "data": {"type": "end", "outputs":
            [output("good"), output("bad"), output("small"), output("word")]}},
    ], "edges": [
        {"source": "s", "target": "fetch"}, {"source": "s", "target": "route"},
        {"source": "fetch", "target": "good", "sourceHandle": "success-branch"},
        {"source": "fetch", "target": "bad", "sourceHandle": "fail-branch"},
        {"source": "route", "target": "small", "sourceHandle": "small"},
        {"source": "route", "target": "word", "sourceHandle": "word"},
        {"source": "good", "target": "e"}, {"source": "bad", "target": "e"},
        {"source": "small", "target": "e"}, {"source": "word", "target": "e"},
    ]});
    for (inputs, small, word) in [
        (json!({"n": 3, "t": "land"}), json!("small"), json!(null)),
        (json!({"n": 9, "t": "the sea"}), json!(null), json!("word")),
    ] {
        let ended = run(&system, &graph, json!({"inputs": inputs})).await;
        let outputs = json!({"good": null, "bad": "bad", "small": small, "word": word});
        ends(&ended, "partial-succeeded", outputs);
        let id = ended["id"].as_str().unwrap_or_default();
        let told = system.client.follow(id, None).await.to_the_end().await;
        assert_eq!(told.count("node_run_retry", "fetch"), 1, "{told:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_other_engines_run_in_their_own_spelling() {
    let model = llm::rules(json!([])).await;
    let system = system(&[], &model).await;
    let foreign =
        |id: &str, kind: &str, config: Json| json!({"id": id, "type": kind, "name": id, "config": config});
    let code = |result: &str| {
        json!({"code_language": "python3", "variables": [], "outputs": {"r": {"type": "string"}},
            "code": format!("def main():\n    return {{'r': '{result}'}}")})
    };
    let graph = json!({"nodes": [
        foreign("s", "START", json!({"variables": [{"variable": "n", "label": "n", "type": "number", "required": true}]})),
        foreign("f", "FORK", json!({})),
        foreign("a", "CODE", code("left")),
        foreign("b", "CODE", code("right")),
        foreign("j", "JOIN", json!({})),
        foreign("r", "ROUTE", json!({"conditions": [{"id": "many", "logical_operator": "and", "conditions": [
            {"variable_selector": ["s", "n"], "comparison_operator": ">", "value": "3"}]}]})),
        {"id": "l", "type": "LOOP", "name": "l", "config": {"start_node_id": "ls", "loop_count": 5,
            "logical_operator": "and", "break_conditions": [],
            "loop_variables": [{"label": "k", "var_type": "number", "value_type": "constant", "value": 1}]}},
        foreign("ls", "LOOP_START", json!({})),
        {"id": "v", "parentId": "l", "type": "VARIABLE", "name": "v", "config": {"items": [{
            "variable_selector": ["l", "k"], "input_type": "constant", "operation": "+=", "value": 41}]}},
        {"id": "le", "parentId": "l", "type": "LOOP_END", "name": "le", "config": {}},
        foreign("e", "END", json!({"outputs": [
            {"variable": "a", "value_selector": ["a", "r"]}, {"variable": "b", "value_selector": ["b", "r"]},
            {"variable": "k", "value_selector": ["l", "k"]}]})),
    ], "edges": [
        {"source": "s", "target": "f"}, {"source": "f", "target": "a"}, {"source": "f", "target": "b"},
        {"source": "a", "target": "j"}, {"source": "b", "target": "j"}, {"source": "j", "target": "r"},
        {"source": "r", "target": "l", "sourceHandle": "many"}, {"source": "ls", "target": "v"},
        {"source": "v", "target": "le"}, {"source": "l", "target": "e"},
        {"source": "r", "target": "e", "sourceHandle": "false"},
    ]});
    for (n, k) in [(4, json!(42)), (1, json!(null))] {
        let ended = run(&system, &graph, json!({"inputs": {"n": n}})).await;
        ends(&ended, "succeeded", json!({"a": "left", "b": "right", "k": k}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_begins_at_the_only_node_that_no_edge_leads_to_and_knows_its_host() {
    let model = llm::rules(json!([])).await;
    let system = system(&[], &model).await;
    let reads = ["query", "user_id", "conversation_id", "tenant_id", "invoke_from"];
    let variables: Vec<Json> =
        reads.iter().map(|name| json!({"variable": name, "value_selector": ["sys", name]})).collect();
    let graph = json!({"nodes": [
        {"id": "t", "data": {"type": "template-transform", "variables": variables,
            "template": "{{ query }} {{ user_id }} {{ tenant_id }} {{ invoke_from }} {{ conversation_id | length }}"}},
        {"id": "e", "data": {"type": "end", "outputs": [{"variable": "t", "value_selector": ["t", "output"]}]}},
    ], "edges": chain(&["t", "e"])});
    let host = json!({"inputs": {"query": "why"}, "tenant_id": "acme", "user_id": "ada", "user_from": "end-user",
        "invoke_from": "service-api", "max_execution_steps": 10, "max_execution_time": 60, "user": null});
    let ended = run(&system, &graph, host).await;
    ends(&ended, "succeeded", json!({"t": "why ada acme service-api 36"}));
    let key = format!("tm:{{{}}}:run:{}", ended["shard"], ended["id"].as_str().unwrap_or_default());
    for (field, value) in [("tenant_id", "acme"), ("user_from", "end-user"), ("user", "ada")] {
        assert_eq!(system.cluster.redis.cli(&["HGET", &key, field]), value, "{field}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_aborted_by_this_word() {
    let model = llm::slow(&llm::many_pieces(400).iter().map(String::as_str).collect::<Vec<_>>(), 100).await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let graph = json!({"nodes": [
        {"id": "s", "data": {"type": "start"}},
        {"id": "l", "data": {"type": "llm", "model": {"provider": "openai", "name": "m"},
            "prompt_template": [{"role": "user", "text": "count"}]}},
        {"id": "a", "data": {"type": "answer", "answer": "{{#l.text#}}"}},
    ], "edges": chain(&["s", "l", "a"])});
    let run = client.submit(&json!({"workflow": graph.to_string(), "inputs": {}, "query": "count"})).await;
    let mut follower = client.follow(&run, None).await;
    follower.until_text("<2>").await;
    let commands = format!("/api/v1/runs/{run}/commands");
    let variables = json!({"command": "update_variables", "variables": {"s.extra": 1}});
    assert_eq!(client.post(&commands, &variables).await.status, 202);
    assert_eq!(client.post(&commands, &json!({"command": "abort", "reason": "enough"})).await.status, 202);
    let ended = client.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["error"]),
        (&json!("stopped"), &json!("Aborted: enough")),
        "{ended:#}"
    );
}
