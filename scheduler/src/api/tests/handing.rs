//! Tests of the runs whose files the operator hands to a run: by a submission, by a snapshot, and to a second try; and of snapshots
//! that are refused.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::clock::SystemClock;
use tidemill_common::ids::{FramePath, NodeId, RunId, ShardId};
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::store::{RunOwner, Runs};

use super::fixtures::{ADMIN, Server, config};
use crate::submit::Retry;

fn file_of(run: RunId) -> Json {
    json!({"reference": format!("runs/{run}/{}", "0".repeat(32))})
}

async fn handed(store: &MemoryStore, run: RunId) -> BTreeSet<RunId> {
    let fields = store.run_fields(run).await.unwrap().unwrap();
    let runs = fields.get(RunOwner::HANDED).map(String::as_str).unwrap_or_default();
    runs.split(' ').filter_map(|id| id.parse().ok()).collect()
}

#[tokio::test]
async fn files_that_the_operator_hands_over_stay_so_in_an_import_and_in_a_second_try() {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let server = Server::over(config(), store.clone(), Arc::default());
    let given = [1, 2].map(|_| RunId::generate(ShardId(0)));
    let graph = json!({
        "nodes": [{"id": "s", "data": {"type": "start", "title": "S", "variables": []}},
            {"id": "e", "data": {"type": "end", "title": "E", "outputs": []}}],
        "edges": [{"source": "s", "target": "e"}],
    });
    let body = json!({"workflow": graph.to_string(), "inputs": {"f": file_of(given[0])}, "sys": {"files": [file_of(given[1])]}});
    let id = |text: &Json| text["id"].as_str().unwrap().parse::<RunId>().unwrap();
    let submitted = server.post(ADMIN, "/api/v1/runs", &body).await;
    assert_eq!(submitted.status, 201, "{}", submitted.text);
    let submitted = id(&submitted.json());
    assert_eq!(handed(&store, submitted).await, BTreeSet::from(given));

    let snapshot = server.get(ADMIN, &format!("/api/v1/runs/{submitted}/snapshot")).await;
    let imported = server.post(ADMIN, "/api/v1/runs/import", &snapshot.json()).await;
    assert_eq!(imported.status, 201, "{}", imported.text);
    let with_its_own = BTreeSet::from([given[0], given[1], submitted]);
    assert_eq!(handed(&store, id(&imported.json())).await, with_its_own);

    let run = RunId::generate(submitted.shard());
    let retry = Retry { run, of: submitted, from: (FramePath::root(), NodeId::from("e")) };
    server.state.submitter.retry(&snapshot.text, &retry).await.unwrap();
    assert_eq!(handed(&store, run).await, BTreeSet::from(given));
}

#[tokio::test]
async fn a_snapshot_whose_state_cannot_be_read_is_refused_and_begins_no_run() {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let server = Server::over(config(), store.clone(), Arc::default());
    let (app, _) = server.app().await;
    let run = server.run(&app).await;
    let whole = server.get(ADMIN, &format!("/api/v1/runs/{run}/snapshot")).await.json();
    for wrong in [json!({"n:x/start": null}), json!({"n:x/start": 1e300}), json!({"nothing": 1})] {
        let mut snapshot = whole.clone();
        snapshot["state"] = wrong.clone();
        let answer = server.post(ADMIN, "/api/v1/runs/import", &snapshot).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["code"]),
            (400, &json!("invalid_param")),
            "{wrong}"
        );
    }
    let mut contradicts = whole.clone();
    (contradicts["status"], contradicts["state"]) = (json!("running"), json!({}));
    let answer = server.post(ADMIN, "/api/v1/runs/import", &contradicts).await;
    assert!(
        answer.status == 400 && answer.text.contains("INV-5: a running run has an open node"),
        "{}",
        answer.text
    );
    let runs = server.get(ADMIN, "/api/v1/runs").await.json();
    assert_eq!(runs["data"].as_array().map(Vec::len), Some(1), "{runs}");
}
