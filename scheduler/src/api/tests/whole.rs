//! Tests with runs that are really executed: the in-memory store and the engine, with commits made by the test.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::graph::GraphHash;
use tidemill_common::ids::{EntryId, RunId};
use tidemill_common::machine::{Moment, step};
use tidemill_common::registry::plugins::InstalledPlugin;
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::store::{CatalogKind, Commit, Expected, ListRuns, PutEntry, Runs, Shards};
use tidemill_common::wire::commit::RunWrite;
use tidemill_common::wire::{fact, state};

use super::fixtures::{ADMIN, Server, config, frames, resume};
use crate::stopping::Stage;

/// Applies the facts of a run's shard, one commit each, until the run has ended.
pub(super) async fn drive(server: &Server, store: &MemoryStore, run: RunId) {
    let lease = Duration::from_secs(5);
    let mut owner = store.claim(run.shard(), "tests", lease).await.unwrap().unwrap();
    let mut reader = store.reader(run.shard()).await.unwrap();
    let (mut number, mut cursor) = (owner.claim().commit, owner.claim().cursor);
    loop {
        for raw in reader.read(cursor, 1, Duration::from_millis(20)).await.unwrap() {
            let at_rest = store.load_run(run).await.unwrap().unwrap();
            let hash = GraphHash(at_rest.run["version"].as_str().into());
            let workflow = server.state.workflows.of_run(store, run.shard(), &hash).await.unwrap();
            let mut state = state::load(run, workflow.graph.clone(), at_rest).unwrap();
            let fact = fact::parse(&raw.kind, &raw.body, &workflow.graph).unwrap();
            number += 1;
            cursor = raw.entry;
            let mut changes =
                step(&mut state, fact, Moment { now: SystemClock.now(), commit: number, jobs: 0 });
            let writes = vec![RunWrite::new(&state, &mut changes)];
            owner
                .commit(&Commit { number, cursor: Some(cursor), writes, ..Commit::default() })
                .await
                .unwrap();
            if state.status.is_over() {
                return;
            }
        }
    }
}

async fn submitted(store: &MemoryStore) -> RunId {
    loop {
        let newest = store.list_runs(&ListRuns { limit: 1, ..ListRuns::default() }).await.unwrap();
        match newest.first() {
            Some(run) => return *run,
            None => tokio::task::yield_now().await,
        }
    }
}

fn events(text: &str) -> Vec<(Option<EntryId>, Json)> {
    frames(text).into_iter().map(|(id, _, data)| (id.map(|id| id.parse().unwrap()), data)).collect()
}

#[tokio::test]
async fn a_run_is_streamed_completely_and_from_each_id_exactly_the_rest() {
    let store = MemoryStore::new(Arc::new(SystemClock));
    let server = Server::over(config(), Arc::new(store.clone()), Arc::default());
    let (_, key) = server.app().await;
    // Above 1 KiB of text, and below the limit of inline values, so that the engine evaluates all of it itself.
    let name = "y".repeat(5_000);
    let body = json!({"inputs": {"name": name}, "user": "u", "response_mode": "streaming"});
    let (answer, ()) = tokio::join!(server.post(&key, "/v1/workflows/run", &body), async {
        drive(&server, &store, submitted(&store).await).await;
    });
    let told = events(&answer.text);
    let names: Vec<&str> = told.iter().filter_map(|(_, data)| data["event"].as_str()).collect();
    assert_eq!(
        (names.first(), names.last()),
        (Some(&"workflow_started"), Some(&"workflow_finished")),
        "{names:?}"
    );
    let text: String = told.iter().filter_map(|(_, data)| data["data"]["text"].as_str()).collect();
    assert_eq!(text, name);
    let finished = &told.last().unwrap().1["data"];
    assert_eq!((&finished["outputs"]["text"], &finished["total_steps"]), (&json!(name), &json!(2)));
    assert!(!answer.text.contains("hunter2-and-more"), "secrets are masked");

    let run = submitted(&store).await;
    let path = format!("/v1/workflow/{run}/events?user=u");
    for (at, (id, _)) in told.iter().enumerate() {
        let Some(id) = id else { continue };
        let left = events(&server.ask(resume(&key, &path, &id.to_string())).await.text);
        assert_eq!(left[1..], told[at + 1..], "after {id}");
    }
    let own = server.get(ADMIN, &format!("/api/v1/runs/{run}/events")).await;
    let seqs: Vec<u64> = events(&own.text).iter().map(|(_, data)| data["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert!(!own.text.contains("hunter2-and-more"), "secrets are masked");
    let shown = server.get(ADMIN, &format!("/api/v1/runs/{run}")).await.json();
    let nodes: Vec<_> =
        shown["nodes"].as_array().unwrap().iter().map(|n| n["status"].as_str().unwrap()).collect();
    assert_eq!((nodes, &shown["outputs"]["text"]), (vec!["succeeded", "succeeded"], &json!(name)));
}

#[tokio::test]
async fn a_question_for_options_that_is_not_answered_stops_its_run() {
    let plugin = InstalledPlugin {
        author: "acme".into(),
        name: "maps".into(),
        version: "1".into(),
        ..Default::default()
    };
    let (id, fields) = (plugin.id(), plugin.fields());
    let body = json!({"provider": "maps", "tool": "find", "parameter": "place"});
    for (is_closing, status, code) in [(false, 504, "not_answered"), (true, 503, "unavailable")] {
        let store = MemoryStore::new(Arc::new(SystemClock));
        let (kind, expected) = (CatalogKind::Plugin, Expected::Absent);
        let put = PutEntry { kind, id: &id, fields: &fields, expected, make_default: false };
        store.put_entry(put).await.unwrap();
        let mut config = config();
        config.scheduler.wait_seconds_max = if is_closing { 60 } else { 0 };
        let server = Server::over(config, Arc::new(store.clone()), Arc::default());
        let asked = server.post(ADMIN, "/api/v1/plugins/acme%2Fmaps:1/options", &body);
        let (answer, run) = tokio::join!(asked, async {
            let run = submitted(&store).await;
            if is_closing {
                server.shutdown.send(Stage::Closing).unwrap();
            }
            run
        });
        assert_eq!(
            (answer.status.as_u16(), answer.json()["code"].as_str()),
            (status, Some(code)),
            "{}",
            answer.text
        );
        let driven = tokio::time::timeout(Duration::from_secs(60), drive(&server, &store, run)).await;
        driven.expect("the run is stopped");
        let shown = server.get(ADMIN, &format!("/api/v1/runs/{run}")).await.json();
        assert_eq!(shown["status"], "stopped", "{shown}");
    }
}
