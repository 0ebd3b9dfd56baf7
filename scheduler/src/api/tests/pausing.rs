//! Tests of runs that wait for a person, in Dify's API.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;

use super::fixtures::{ADMIN, Server, frames};

const FORM: &str = r#"{"pause_id":"p","kind":"human_input","node_id":"end","node_execution_id":"8b6f3a52-1c1f-5c11-9c2e-0a64d1a6f1e2","node_title":"Finish","content":"Fine? {{#$output.note#}}","inputs":[{"type":"paragraph","output_variable_name":"note"}],"actions":[{"id":"yes","title":"Yes","button_style":"default"}],"defaults":{"note":7},"opened_at":"1700000000000000","expires_at":"9999999999000000","status":"pending"}"#;

/// Adds the events of the greeter's run up to a pause.
fn add_pause_events(server: &Server, run: RunId) {
    let store = &server.store;
    let about = |id: &str, node: &str| json!({"id": id, "node_id": node});
    let form: Json = serde_json::from_str(FORM).unwrap();
    store.add_events(run, "1-0", 1, &[("graph_run_started", json!({}))]);
    store.add_events(
        run,
        "1-1",
        2,
        &[("node_run_started", about("e1", "start")), ("node_run_succeeded", about("e1", "start"))],
    );
    let mut asks = about("e2", "end");
    asks["pause"] = form.clone();
    store.add_events(
        run,
        "1-2",
        4,
        &[("node_run_started", about("e2", "end")), ("node_run_pause_requested", asks)],
    );
    store.lock().pauses.entry(run).or_default().insert("p".into(), FORM.into());
    store.set(run, &[("status", "paused"), ("started_at", "1700000000000000")]);
    let reason =
        json!({"TYPE": "hitl_required", "session_id": "p", "node_id": "end", "node_title": "Finish"});
    store.add_events(
        run,
        "1-3",
        6,
        &[("graph_run_paused", json!({"reasons": [reason], "pauses": [form], "outputs": {}}))],
    );
}

fn add_rest_events(server: &Server, run: RunId) {
    let filled = json!({"id": "e2", "node_id": "end", "rendered_content": "Fine? ok", "action_id": "yes",
        "action_text": "Yes", "submitted_data": {"note": "ok"}});
    let store = &server.store;
    store.set(run, &[("status", "running")]);
    store.add_events(
        run,
        "2-0",
        7,
        &[
            ("graph_run_started", json!({"reason": "resumption"})),
            ("node_run_human_input_form_filled", filled),
        ],
    );
    store.set(run, &[("status", "succeeded")]);
    store.add_events(run, "2-1", 9, &[("graph_run_succeeded", json!({"outputs": {}}))]);
}

async fn submitted(server: &Server) -> RunId {
    loop {
        if let Some(new) = server.store.lock().created.last() {
            return new.id;
        }
        tokio::task::yield_now().await;
    }
}

fn names(text: &str) -> Vec<String> {
    frames(text).iter().skip(1).map(|(_, _, data)| data["event"].as_str().unwrap().to_string()).collect()
}

const TO_THE_PAUSE: [&str; 6] = [
    "workflow_started",
    "node_started",
    "node_finished",
    "node_started",
    "human_input_required",
    "workflow_paused",
];

#[tokio::test]
async fn a_blocking_request_returns_the_form_that_its_run_waits_for() {
    let server = Server::start();
    let (_, key) = server.app().await;
    let body = json!({"inputs": {"name": "Ada"}, "user": "u"});
    let (answer, ()) = tokio::join!(server.post(&key, "/v1/workflows/run", &body), async {
        add_pause_events(&server, submitted(&server).await);
    });
    assert_eq!(answer.status, 200, "{}", answer.text);
    let data = answer.json()["data"].clone();
    assert_eq!((&data["status"], &data["paused_nodes"]), (&json!("paused"), &json!(["end"])));
    assert_eq!(
        (&data["outputs"], &data["error"], &data["finished_at"]),
        (&json!({}), &Json::Null, &Json::Null)
    );
    let reason = &data["reasons"][0];
    assert_eq!((&reason["TYPE"], &reason["form_id"]), (&json!("human_input_required"), &json!("p")));
    assert_eq!(reason["form_token"].as_str().map(str::len), Some(64));
    assert_eq!(reason["expiration_time"], 9_999_999_999_i64);
}

#[tokio::test]
async fn a_stream_ends_when_the_run_waits() {
    let server = Server::start();
    let (_, key) = server.app().await;
    let body = json!({"inputs": {"name": "Ada"}, "user": "u", "response_mode": "streaming"});
    let (answer, ()) = tokio::join!(server.post(&key, "/v1/workflows/run", &body), async {
        add_pause_events(&server, submitted(&server).await);
    });
    assert_eq!(names(&answer.text), TO_THE_PAUSE);
}

#[tokio::test]
async fn a_snapshot_of_a_waiting_run_contains_its_form() {
    let query = "user=u&include_state_snapshot=true";
    for (query, goes_on) in [(query.to_string(), false), (format!("{query}&continue_on_pause=true"), true)] {
        let server = Server::start();
        let (id, key) = server.app().await;
        let run = server.run(&id).await;
        add_pause_events(&server, run);
        let path = format!("/v1/workflow/{run}/events?{query}");
        let (answer, ()) = tokio::join!(server.get(&key, &path), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            if goes_on {
                add_rest_events(&server, run);
            }
        });
        let mut expected = vec![
            "workflow_started",
            "node_started",
            "node_finished",
            "node_started",
            "node_finished",
            "human_input_required",
            "workflow_paused",
        ];
        if goes_on {
            expected.extend(["workflow_started", "human_input_form_filled", "workflow_finished"]);
        }
        assert_eq!(names(&answer.text), expected, "{query}");
        let told = frames(&answer.text);
        assert_eq!(told[5].2["data"]["status"], "paused", "a node that waits");
        if goes_on {
            assert_eq!(told[8].2["data"]["reason"], "resumption");
            assert_eq!(told[9].2["data"]["submitted_data"], json!({"note": "ok"}));
        }
    }
}

#[tokio::test]
async fn a_stream_of_a_run_that_continued_goes_beyond_its_pause() {
    let server = Server::start();
    let (id, key) = server.app().await;
    let run = server.run(&id).await;
    add_pause_events(&server, run);
    add_rest_events(&server, run);
    let path = format!("/v1/workflow/{run}/events?user=u");
    let answer = server.ask(super::fixtures::resume(&key, &path, "0")).await;
    assert_eq!(names(&answer.text).last().map(String::as_str), Some("workflow_finished"));
}

#[tokio::test]
async fn a_client_that_follows_a_waiting_run_gets_its_form_again_and_then_what_comes_after_the_answer() {
    let server = Server::start();
    let (id, key) = server.app().await;
    let run = server.run(&id).await;
    add_pause_events(&server, run);
    let path = format!("/v1/workflow/{run}/events?user=u");
    let (answer, ()) = tokio::join!(server.get(&key, &path), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        add_rest_events(&server, run);
    });
    let mut expected = TO_THE_PAUSE.to_vec();
    expected.extend(["workflow_started", "human_input_form_filled", "workflow_finished"]);
    assert_eq!(names(&answer.text), expected);
}

#[tokio::test]
async fn a_client_that_has_answered_a_form_gets_all_events_without_the_answered_form() {
    let server = Server::start();
    let (id, key) = server.app().await;
    let run = server.run(&id).await;
    add_pause_events(&server, run);
    let answered = r#"{"action":"yes","answered_at":"1700000000000000"}"#;
    server.store.lock().pauses.entry(run).or_default().insert("p:answer".into(), answered.into());
    let path = format!("/v1/workflow/{run}/events?user=u");
    let (answer, ()) = tokio::join!(server.get(&key, &path), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        add_rest_events(&server, run);
    });
    let mut expected = TO_THE_PAUSE[..4].to_vec();
    expected.extend(["workflow_started", "human_input_form_filled", "workflow_finished"]);
    assert_eq!(names(&answer.text), expected);
}

#[tokio::test]
async fn a_form_is_shown_and_can_be_answered_once() {
    let server = Server::start();
    let (id, key) = server.app().await;
    let (_, stranger) = server.app().await;
    let run = server.run(&id).await;
    add_pause_events(&server, run);
    let listed = server.get(ADMIN, &format!("/api/v1/runs/{run}/pauses")).await.json();
    let token = listed["data"][0]["form_token"].as_str().unwrap().to_string();
    let path = format!("/v1/form/human_input/{token}");
    let shown = server.get(&key, &path).await;
    let expected = json!({
        "form_content": "Fine? {{#$output.note#}}",
        "inputs": [{"type": "paragraph", "output_variable_name": "note"}],
        "resolved_default_values": {"note": "7"},
        "user_actions": [{"id": "yes", "title": "Yes", "button_style": "default"}],
        "expiration_time": 9_999_999_999_i64,
    });
    assert_eq!((shown.status.as_u16(), shown.json()), (200, expected));
    let wrong_token = format!("{path}0").replace("/human_input/", "/human_input/0");
    for (key, path) in [(&stranger, &path), (&key, &wrong_token)] {
        let answer = server.get(key, path).await;
        let code = json!("not_found");
        assert_eq!((answer.status.as_u16(), &answer.json()["code"]), (404, &code), "{path}");
    }
    let good = json!({"action": "yes", "inputs": {"note": "ok"}, "user": "v"});
    for (body, status, code, message) in [
        (json!({"action": "yes", "inputs": {}}), 400, "invalid_param", "Arg user"),
        (json!({"action": "no", "inputs": {}, "user": "v"}), 400, "invalid_form_data", "Invalid action: no"),
        (
            json!({"action": "yes", "inputs": {}, "user": "v"}),
            400,
            "invalid_form_data",
            "Missing required inputs: note",
        ),
    ] {
        let answer = server.post(&key, &path, &body).await;
        let said = answer.json();
        assert_eq!((answer.status.as_u16(), &said["code"]), (status, &json!(code)), "{said}");
        assert!(said["message"].as_str().unwrap().starts_with(message), "{said}");
    }
    let answer = server.post(&key, &path, &good).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({})));
    for answer in [server.post(&key, &path, &good).await, server.get(&key, &path).await] {
        let code = json!("human_input_form_submitted");
        let message = json!("This form has already been submitted by another user, form_id=p");
        assert_eq!((answer.status.as_u16(), &answer.json()["code"]), (412, &code));
        assert_eq!(answer.json()["message"], message);
    }
    assert_eq!(server.store.lock().sent.len(), 1);
}

#[tokio::test]
async fn a_waiting_run_can_be_stopped() {
    let server = Server::start();
    let (id, key) = server.app().await;
    let run = server.run(&id).await;
    add_pause_events(&server, run);
    let path = format!("/v1/workflows/tasks/{run}/stop");
    assert_eq!(server.post(&key, &path, &json!({"user": "u"})).await.status, 200);
    let kinds: Vec<String> = server.store.lock().sent.iter().map(|(_, kind, _)| kind.clone()).collect();
    assert_eq!(kinds, ["stop"]);
}

/// A pause of another kind than a form.
fn question(kind: &str, changes: Json) -> String {
    let mut pause = json!({
        "pause_id": "p", "kind": kind, "node_id": "end", "node_title": "Finish", "status": "pending",
        "node_execution_id": "8b6f3a52-1c1f-5c11-9c2e-0a64d1a6f1e2", "opened_at": "1700000000000000", "prompt": "How many?",
    });
    pause.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap());
    pause.to_string()
}

async fn asked(pause: String) -> (Server, RunId, String, String) {
    let server = Server::start();
    let (id, key) = server.app().await;
    let run = server.run(&id).await;
    add_pause_events(&server, run);
    server.store.lock().pauses.entry(run).or_default().insert("p".into(), pause);
    (server, run, format!("/api/v1/runs/{run}/pauses/p/answer"), key)
}

#[tokio::test]
async fn cx_a19_a_value_must_fit_the_schema_or_the_pause_stays_open() {
    let (server, run, path, _) =
        asked(question("user_interaction", json!({"schema": {"type": "integer"}}))).await;
    for (body, code) in [
        (json!({"input": "abc"}), "pause_input_invalid"),
        (json!({}), "pause_input_invalid"),
        (json!({"input": 7, "cancel": true}), "invalid_param"),
        (json!({"input": 7, "action": "submit"}), "invalid_param"),
        (json!({"cancel": "yes"}), "invalid_param"),
        (json!({"input": 7, "said": 1}), "invalid_param"),
    ] {
        let answer = server.post(ADMIN, &path, &body).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["code"]), (400, &json!(code)), "{body}");
    }
    let wrong = server.post(ADMIN, &path, &json!({"input": "abc"})).await.json();
    assert_eq!(wrong["errors"], json!(["'abc' is not of type 'integer'"]));
    let listed = server.get(ADMIN, &format!("/api/v1/runs/{run}/pauses")).await.json();
    assert_eq!(
        (&listed["data"][0]["status"], &listed["data"][0]["prompt"]),
        (&json!("pending"), &json!("How many?"))
    );
    let taken = server.post(ADMIN, &path, &json!({"input": 7, "key": "k"})).await;
    assert_eq!(taken.status.as_u16(), 202);
    let (_, kind, fact) = server.store.lock().sent[0].clone();
    let fact: Json = serde_json::from_str(&fact).unwrap();
    assert_eq!((kind.as_str(), fact), ("answer", json!({"pause": "p", "input": 7})));
    assert_eq!(server.post(ADMIN, &path, &json!({"input": 7, "key": "k"})).await.status.as_u16(), 202);
    let other = server.post(ADMIN, &path, &json!({"input": 7, "key": "l"})).await;
    assert_eq!((other.status.as_u16(), &other.json()["code"]), (409, &json!("pause_already_answered")));
}

#[tokio::test]
async fn a_withdrawn_pause_is_shown_as_cancelled_and_cannot_be_answered() {
    let (server, run, path, _) = asked(question("confirm", json!({}))).await;
    assert_eq!(server.post(ADMIN, &path, &json!({"cancel": true, "key": "k"})).await.status.as_u16(), 202);
    let listed = server.get(ADMIN, &format!("/api/v1/runs/{run}/pauses")).await.json();
    assert_eq!(listed["data"][0]["status"], "cancelled");
    assert_eq!(server.post(ADMIN, &path, &json!({"cancel": true, "key": "k"})).await.status.as_u16(), 202);
    let late = server.post(ADMIN, &path, &json!({"input": true})).await;
    assert_eq!((late.status.as_u16(), &late.json()["code"]), (410, &json!("pause_cancelled")));
}

#[tokio::test]
async fn clients_that_know_only_forms_can_answer_every_kind_of_pause() {
    let approval = json!({"schema": {"type": "object", "required": ["approved"], "properties": {
        "approved": {"type": "boolean"}, "comment": {"type": "string"}}}});
    let (server, run, _, key) = asked(question("user_interaction", approval)).await;
    let listed = server.get(ADMIN, &format!("/api/v1/runs/{run}/pauses")).await.json();
    let path = format!("/v1/form/human_input/{}", listed["data"][0]["form_token"].as_str().unwrap());
    let shown = server.get(&key, &path).await.json();
    let ids: Vec<&Json> =
        shown["user_actions"].as_array().unwrap().iter().map(|action| &action["id"]).collect();
    assert_eq!(
        (&shown["form_content"], ids),
        (&json!("How many?"), vec![&json!("approved"), &json!("rejected")])
    );
    let wrong = server.post(&key, &path, &json!({"action": "perhaps", "inputs": {}, "user": "u"})).await;
    assert_eq!((wrong.status.as_u16(), &wrong.json()["code"]), (400, &json!("invalid_form_data")));
    let good = server
        .post(&key, &path, &json!({"action": "rejected", "inputs": {"comment": "no"}, "user": "u"}))
        .await;
    assert_eq!(good.status.as_u16(), 200);
    let fact: Json = serde_json::from_str(&server.store.lock().sent[0].2).unwrap();
    assert_eq!(fact["input"], json!({"approved": false, "comment": "no"}));
}
