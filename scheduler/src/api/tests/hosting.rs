//! Tests of submissions in the words of a host: its configuration, and the question as an input.

use serde_json::{Value as Json, json};
use tidemill_common::store::NewRun;

use super::fixtures::{ADMIN, GREETER, Server};

fn hash_field<'a>(new: &'a NewRun, name: &str) -> Option<&'a str> {
    new.fields.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str())
}

fn sys(new: &NewRun) -> Json {
    serde_json::from_str(hash_field(new, "sys").unwrap()).unwrap()
}

async fn submitted(body: &Json) -> NewRun {
    let server = Server::start();
    let answer = server.post(ADMIN, "/api/v1/runs", body).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    server.store.lock().created[0].clone()
}

/// A graph whose last node reads these variables of `sys`.
fn bare(last: &str, reads: &[&str]) -> Json {
    let text: String = reads.iter().map(|name| format!("{{{{#sys.{name}#}}}}")).collect();
    let field = json!({"variable": "query", "label": "Q", "type": "text-input", "required": false});
    let data = match last {
        "answer" => json!({"type": "answer", "title": "A", "answer": text}),
        _ => json!({"type": "end", "title": "E", "outputs": reads.iter()
            .map(|name| json!({"variable": name, "value_selector": ["sys", name]})).collect::<Json>()}),
    };
    json!({
        "nodes": [{"id": "s", "data": {"type": "start", "title": "S", "variables": [field]}}, {"id": "l", "data": data}],
        "edges": [{"source": "s", "target": "l"}],
    })
}

fn export(mode: &str, graph: Json) -> Json {
    json!({"kind": "app", "version": "0.6.0", "app": {"mode": mode, "name": "X"}, "workflow": {"graph": graph}})
}

#[tokio::test]
async fn the_input_query_is_the_question_where_nothing_else_gives_one() {
    let (end, answer) = (bare("end", &["query"]), bare("answer", &["query"]));
    for (file, more, expected) in [
        (end.clone(), json!({}), Some("Why?")),
        (export("workflow", end.clone()), json!({}), Some("Why?")),
        // A node has to read it.
        (bare("end", &["user_id"]), json!({}), None),
        // What the request says wins.
        (end.clone(), json!({"sys": {"query": "How?"}}), Some("How?")),
        (end.clone(), json!({"sys": {}}), Some("Why?")),
        (export("workflow", end), json!({"sys": {}}), None),
        // A chat has its own question, and that of an export is never an input.
        (answer.clone(), json!({}), Some("Why?")),
        (answer.clone(), json!({"query": "How?"}), Some("How?")),
        (export("advanced-chat", answer), json!({}), Some("")),
    ] {
        let mut body = json!({"workflow": file.to_string(), "inputs": {"query": "Why?"}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let sys = sys(&submitted(&body).await);
        assert_eq!(sys.get("query").and_then(Json::as_str), expected, "{body}");
    }
}

#[tokio::test]
async fn a_bare_graph_that_reads_the_id_of_a_conversation_has_one() {
    for (file, has) in [
        (bare("end", &["conversation_id"]), true),
        (bare("end", &["user_id"]), false),
        (export("workflow", bare("end", &["conversation_id"])), false),
    ] {
        let sys = sys(&submitted(&json!({"workflow": file.to_string(), "inputs": {}})).await);
        assert_eq!(sys.get("conversation_id").is_some_and(Json::is_string), has, "{file}: {sys}");
    }
}

#[tokio::test]
async fn what_a_host_says_about_a_run_is_kept_in_sys_and_in_the_hash_of_the_run() {
    let config = json!({
        "tenant_id": "t-1", "app_id": "a-1", "workflow_id": "w-1", "user_id": "ada", "user_from": "account",
        "invoke_from": "debugger", "call_depth": 2, "max_steps": 5, "max_execution_time": 7,
    });
    let beside = |body: &mut Json| body.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    let (mut top, mut inner) = (json!({"workflow": GREETER, "inputs": {"name": "Ada"}}), json!({}));
    inner.clone_from(&top);
    beside(&mut top);
    inner["config"] = config.clone();
    for body in [top, inner] {
        let new = submitted(&body).await;
        for name in ["tenant_id", "app_id", "workflow_id", "user_id", "user_from", "invoke_from"] {
            assert_eq!(hash_field(&new, name), config[name].as_str(), "{name}");
            assert_eq!(sys(&new)[name], config[name], "{name}");
        }
        assert_eq!((hash_field(&new, "user"), hash_field(&new, "call_depth")), (Some("ada"), Some("2")));
        let options: Json = serde_json::from_str(hash_field(&new, "options").unwrap()).unwrap();
        assert_eq!(
            (&options["max_steps"], &options["max_execution_time_s"]),
            (&json!(5), &json!(7)),
            "{options}"
        );
    }
    // Exact system variables win; so does the user of the request.
    let body = json!({"workflow": GREETER, "inputs": {"name": "Ada"}, "sys": {"invoke_from": "web-app"},
        "user": "eve", "user_id": "ada", "invoke_from": "debugger", "tenant_id": "t",
        "max_execution_steps": 9, "options": {"max_execution_time": 3}});
    let new = submitted(&body).await;
    assert_eq!(sys(&new), json!({"invoke_from": "web-app", "user_id": "ada", "tenant_id": "t"}));
    assert_eq!(hash_field(&new, "user"), Some("eve"));
    let options: Json = serde_json::from_str(hash_field(&new, "options").unwrap()).unwrap();
    assert_eq!(
        (&options["max_steps"], &options["max_execution_time_s"]),
        (&json!(9), &json!(3)),
        "{options}"
    );
}

#[tokio::test]
async fn what_a_host_says_is_checked() {
    let server = Server::start();
    for (key, value, message) in [
        ("tenant_id", json!(7), "tenant_id must be a string"),
        ("user_from", json!("u".repeat(256)), "user_from must have at most 255 characters"),
        (
            "max_execution_time",
            json!("soon"),
            "option max_execution_time_s in options must be a whole number",
        ),
        ("config", json!({"colour": "red"}), "unknown key colour"),
    ] {
        let mut body = json!({"workflow": GREETER, "inputs": {"name": "Ada"}});
        body[key] = value;
        let answer = server.post(ADMIN, "/api/v1/runs", &body).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert!(answer.json()["message"].as_str().unwrap().contains(message), "{}", answer.text);
    }
}
