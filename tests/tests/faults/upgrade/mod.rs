//! Runs of older versions continue under today's programs. Each folder of frozen files has the name of the version
//! that wrote them (`frozen/README.md`). Any time may have passed since then.

mod freeze;
mod newer;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use serde_json::Value as Json;
use tidemill_tests::check::Transcript;
use tidemill_tests::checker::contents::Contents;
use tidemill_tests::checker::remains::Remains;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::frozen::Frozen;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::QUICK;

/// The folder with the frozen files.
const FROZEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/frozen");
/// The age of the data: longer than anything is kept or waits by default.
const AGE: Duration = Duration::from_secs(100 * 24 * 3600);
/// Runs that had ended must not be removed yet.
const KEEP: (&str, &str) = ("scheduler.retention_seconds", "3000000000");
/// The number of fleets at the same time.
const AT_ONCE: usize = 3;

/// The frozen files of all versions.
fn files() -> Vec<PathBuf> {
    let within = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        entries.filter_map(Result::ok).map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let folders = within(Path::new(FROZEN)).into_iter().filter(|path| path.is_dir());
    let mut files: Vec<PathBuf> = folders.flat_map(|folder| within(&folder)).collect();
    files.sort();
    files
}

/// Reads a file and moves all times so that it is as old as [`AGE`].
fn found(file: &Path) -> Frozen {
    Frozen::read(file).of_age(AGE)
}

async fn answer_form(client: &Client, run: &str, answer: &Json) {
    let path = format!("/api/v1/runs/{run}/pauses");
    let pause = until("a form to answer", LONG, async || {
        let shown = client.get(&path).await;
        let mut all = shown.body["data"].as_array().into_iter().flatten();
        let pending = all.find(|pause| pause["status"] == "pending");
        pending.and_then(|pause| pause["pause_id"].as_str()).map(str::to_string).ok_or(shown.text)
    })
    .await;
    let answered = client.post(&format!("{path}/{pause}/answer"), answer).await;
    assert!(answered.status < 300, "{}", answered.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_in_flight_of_an_older_version_go_on_and_end_right() {
    let files = files();
    assert!(files.len() >= 10, "a file for each situation: {files:?}");
    let tried = futures_util::stream::iter(files).map(|file| async move {
        let trial = AssertUnwindSafe(goes_on(&file)).catch_unwind().await;
        trial.is_err().then_some(file)
    });
    let failed: Vec<_> = tried.buffer_unordered(AT_ONCE).filter_map(async |failed| failed).collect().await;
    assert!(failed.is_empty(), "these files failed, for the reasons above: {failed:#?}");
}

async fn goes_on(file: &Path) {
    let frozen = found(file);
    let model = llm::rules(frozen.head["model"].clone()).await;
    let cluster = Cluster::start(&[&QUICK[..], &[KEEP]].concat(), Some(&model)).await;
    frozen.restore(&cluster.redis).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let runs = frozen.head["runs"].as_array().expect("a file has runs");
    for run in runs {
        ends_right(&client, run).await;
    }
    let remains = Remains::of(Contents::One(&cluster.redis)).await;
    assert!(remains.jobs.values().all(|left| *left == (0, 0)), "{file:?}: {remains:#?}");
    assert!(remains.timers.values().all(Vec::is_empty), "{file:?}: {remains:#?}");
    let (open, dead) = (&remains.open_runs, &remains.dead);
    assert!(open.is_empty() && dead.is_empty() && remains.lone_blobs.is_empty(), "{file:?}: {remains:#?}");
}

/// Checks that a run ends as the file says, and that a returning client misses no event.
async fn ends_right(client: &Client, wanted: &Json) {
    let run = wanted["run"].as_str().expect("a run has an id");
    let seen = usize::try_from(wanted["events"].as_u64().expect("a number")).expect("few");
    let follower = client.follow(run, wanted["last_event_id"].as_str()).await;
    if !wanted["answer"].is_null() {
        answer_form(client, run, &wanted["answer"]).await;
    }
    // A run may first use up its time.
    let ended = client.ended_within(run, LONG * 2).await;
    let ends = wanted["ends"].as_object().expect("how it ends");
    for (field, value) in ends {
        match (field.as_str(), value.as_str()) {
            ("error", Some(part)) => {
                assert!(ended["error"].as_str().is_some_and(|error| error.contains(part)), "{ended:#}");
            }
            _ => assert_eq!(ended[field], *value, "{field} of {ended:#}"),
        }
    }
    let whole = client.follow(run, None).await.to_the_end().await;
    whole.is_whole();
    nothing_ends_twice(&whole);
    let behind = follower.to_the_end().await;
    assert_eq!(whole.events[seen..], behind.events, "after the last event that it had received, {wanted:#}");
    if let Some(answer) = ended["outputs"]["answer"].as_str() {
        assert_eq!(whole.text(), answer, "the streamed text is the answer");
    }
}

/// A form starts again when it is answered, so starts are not counted.
fn nothing_ends_twice(told: &Transcript) {
    let kinds = ["node_run_succeeded", "node_run_failed", "node_run_exception"];
    let ends = told.events.iter().filter(|event| kinds.contains(&event.kind.as_str()));
    let mut executions: Vec<String> = ends.map(|event| event.data["id"].to_string()).collect();
    let all = executions.len();
    executions.sort();
    executions.dedup();
    assert_eq!(executions.len(), all, "an execution ends once: {told:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sweep_of_a_later_version_removes_ended_runs_and_leaves_one_that_waits() {
    for file in files().iter().filter(|file| file.ends_with("form.jsonl")) {
        let frozen = found(file);
        let cluster = Cluster::start(&QUICK, None).await;
        frozen.restore(&cluster.redis).await;
        let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
        let client = scheduler.client();
        let runs = frozen.head["runs"].as_array().expect("a file has runs");
        let (ended, waiting): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run["answer"].is_null());
        for run in ended {
            let path = format!("/api/v1/runs/{}", run["run"].as_str().expect("a run has an id"));
            until("the ended run to be removed", LONG, async || {
                let answer = client.get(&path).await;
                if answer.status == 404 { Ok(()) } else { Err(answer.text) }
            })
            .await;
        }
        assert!(!waiting.is_empty());
        for run in waiting {
            ends_right(&client, run).await;
        }
    }
}
