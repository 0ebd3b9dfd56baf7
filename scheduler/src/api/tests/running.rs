use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;

use super::fixtures::{ADMIN, Server, config, frames, request, resume};
use crate::stopping::Stage;

/// Adds the events of a complete run of the greeter: four entries.
fn add_all_events(server: &Server, run: RunId) {
    let store = &server.store;
    let about = |id: &str, node: &str| json!({"id": id, "node_id": node});
    store.add_events(run, "1-0", 1, &[("graph_run_started", json!({}))]);
    let mut ended = about("e1", "start");
    ended["inputs"] = json!({"name": "Ada"});
    ended["outputs"] = json!({"name": "Ada", "sys.user_id": "u"});
    store.add_events(
        run,
        "1-1",
        2,
        &[("node_run_started", about("e1", "start")), ("node_run_succeeded", ended)],
    );
    let chunk = json!({"id": "e2", "node_id": "end", "selector": ["start", "name"], "chunk": "Ada"});
    store.add_events(run, "1-2", 4, &[("node_run_stream_chunk", chunk), ("graph_edge_skipped", json!({}))]);
    store.set(
        run,
        &[
            ("status", "succeeded"),
            ("started_at", "1700000000000000"),
            ("finished_at", "1700000001500000"),
            ("steps", "2"),
            ("tokens", "5"),
            ("outputs", r#"{"text":"Ada"}"#),
        ],
    );
    store.add_events(run, "2-0", 6, &[("graph_run_succeeded", json!({"outputs": {"text": "Ada"}}))]);
}

async fn submitted(server: &Server) -> RunId {
    loop {
        if let Some(new) = server.store.lock().created.last() {
            return new.id;
        }
        tokio::task::yield_now().await;
    }
}

fn names(text: &str) -> Vec<(Option<String>, String)> {
    let name = |data: &Json| data["event"].as_str().unwrap_or("ping").to_string();
    frames(text).iter().map(|(id, _, data)| (id.map(str::to_string), name(data))).collect()
}

fn expected(events: &[(&str, &str)]) -> Vec<(Option<String>, String)> {
    let id = |id: &str| (!id.is_empty()).then(|| id.to_string());
    events.iter().map(|(entry, event)| (id(entry), (*event).to_string())).collect()
}

#[tokio::test]
async fn a_blocking_request_returns_the_outputs_of_its_run() {
    let server = Server::start();
    let (_, key) = server.app().await;
    let body = json!({"inputs": {"name": "Ada"}, "user": "u"});
    let (answer, ()) = tokio::join!(server.post(&key, "/v1/workflows/run", &body), async {
        add_all_events(&server, submitted(&server).await);
    });
    assert_eq!(answer.status, 200, "{}", answer.text);
    let said = answer.json();
    let run = said["workflow_run_id"].clone();
    assert_eq!((&said["task_id"], &said["data"]["id"]), (&run, &run));
    let data = &said["data"];
    assert_eq!((&data["status"], &data["outputs"]), (&json!("succeeded"), &json!({"text": "Ada"})));
    assert_eq!(
        (&data["elapsed_time"], &data["total_steps"], &data["total_tokens"]),
        (&json!(1.5), &json!(2), &json!(5))
    );

    let detail = server.get(&key, &format!("/v1/workflows/run/{}", run.as_str().unwrap())).await.json();
    let inputs: Json = serde_json::from_str(detail["inputs"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&inputs["name"], &inputs["size"], &inputs["sys.user_id"]),
        (&json!("Ada"), &Json::Null, &json!("u"))
    );
    assert_eq!(
        (&detail["outputs"], &detail["finished_at"]),
        (&json!({"text": "Ada"}), &json!(1_700_000_001))
    );
}

#[tokio::test]
async fn a_stream_has_difys_frames_and_no_ids() {
    let server = Server::start();
    let (_, key) = server.app().await;
    let body = json!({"inputs": {"name": "Ada"}, "user": "u", "response_mode": "streaming"});
    let (answer, ()) = tokio::join!(server.post(&key, "/v1/workflows/run", &body), async {
        add_all_events(&server, submitted(&server).await);
    });
    assert_eq!(answer.headers["content-type"], "text/event-stream; charset=utf-8");
    let (begin, rest) = answer.text.split_at("event: ping\n\n".len());
    assert_eq!(begin, "event: ping\n\n");
    for frame in rest.split_terminator("\n\n") {
        assert!(frame.starts_with("data: {\"event\":\""), "{frame}");
    }
}

#[tokio::test]
async fn a_stream_starts_with_a_ping_and_on_request_the_last_event_of_each_entry_has_an_id() {
    let server = Server::start();
    let (_, key) = server.app().await;
    let body = json!({"inputs": {"name": "Ada"}, "user": "u", "response_mode": "streaming"});
    let path = "/v1/workflows/run?event_ids=true";
    let (answer, ()) = tokio::join!(server.post(&key, path, &body), async {
        add_all_events(&server, submitted(&server).await);
    });
    assert_eq!(answer.headers["content-type"], "text/event-stream; charset=utf-8");
    assert!(
        answer.text.starts_with("event: ping\n\nid: 1-0\ndata: {\"event\":\"workflow_started\""),
        "{}",
        answer.text
    );
    let all = [
        ("", "ping"),
        ("1-0", "workflow_started"),
        ("", "node_started"),
        ("1-1", "node_finished"),
        ("1-2", "text_chunk"),
        ("2-0", "workflow_finished"),
    ];
    assert_eq!(names(&answer.text), expected(&all));
    let finished = &frames(&answer.text)[5].2["data"];
    assert_eq!((&finished["total_steps"], &finished["elapsed_time"]), (&json!(2), &json!(1.5)));
}

#[tokio::test]
async fn invalid_inputs_are_an_event_in_streaming_mode() {
    let server = Server::start();
    let (_, key) = server.app().await;
    let body = json!({"inputs": {}, "user": "u", "response_mode": "streaming"});
    let answer = server.post(&key, "/v1/workflows/run", &body).await;
    let error = r#"{"event":"error","message":"name is required in input form","status":500}"#;
    assert_eq!((answer.status.as_u16(), answer.text), (200, format!("event: ping\n\ndata: {error}\n\n")));
    assert!(server.store.lock().created.is_empty());
}

#[tokio::test]
async fn a_stream_can_stay_open_after_an_error_as_on_dify() {
    let mut config = config();
    config.compat.error_event_closes_stream = false;
    let server = Server::with(config);
    let (_, key) = server.app().await;
    let body = json!({"inputs": {}, "user": "u", "response_mode": "streaming"});
    let (answer, ()) = tokio::join!(server.post(&key, "/v1/workflows/run", &body), async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        // Only a stop of the process, or long silence, ends the stream.
        server.shutdown.send_replace(Stage::Closing);
    });
    assert_eq!(names(&answer.text), expected(&[("", "ping"), ("", "error")]));
}

#[tokio::test]
async fn a_stream_can_be_resumed_after_any_id_without_gap_or_repeat() {
    let server = Server::start();
    let (_, key) = server.app().await;
    let (app, _) = (server.get(&key, "/v1/info").await, ());
    assert_eq!(app.status, 200);
    let body = json!({"inputs": {"name": "Ada"}, "user": "u"});
    tokio::join!(server.post(&key, "/v1/workflows/run", &body), async {
        add_all_events(&server, submitted(&server).await);
    });
    let run = submitted(&server).await;
    let path = format!("/v1/workflow/{run}/events?user=u");
    for (last, events) in [
        ("1-1", vec![("", "ping"), ("1-2", "text_chunk"), ("2-0", "workflow_finished")]),
        ("1-2", vec![("", "ping"), ("2-0", "workflow_finished")]),
        ("2-0", vec![("", "ping")]),
        (
            "0",
            vec![
                ("", "ping"),
                ("1-0", "workflow_started"),
                ("", "node_started"),
                ("1-1", "node_finished"),
                ("1-2", "text_chunk"),
                ("2-0", "workflow_finished"),
            ],
        ),
    ] {
        let answer = server.ask(resume(&key, &path, last)).await;
        assert_eq!(names(&answer.text), expected(&events), "after {last}");
    }
    // Without an id, as on Dify: only the last event, without a ping.
    assert_eq!(names(&server.get(&key, &path).await.text), expected(&[("", "workflow_finished")]));
    assert_eq!(server.get(&key, &path.replace("user=u", "user=v")).await.status, 404);
    assert_eq!(server.ask(resume(&key, &path, "nonsense")).await.status, 400);
}

#[tokio::test]
async fn a_late_client_gets_a_snapshot_or_all_events_and_with_event_ids_only_new_ones() {
    for (query, before) in [
        (
            "&include_state_snapshot=true",
            vec![("", "workflow_started"), ("", "node_started"), ("", "node_finished")],
        ),
        (
            "&include_state_snapshot=True&event_ids=true",
            vec![("", "workflow_started"), ("", "node_started"), ("1-1", "node_finished")],
        ),
        ("", vec![("", "workflow_started"), ("", "node_started"), ("", "node_finished")]),
        ("&event_ids=true", vec![]),
    ] {
        let server = Server::start();
        let (id, key) = server.app().await;
        let run = server.run(&id).await;
        let about = json!({"id": "e1", "node_id": "start"});
        server.store.add_events(run, "1-0", 1, &[("graph_run_started", json!({}))]);
        server.store.add_events(
            run,
            "1-1",
            2,
            &[("node_run_started", about.clone()), ("node_run_succeeded", about)],
        );
        let path = format!("/v1/workflow/{run}/events?user=u{query}");
        let (answer, ()) = tokio::join!(server.get(&key, &path), async {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            server.store.add_events(run, "2-0", 4, &[("graph_run_failed", json!({"error": "boom"}))]);
        });
        let mut events = vec![("", "ping")];
        events.extend(before);
        events.push((if query.contains("event_ids") { "2-0" } else { "" }, "workflow_finished"));
        assert_eq!(names(&answer.text), expected(&events), "{query}");
        if query.contains("snapshot") {
            let finished = frames(&answer.text)[3].2["data"].clone();
            assert_eq!((&finished["outputs"], finished.get("outputs_truncated")), (&Json::Null, None));
        }
    }
}

#[tokio::test]
async fn only_the_app_of_a_run_can_stop_it() {
    let server = Server::start();
    let (id, key) = server.app().await;
    let (_, stranger) = server.app().await;
    let run = server.run(&id).await;
    let path = format!("/v1/workflows/tasks/{run}/stop");
    for (key, path, stops) in
        [(&stranger, path.as_str(), 0), (&key, "/v1/workflows/tasks/x/stop", 0), (&key, &path, 1)]
    {
        let answer = server.post(key, path, &json!({"user": "u"})).await;
        assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({"result": "success"})));
        assert_eq!(server.store.lock().sent.len(), stops, "{path}");
    }
    let path = format!("/v1/workflows/run/{run}");
    assert_eq!(server.get(&stranger, &path).await.status, 404);
    assert_eq!(server.get(&key, &path).await.status, 200);
}

#[tokio::test]
async fn a_run_continues_when_its_client_leaves() {
    let server = Server::start();
    let (_, key) = server.app().await;
    let body = json!({"inputs": {"name": "Ada"}, "user": "u", "response_mode": "streaming"});
    drop(server.send(request("POST", &key, "/v1/workflows/run", &body.to_string())).await);
    assert_eq!(server.store.lock().created.len(), 1);
    assert!(server.store.lock().sent.is_empty());
}

#[tokio::test]
async fn a_stopping_process_tells_a_waiting_client_where_to_find_the_run() {
    let server = Server::start();
    let (_, key) = server.app().await;
    let body = json!({"inputs": {"name": "Ada"}, "user": "u"});
    let (answer, ()) = tokio::join!(server.post(&key, "/v1/workflows/run", &body), async {
        submitted(&server).await;
        server.shutdown.send(Stage::Closing).unwrap();
    });
    assert_eq!(answer.status, 503);
    assert!(answer.json()["message"].as_str().unwrap().contains("/v1/workflows/run/"));
}

#[tokio::test]
async fn a_stream_that_is_longer_than_the_grace_period_ends_with_a_comment_and_on_our_own_api_with_an_event()
{
    let server = Server::start();
    let (id, key) = server.app().await;
    let run = server.run(&id).await;
    server.store.add_events(run, "1-0", 1, &[("graph_run_started", json!({}))]);
    let (dify, own) = (format!("/v1/workflow/{run}/events?user=u"), format!("/api/v1/runs/{run}/events"));
    let (dify, own, ()) = tokio::join!(server.get(&key, &dify), server.get(ADMIN, &own), async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        server.shutdown.send(Stage::Closing).unwrap();
    });
    let comment = ": this scheduler stops; the run goes on, and its events go on after Last-Event-ID\n\n";
    assert!(dify.text.starts_with("event: ping\n\ndata: {\"event\":\"workflow_started\""), "{}", dify.text);
    assert!(dify.text.ends_with(&format!("}}\n\n{comment}")), "{}", dify.text);
    let event = format!(r#"event: reconnect{}data: {{"type":"reconnect","run_id":"{run}"}}"#, "\n");
    let (_, end) = own.text.split_once(comment).unwrap();
    assert_eq!(end, format!("{event}\n\n"));
}
