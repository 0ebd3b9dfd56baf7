//! Every crash point, that is, every named place where a process can die between two durable writes
//! (`common/base/src/crash.rs`). Each is triggered once on a real workflow. The process starts again without it, and
//! the run must end as if nothing had happened.

use std::os::unix::process::ExitStatusExt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use serde_json::json;
use tidemill_common::crash::{CRASH_POINTS, CrashPoint, Program, VARIABLE};
use tidemill_mock_llm::Running;
use tidemill_tests::check::Transcript;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;
use tidemill_tests::patient::{Followed, Patient, Trouble};
use tidemill_tests::process::Process;
use tidemill_tests::redis::free_port;
use tidemill_tests::wait::until;

use super::QUICK;

/// The number of crash points at the same time; each has a Redis and three processes.
const AT_ONCE: usize = 6;
/// The longest time until a process reaches a crash point. The sweep runs every thirty seconds.
pub(super) const FIRED_MAX: Duration = Duration::from_secs(120);
/// The longest time from submit to end.
pub(super) const END_MAX: Duration = Duration::from_secs(60);
const SIGABRT: i32 = 6;

/// A model, a large value, a form: all that is needed to reach the crash points of a run.
const WORKFLOW: &str = include_str!("workflows/every_place.yml");

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_correctly_wherever_a_process_dies() {
    let only = std::env::var("PLACE").unwrap_or_default();
    let wanted = CRASH_POINTS.iter().filter(|(place, name, ..)| name.contains(&only) && !elsewhere(*place));
    // A crash point that is never reached must not hide the others.
    let fired = stream::iter(wanted).map(async |(place, name, program, _)| {
        let fired = AssertUnwindSafe(fire(*place, name, *program)).catch_unwind().await;
        fired.unwrap_or_else(|_| Err(format!("{name} panicked, see above")))
    });
    let failures: Vec<String> =
        fired.buffer_unordered(AT_ONCE).filter_map(async |failure| failure.err()).collect().await;
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A program that dies at a crash point once, and is started again.
pub(super) struct Armed<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) program: Program,
    pub(super) address: String,
    pub(super) process: Process,
}

impl Armed<'_> {
    pub(super) async fn until_dead(&mut self, name: &str) -> Result<(), String> {
        let end = until(&format!("{name} to be passed"), FIRED_MAX, async || {
            self.process.end().ok_or_else(|| self.process.tail())
        })
        .await;
        if end.signal() != Some(SIGABRT) {
            return Err(format!("{name}: the process ended in another way ({end}): {}", self.process.tail()));
        }
        self.process = start(self.cluster, self.program, &self.address, None);
        Ok(())
    }
}

pub(super) fn start(cluster: &Cluster, program: Program, address: &str, armed: Option<&str>) -> Process {
    let (file, name) = match program {
        Program::Scheduler => ("tidemill-scheduler", "scheduler"),
        Program::Worker => ("tidemill-worker", "worker"),
    };
    let mut command = cluster.command(file);
    command.args(["--listen", address]);
    if let Some(place) = armed {
        command.env(VARIABLE, place);
    }
    cluster.spawn(name, command)
}

async fn fire(place: CrashPoint, name: &str, program: Program) -> Result<(), String> {
    let model = llm::rules(json!([
        {"match": {"equals": "refuse once"}, "reply": "well", "status": 400, "fail_times": 1},
        {"match": {}, "chunks": ["one ", "two ", "three"], "chunk_delay_ms": 400},
    ]))
    .await;
    let mut settings = QUICK.to_vec();
    settings.push(("scheduler.shards", "1"));
    if sweeps(place) {
        settings.push(("scheduler.retention_seconds", "1"));
        // A take-over delays the next sweep, and on a busy machine a short lease may be lost.
        settings.push(("scheduler.shard_lease_ms", "6000"));
    }
    if at_a_stop(place) {
        settings.push(("worker.grace_seconds", "0"));
    }
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let [scheduler_at, worker_at] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let mut other = match program {
        Program::Worker => start(&cluster, Program::Scheduler, &scheduler_at, None),
        Program::Scheduler => start(&cluster, Program::Worker, &worker_at, None),
    };
    // Before a job can be taken over, another worker must hold it.
    let mut first =
        (place == CrashPoint::JobTakenOver).then(|| start(&cluster, Program::Worker, "127.0.0.1:0", None));
    let address = if program == Program::Scheduler { scheduler_at.clone() } else { worker_at };
    let begin = || start(&cluster, program, &address, Some(name));
    let mut armed = Armed { cluster: &cluster, program, address: address.clone(), process: begin() };
    if let Some(first) = &mut first {
        // Only the first worker runs when the job is delivered.
        armed.process.kill();
        first.wait_for_log("worker started").await;
    }

    let patient = Patient::new(vec![scheduler_at]);
    let body = json!({"workflow": WORKFLOW, "inputs": {"word": "deep"}, "user": "tester"});
    let acting = async {
        let run = patient.submit(&body, "once").await.map_err(|trouble| format!("{name}: {trouble:?}"))?;
        let following = patient.follow(&run, END_MAX);
        let followed = tokio::select! {
            followed = following => followed,
            never = patient.answer_pauses(&run, "deep") => match never {},
            never = send_again(&patient, &run) => match never {},
        };
        followed.map(|seen| (run, seen)).map_err(|(_, trouble)| format!("{name}: {trouble:?}"))
    };
    let dying = async {
        if let Some(mut first) = first.take() {
            until_asked(&model, name).await;
            first.kill();
            armed.process = begin();
        }
        if at_a_stop(place) {
            armed
                .process
                .wait_for_log(if program == Program::Worker { "worker started" } else { "scheduler started" })
                .await;
            tokio::time::sleep(Duration::from_millis(700)).await;
            armed.process.terminate();
        }
        armed.until_dead(name).await
    };
    let (acted, died) = tokio::join!(acting, dying);
    died?;
    let (run, Followed { transcript, .. }) = acted?;
    let result = if sweeps(place) {
        swept(&cluster, &run, name).await
    } else {
        ended(&patient, &run, name, &transcript).await
    };
    other.kill();
    result
}

/// Crash points that a process reaches only when it is stopped.
fn at_a_stop(place: CrashPoint) -> bool {
    matches!(place, CrashPoint::ReleaseBegun | CrashPoint::HandBackBegun | CrashPoint::FarewellBegun)
}

/// Crash points that only some runs reach: runs with files (files.rs), with journals (agents.rs), of chats
/// (chats.rs), of apps with limits (limited.rs).
fn elsewhere(place: CrashPoint) -> bool {
    matches!(
        place,
        CrashPoint::FilesNoted
            | CrashPoint::FileKept
            | CrashPoint::FilesRemoved
            | CrashPoint::EarlyFilesNoted
            | CrashPoint::EarlyFilesKept
            | CrashPoint::StepBegun
            | CrashPoint::StepMade
            | CrashPoint::StepKept
            | CrashPoint::ConversationEntered
            | CrashPoint::PlaceTaken
            | CrashPoint::PlaceLeft
            | CrashPoint::TurnMade
            | CrashPoint::TurnKept
    )
}

fn sweeps(place: CrashPoint) -> bool {
    matches!(place, CrashPoint::SweepBegun | CrashPoint::SweepDone)
}

async fn until_asked(model: &Running, name: &str) {
    until(&format!("{name}: a job to be held"), FIRED_MAX, async || {
        if model.requests().is_empty() { Err("the model was not called".into()) } else { Ok(()) }
    })
    .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
}

/// Sends a command under one key again and again. It counts once, whichever process dies.
async fn send_again(patient: &Patient, run: &str) -> std::convert::Infallible {
    loop {
        patient.update(run, "start", "x", "k1").await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn ended(patient: &Patient, run: &str, name: &str, transcript: &Transcript) -> Result<(), String> {
    let shown = patient.run(run).await.map_err(|trouble: Trouble| format!("{name}: {trouble:?}"))?;
    let expected = json!({"text": "one two three", "size": "20000", "word": "deep"});
    // The refusal that a retry overcame counts as an exception, as on Dify, unless the worker died before it was
    // recorded.
    let is_well = ["succeeded", "partial-succeeded"].iter().any(|status| shown["status"] == *status);
    if !is_well || shown["outputs"] != expected {
        return Err(format!("{name}: {shown:#}"));
    }
    let updates = transcript.of_kind("graph_run_variables_updated").count();
    let numbers: Vec<u64> = transcript.events.iter().map(|event| event.seq).collect();
    let whole = numbers.iter().copied().eq(1..=numbers.len() as u64);
    let ends = transcript.count("node_run_succeeded", "llm") + transcript.count("node_run_succeeded", "big");
    if !whole || ends != 2 || updates > 1 {
        return Err(format!("{name}: {updates} updates, {ends} ends, {numbers:?}"));
    }
    Ok(())
}

/// Waits until the sweep removes the run.
async fn swept(cluster: &Cluster, run: &str, name: &str) -> Result<(), String> {
    until(&format!("{name}: the run to be removed"), FIRED_MAX, async || {
        let keys = cluster.redis.cli(&["--scan", "--pattern", &format!("*{run}*")]);
        if keys.is_empty() { Ok(()) } else { Err(keys) }
    })
    .await;
    let graphs = cluster.redis.cli(&["HLEN", "tm:{0}:graphs"]);
    let blobs = cluster.redis.cli(&["--scan", "--pattern", "*:blob:*"]);
    if graphs == "0" && blobs.is_empty() {
        Ok(())
    } else {
        Err(format!("{name}: {graphs} graphs, {blobs} are left"))
    }
}
