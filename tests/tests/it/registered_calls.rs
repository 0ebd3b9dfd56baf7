//! Registered Calls on real processes: the requests that they receive, and how often.

use serde_json::{Value as Json, json};
use tidemill_tests::llm;
use tidemill_tests::outside::Outside;

use super::called::file;
use super::library::keep;
use super::steps::{answer, keep_profile, paused, pending, submit};
use super::system;

/// The operations that a Call at `/calls/greet` received since the last time.
pub(super) fn operations(outside: &Outside) -> Vec<String> {
    let read = |body: &str| serde_json::from_str::<Json>(body).unwrap_or_default()["operation"].clone();
    let calls = outside.take();
    calls.iter().filter_map(|call| read(&call.body).as_str().map(str::to_owned)).collect()
}

/// A Call that needs a city.
fn greet(outside: &Outside) -> Json {
    json!({
        "info": {"en": {"name": "Greet", "description": "Says hello"}}, "streaming": true,
        "operations": ["init", "exec"], "enable_filling": true,
        "input_schema": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
        "transport": {"type": "http", "url": format!("{}/calls/greet", outside.base_url)},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn se_34_a_call_receives_the_data_of_its_run() {
    let model = llm::rules(json!([{"match": {}, "reply": "{}"}])).await;
    let outside = Outside::start().await;
    let system =
        system(&[("scheduler.secret_key", "open sesame, open wide"), ("http.allow", "127.0.0.1")], &model)
            .await;
    let client = &system.client;
    keep(client, "calls", "greet", greet(&outside)).await;
    let node = json!({"type": "call", "title": "G", "node": "greet", "params": {"city": "Rome"}, "question": "{{#start.q#}}"});
    let nodes = [("first", json!({"type": "empty", "title": "First"})), ("g", node)];
    let text = file("Greeting", &["q"], &nodes, &[]);
    let app = client.post("/api/v1/apps", &json!({"workflow": text})).await;
    let app = app.body["id"].as_str().expect("it is registered").to_owned();
    let body = json!({"app": app, "inputs": {"q": "who is there?"}, "user": "ada"});
    let run = client.submit(&body).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let init = outside.take().remove(0);
    let told = serde_json::from_str::<Json>(&init.body).expect("JSON")["call_vars"].clone();
    let ids = &told["ids"];
    for (name, expected) in [
        ("task_id", run.as_str()),
        ("session_id", &run),
        ("executor_id", &app),
        ("app_id", &app),
        ("step_id", "g"),
        ("user", "ada"),
    ] {
        assert_eq!(ids[name], expected, "{name}: {told:#}");
    }
    assert!(ids["execution_id"].as_str().is_some_and(|id| id.len() == 36), "{told:#}");
    assert_eq!((&told["history_order"], &told["question"]), (&json!(["first"]), &json!("who is there?")));
    assert_eq!(told["history"].as_array().map(Vec::len), Some(1), "{told:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn se_36_the_input_of_a_call_is_requested_once_however_often_its_job_is_delivered() {
    let model = llm::rules(json!([{"match": {}, "reply": "{}"}])).await;
    let outside = Outside::start().await;
    let settings = [
        ("scheduler.secret_key", "open sesame, open wide"),
        ("worker.providers_refresh_ms", "0"),
        ("http.allow", "127.0.0.1"),
    ];
    let system = system(&settings, &model).await;
    let client = &system.client;
    keep_profile(client, &model).await;
    keep(client, "calls", "greet", greet(&outside)).await;
    let node = |more: Json| {
        let mut node = json!({"type": "call", "title": "G", "node": "greet", "params": {"who": "you"}});
        node.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
        file("Greeting", &["q"], &[("g", node)], &[("said", ["g", "text"])])
    };
    // No value is missing.
    let run = submit(client, &node(json!({"params": {"who": "you", "city": "Rome"}})), json!({})).await;
    assert_eq!(client.ended(&run).await["status"], "succeeded");
    assert_eq!(operations(&outside), ["init", "exec"]);
    // A person is asked twice: for approval, and for the missing value. Each time the job is parked.
    let asks = node(json!({"require_confirm": {"risk": "low", "reason": "it says something"}}));
    let run = submit(client, &asks, json!({})).await;
    let shown = paused(client, &run).await;
    answer(client, &run, &pending(&shown), json!({"city": "Oslo"})).await;
    let shown = paused(client, &run).await;
    let asked = pending(&shown);
    assert_eq!(asked["input"], json!({"who": "you", "city": "Oslo"}), "{asked:#}");
    assert_eq!(operations(&outside), ["init"]);
    answer(client, &run, &asked, json!(true)).await;
    let ended = client.ended(&run).await;
    assert_eq!((&ended["status"], &ended["outputs"]), (&json!("succeeded"), &json!({"said": "noted"})));
    assert_eq!(operations(&outside), ["exec"]);
}
