//! Apps that a plugin calls: what they answer, how deep they go, what they cost, and that their runs end with the job that has
//! called them.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_tests::llm;
use tidemill_tests::wait::until;

use crate::asks::{ID, ask};
use crate::lab::{ENDED_WITHIN, Lab, asks, workflow};

/// A queue without workers: the jobs in it wait.
const UNSERVED: &str = "unserved";

/// A workflow file with one node between start and end, and its output.
fn app(name: &str, node: &Json, output: [&str; 2]) -> Json {
    let input = json!({"variable": "q", "label": "q", "type": "text-input", "required": true});
    let edge = |from: &str, to: &str| json!({"id": format!("{from}-{to}"), "source": from, "target": to, "sourceHandle": "source", "targetHandle": "target"});
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": name},
        "workflow": {"environment_variables": [], "conversation_variables": [], "graph": {
            "nodes": [
                {"id": "start", "data": {"type": "start", "title": "Start", "variables": [input]}},
                {"id": "m", "data": node},
                {"id": "end", "data": {"type": "end", "title": "End", "outputs": [{"variable": "hi", "value_selector": output}]}},
            ],
            "edges": [edge("start", "m"), edge("m", "end")],
        }},
    })
}

fn template(settings: &Json) -> Json {
    json!({
        "type": "template-transform", "title": "T", "template": "Hi {{ q }}",
        "variables": [{"variable": "q", "value_selector": ["start", "q"]}], "tidemill": settings,
    })
}

/// A chat that answers with the number of the turn and the question.
fn chat() -> Json {
    let mut file = app(
        "Talker",
        &json!({"type": "answer", "title": "A", "answer": "{{#sys.dialogue_count#}} {{#sys.query#}}"}),
        ["m", "answer"],
    );
    file["app"]["mode"] = json!("advanced-chat");
    let graph = &mut file["workflow"]["graph"];
    graph["nodes"][0]["data"]["variables"] = json!([]);
    graph["nodes"].as_array_mut().expect("nodes").truncate(2);
    graph["edges"].as_array_mut().expect("edges").truncate(1);
    file
}

async fn published(lab: &Lab, file: &Json) -> String {
    let made = lab.client.post("/api/v1/apps", &json!({"workflow": file.to_string()})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.body["id"].as_str().expect("an app has an id").to_owned()
}

/// The runs that a run has called.
async fn calls(lab: &Lab, run: &str) -> Vec<String> {
    let shown = lab.client.run(run).await;
    let calls = shown["calls"].as_array().into_iter().flatten();
    calls.filter_map(|call| call["run"].as_str().map(str::to_owned)).collect()
}

/// Waits until a run has called one that is not among `known`, and until that one waits for a worker.
async fn called(lab: &Lab, run: &str, known: &[String]) -> String {
    let called = until("a run to be called", ENDED_WITHIN, async || {
        let all = calls(lab, run).await;
        all.iter().find(|one| !known.contains(one)).cloned().ok_or_else(|| format!("{all:?}"))
    })
    .await;
    until("the called run to wait", ENDED_WITHIN, async || {
        let shown = lab.client.get(&format!("/api/v1/runs/{called}")).await;
        if shown.body["status"] == "running" { Ok(()) } else { Err(shown.text) }
    })
    .await;
    called
}

async fn stop(lab: &Lab, run: &str) {
    let stop = lab.client.post(&format!("/api/v1/runs/{run}/commands"), &json!({"command": "stop"})).await;
    assert_eq!(stop.status, 202, "{}", stop.text);
}

/// A called run must end because nothing waits for it.
async fn is_left(lab: &Lab, run: &str) {
    let ended = lab.client.ended_within(run, ENDED_WITHIN).await;
    assert_eq!(ended["status"], "stopped", "{ended}");
    assert!(ended["error"].as_str().unwrap_or_default().contains("no longer waits for it"), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_calls_apps_and_gets_their_answers() {
    let model = llm::rules(json!([{"match": {}, "reply": "The tide comes."}])).await;
    let Some(lab) = Lab::with_model(&[("run.call_depth_max", "2")], Some(&model)).await else { return };
    lab.install(&asks(), ID).await;
    let greeter = published(&lab, &app("Greeter", &template(&json!({})), ["m", "output"])).await;
    let given = json!({"app": greeter, "inputs": {"q": "Ada"}}).to_string();

    let ended = lab.run(&[ask("whole", "app", &given), ask("stream", "stream", &given)]).await;
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let whole = &ended["outputs"]["whole_json"][0];
    let data = &whole["data"];
    assert_eq!(
        (&data["status"], &data["outputs"]),
        (&json!("succeeded"), &json!({"hi": "Hi Ada"})),
        "{ended}"
    );
    let called = lab.client.run(whole["workflow_run_id"].as_str().expect("the id of the run")).await;
    assert_eq!((&called["app"], &called["caller"]["node"]), (&json!(greeter), &json!("whole")), "{called}");
    let stream = &ended["outputs"]["stream_json"][0];
    assert_eq!(stream["events"], json!(["workflow_started", "workflow_finished"]), "{ended}");
    assert_eq!(stream["last"]["data"]["outputs"], json!({"hi": "Hi Ada"}), "{ended}");
    assert_eq!(ended["calls_count"], 2, "{ended}");

    let incomplete = json!({"app": greeter, "inputs": {}}).to_string();
    let refused = lab.run(&[ask("app", "app", &incomplete)]).await;
    let said = refused["outputs"]["app_text"].as_str().unwrap_or_default();
    assert!(said.contains("q is required"), "{refused}");

    let about = lab.run(&[ask("about", "about", &greeter)]).await;
    let about = &about["outputs"]["about_json"][0]["data"];
    assert_eq!((&about["name"], &about["mode"]), (&json!("Greeter"), &json!("workflow")), "{about}");
    assert_eq!(about["user_input_form"][0]["text-input"]["variable"], "q", "{about}");

    // Two messages of one conversation, and one of another.
    let talker = published(&lab, &chat()).await;
    let talk = lab.run(&[ask("talk", "talk", &talker)]).await;
    let talk = &talk["outputs"]["talk_json"][0];
    assert_eq!((&talk["answers"], &talk["same"]), (&json!(["1 a", "2 b", "1 c"]), &json!(true)), "{talk}");
    let events = json!(["workflow_started", "message", "message_end", "workflow_finished"]);
    assert_eq!(talk["events"], events, "{talk}");

    // The cost of the called run counts once.
    let llm = json!({
        "type": "llm", "title": "L", "context": {"enabled": false}, "vision": {"enabled": false},
        "model": {"provider": "langgenius/openai/openai", "name": "gpt-4o", "mode": "chat", "completion_params": {}},
        "prompt_template": [{"role": "user", "text": "{{#start.q#}}"}],
    });
    let thinker = published(&lab, &app("Thinker", &llm, ["m", "text"])).await;
    let asked = json!({"app": thinker, "inputs": {"q": "When?"}}).to_string();
    let paid = lab.run(&[ask("app", "app", &asked)]).await;
    let data = &paid["outputs"]["app_json"][0]["data"];
    assert_eq!(data["outputs"]["hi"], "The tide comes.", "{paid}");
    assert!(data["total_tokens"].as_u64() > Some(0), "{paid}");
    assert_eq!(paid["total_tokens"], data["total_tokens"], "{paid}");

    // An app that calls itself through the plugin is bounded.
    let mut deeper = workflow(&[ask("deeper", "app", r#"{"app": "Deeper"}"#)]);
    deeper["app"]["name"] = json!("Deeper");
    published(&lab, &deeper).await;
    let run = lab.begin_with(&deeper).await;
    let ended = lab.client.ended_within(&run, ENDED_WITHIN).await;
    let inner = &ended["outputs"]["deeper_json"][0]["data"]["outputs"]["deeper_json"][0]["data"]["outputs"];
    let said = inner["deeper_text"].as_str().unwrap_or_default();
    assert!(said.contains("Max workflow call depth 2 reached."), "{ended}");
}

/// Publishes an app whose runs wait for a worker that does not exist, and returns the question for it.
async fn endless(lab: &Lab) -> String {
    let waits = template(&json!({"runs_on": "worker", "queue": UNSERVED}));
    let app = published(lab, &app("Waits", &waits, ["m", "output"])).await;
    json!({"app": app, "inputs": {"q": "Ada"}}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_called_run_is_stopped_with_the_run_that_has_called_it() {
    let Some(lab) = Lab::start(&[]).await else { return };
    lab.install(&asks(), ID).await;
    let given = endless(&lab).await;
    let run = lab.begin(&[ask("app", "app", &given)]).await;
    let stopped = called(&lab, &run, &[]).await;
    stop(&lab, &run).await;
    assert_eq!(lab.client.ended_within(&run, ENDED_WITHIN).await["status"], "stopped");
    is_left(&lab, &stopped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_called_run_is_stopped_when_its_worker_dies_and_the_next_worker_calls_another() {
    let Some(mut lab) = Lab::start(&[]).await else { return };
    lab.install(&asks(), ID).await;
    let given = endless(&lab).await;
    // The called run needs no worker, so the only job that a worker holds is that of the plugin.
    let run = lab.begin(&[ask("app", "app", &given)]).await;
    let first = called(&lab, &run, &[]).await;
    let at = until("a worker to hold the job", Duration::from_secs(30), async || {
        let workers = lab.client.get("/api/v1/workers").await.body;
        let rows = workers["data"].as_array().cloned().unwrap_or_default();
        let mut holders = rows.iter().filter(|worker| worker["jobs_held"] == 1);
        let (holder, another) = (holders.next().map(|worker| worker["name"].clone()), holders.next());
        let at = lab.workers.iter().position(|worker| holder == Some(Json::from(worker.consumer.as_str())));
        at.filter(|_| another.is_none()).ok_or_else(|| workers.to_string())
    })
    .await;
    lab.workers[at].process.kill();
    let second = called(&lab, &run, std::slice::from_ref(&first)).await;
    is_left(&lab, &first).await;
    let status = lab.client.get(&format!("/api/v1/runs/{second}")).await.body["status"].clone();
    assert_eq!(status, "running", "the run of the worker that continues is not stopped");
    stop(&lab, &run).await;
    is_left(&lab, &second).await;
    assert_eq!(calls(&lab, &run).await.len(), 2);
}
