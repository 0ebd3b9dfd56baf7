//! Operations on conversation variables through real workers: in items that run in parallel, with small and with large
//! values, and from turn to turn.

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::llm;

use super::{System, system};

const APPEND: &str = r#"{"variable_selector": ["conversation", "seen"], "input_type": "variable", "operation": "append", "value": ["shape", "output"]}"#;

/// A chat that appends each of its names, in a text of `chars` characters, to `seen` in parallel items, and then says
/// the first characters of all that it has seen.
fn appending(names: usize, chars: usize) -> Json {
    let names: Vec<String> = (0..names).map(|at| format!("<{at}>")).collect();
    let shape = format!("{{{{ x }}}}{{% for i in range({chars}) %}}.{{% endfor %}}");
    let item: Json = serde_json::from_str(APPEND).expect("it is JSON");
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "advanced-chat", "name": "Seen"},
        "workflow": {
            "conversation_variables": [
                {"name": "seen", "value_type": "array[string]", "value": []},
                {"name": "names", "value_type": "array[string]", "value": names},
                {"name": "count", "value_type": "integer", "value": 0},
            ],
            "graph": {
                "nodes": [
                    {"id": "start", "data": {"type": "start", "title": "S", "variables": []}},
                    {"id": "each", "data": {"type": "iteration", "title": "E", "start_node_id": "first", "is_parallel": true,
                        "parallel_nums": 4, "iterator_selector": ["conversation", "names"],
                        "output_selector": ["shape", "output"], "error_handle_mode": "terminated"}},
                    {"id": "first", "parentId": "each", "data": {"type": "iteration-start", "title": ""}},
                    {"id": "shape", "parentId": "each", "data": {"type": "template-transform", "title": "T",
                        "template": shape, "variables": [{"variable": "x", "value_selector": ["each", "item"]}],
                        "tidemill": {"runs_on": "worker"}}},
                    {"id": "add", "parentId": "each", "data": {"type": "assigner", "title": "A", "version": "2", "items": [
                        item,
                        {"variable_selector": ["conversation", "count"], "input_type": "constant", "operation": "+=", "value": 1},
                    ]}},
                    {"id": "late", "parentId": "each", "data": {"type": "template-transform", "title": "L",
                        "template": "x", "variables": [], "tidemill": {"runs_on": "worker"}}},
                    {"id": "list", "data": {"type": "template-transform", "title": "T",
                        "template": "{% for text in seen %}{{ text[:3] }} {% endfor %}",
                        "variables": [{"variable": "seen", "value_selector": ["conversation", "seen"]}]}},
                    {"id": "say", "data": {"type": "answer", "title": "A", "answer": "{{#conversation.count#}}: {{#list.output#}}"}},
                ],
                "edges": [
                    {"source": "start", "target": "each"}, {"source": "first", "target": "shape"},
                    {"source": "shape", "target": "add"}, {"source": "add", "target": "late"},
                    {"source": "each", "target": "list"}, {"source": "list", "target": "say"},
                ],
            },
        },
    })
}

/// A chat of an assigner with these items, which then answers.
fn assigning(variables: &Json, items: &Json, answer: &str) -> Json {
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "advanced-chat", "name": "Kept"},
        "workflow": {
            "conversation_variables": variables,
            "graph": {
                "nodes": [
                    {"id": "start", "data": {"type": "start", "title": "S", "variables": []}},
                    {"id": "keep", "data": {"type": "assigner", "title": "K", "version": "2", "items": items}},
                    {"id": "say", "data": {"type": "answer", "title": "A", "answer": answer}},
                ],
                "edges": [{"source": "start", "target": "keep"}, {"source": "keep", "target": "say"}],
            },
        },
    })
}

async fn register(system: &System, document: &Json) -> Client {
    let answer = system.client.post("/api/v1/apps", &json!({"workflow": document.to_string()})).await;
    assert!(answer.status == 201 || answer.status == 200, "{}", answer.text);
    system.client.with_key(answer.body["key"].as_str())
}

/// Asks and returns the conversation and the answer.
async fn ask(app: &Client, conversation: &str) -> (String, String) {
    let body = json!({"query": "q", "inputs": {}, "user": "u", "conversation_id": conversation, "response_mode": "blocking"});
    let answer = app.post("/v1/chat-messages", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let text = |key: &str| answer.body[key].as_str().expect("a text").to_owned();
    (text("conversation_id"), text("answer"))
}

/// The number before the colon, and the sorted words after it.
fn parts(answer: &str) -> (&str, Vec<&str>) {
    let (count, words) = answer.split_once(": ").expect("a colon");
    let mut words: Vec<&str> = words.split_whitespace().collect();
    words.sort_unstable();
    (count, words)
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_items_lose_no_operation_with_small_and_large_values_and_the_next_turn_sees_them() {
    let model = llm::rules(json!([])).await;
    let system = system(&[], &model).await;
    for (names, chars) in [(3, 0), (9, 3_000)] {
        let app = register(&system, &appending(names, chars)).await;
        let (conversation, first) = ask(&app, "").await;
        let once: Vec<String> = (0..names).map(|at| format!("<{at}>")).collect();
        assert_eq!(parts(&first), (names.to_string().as_str(), once.iter().map(String::as_str).collect()));
        let (_, second) = ask(&app, &conversation).await;
        let mut twice: Vec<&str> = once.iter().chain(&once).map(String::as_str).collect();
        twice.sort_unstable();
        assert_eq!(parts(&second), ((2 * names).to_string().as_str(), twice));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_the_conversation_keeps_its_fraction_from_turn_to_turn() {
    let model = llm::rules(json!([])).await;
    let system = system(&[], &model).await;
    let variables = json!([{"name": "total", "value_type": "number", "value": 0}]);
    let items = json!([
        {"variable_selector": ["conversation", "total"], "input_type": "constant", "operation": "+=", "value": 1.5}]);
    let app = register(&system, &assigning(&variables, &items, "{{#conversation.total#}}")).await;
    let (conversation, first) = ask(&app, "").await;
    let (_, second) = ask(&app, &conversation).await;
    let (_, third) = ask(&app, &conversation).await;
    assert_eq!([first, second, third], ["1.5", "3.0", "4.5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_conversation_gets_the_defaults_of_variables_that_a_new_version_adds() {
    let model = llm::rules(json!([])).await;
    let system = system(&[], &model).await;
    let count = json!({"name": "count", "value_type": "number", "value": 0});
    let add = json!({"variable_selector": ["conversation", "count"], "input_type": "constant", "operation": "+=", "value": 1});
    let old = assigning(&json!([count]), &json!([add]), "count={{#conversation.count#}}");
    let published = system.client.post("/api/v1/apps", &json!({"workflow": old.to_string()})).await.body;
    let app = system.client.with_key(published["key"].as_str());
    let (conversation, first) = ask(&app, "").await;
    assert_eq!(first, "count=1");
    let variables = json!([
        count, {"name": "tags", "value_type": "array[string]", "value": ["first"]},
        {"name": "mood", "value_type": "string", "value": "calm"}]);
    let append = json!({"variable_selector": ["conversation", "tags"], "input_type": "variable", "operation": "append", "value": ["sys", "query"]});
    let answer = "count={{#conversation.count#}} tags={{#conversation.tags#}} mood={{#conversation.mood#}}";
    let new = assigning(&variables, &json!([add, append]), answer).to_string();
    let again = system.client.post("/api/v1/apps", &json!({"id": published["id"], "workflow": new})).await;
    assert!(again.status < 300, "{}", again.text);
    let (_, second) = ask(&app, &conversation).await;
    assert!(second.starts_with("count=2 tags=") && second.ends_with(" mood=calm"), "{second}");
    assert!(second.contains("first") && second.contains('q'), "{second}");
}
