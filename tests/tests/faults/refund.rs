//! The run that combines everything beyond Dify. Its worker or its scheduler dies at one boundary between two calls
//! or commits, in each case at another one. The run ends as if nothing had happened, and each call to another service
//! is recorded once.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use serde_json::{Value as Json, json};
use tidemill_common::crash::Program;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster};
use tidemill_tests::patient::Patient;
use tidemill_tests::redis::free_port;
use tidemill_tests::refund::{ASKED, MODEL_CALLS, NODES, Refund};

use super::QUICK;
use super::crash_points::{Armed, END_MAX, start};

/// The number of times that a run without faults passes a crash point.
#[derive(Clone, Copy)]
enum Passed {
    /// Exactly this number: each time is a boundary, and one more fails the test.
    Exactly(usize),
    /// About this number: facts that arrive together share a commit.
    About(usize),
}

/// The crash points.
const BOUNDARIES: [(&str, Program, Passed); 9] = [
    ("worker.job_taken", Program::Worker, Passed::Exactly(5)),
    ("worker.step_begun", Program::Worker, Passed::Exactly(16)),
    ("worker.step_made", Program::Worker, Passed::Exactly(9)),
    ("worker.step_kept", Program::Worker, Passed::Exactly(9)),
    ("worker.hand_in_begun", Program::Worker, Passed::Exactly(5)),
    ("worker.hand_in_done", Program::Worker, Passed::Exactly(5)),
    ("scheduler.answer_kept", Program::Scheduler, Passed::Exactly(3)),
    ("scheduler.commit_sent", Program::Scheduler, Passed::About(8)),
    ("scheduler.commit_answered", Program::Scheduler, Passed::About(8)),
];
/// Crash points after a result was made and before it is recorded: of a call in a journal, or of the node itself.
const LOST: [&str; 2] = ["worker.step_made", "worker.hand_in_begun"];
const AT_ONCE: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn xc_01_a_run_with_all_extensions_ends_the_same_wherever_a_process_dies() {
    let only = std::env::var("PLACE").unwrap_or_default();
    let wanted = BOUNDARIES.iter().filter(|(name, ..)| name.contains(&only));
    let times = wanted.flat_map(|(name, program, passed)| {
        let (last, more) = match passed {
            Passed::Exactly(count) => (*count, 1),
            Passed::About(count) => (*count, 0),
        };
        let dies = move |time| matches!(passed, Passed::Exactly(_)).then_some(time <= last);
        (1..=last + more).map(move |time| (format!("{name}:{time}"), *program, dies(time)))
    });
    let fired = stream::iter(times).map(|(at, program, dies)| async move {
        let fired = AssertUnwindSafe(survives(&at, program, dies)).catch_unwind().await;
        fired.unwrap_or_else(|_| Err(format!("{at} panicked, see above")))
    });
    let failures: Vec<String> =
        fired.buffer_unordered(AT_ONCE).filter_map(async |failure| failure.err()).collect().await;
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// `dies` says whether the process must die there; `None` when it may.
async fn survives(at: &str, program: Program, dies: Option<bool>) -> Result<(), String> {
    let refund = Refund::start().await;
    let mut settings = QUICK.to_vec();
    settings.extend([("scheduler.shards", "1"), ("http.allow", "127.0.0.1")]);
    let cluster = Cluster::start(&settings, Some(&refund.model)).await;
    let [scheduler_at, worker_at] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
    let address = if program == Program::Worker { worker_at.clone() } else { scheduler_at.clone() };
    let mut process = start(&cluster, program, &address, Some(at));
    let mut other = match program {
        Program::Worker => start(&cluster, Program::Scheduler, &scheduler_at, None),
        Program::Scheduler => start(&cluster, Program::Worker, &worker_at, None),
    };
    let serving = if program == Program::Worker { &mut other } else { &mut process };
    serving.wait_for_log("scheduler started").await;
    refund.keep(&Client::new(&scheduler_at, Some(ADMIN_KEY))).await;

    let mut armed = Armed { cluster: &cluster, program, address, process };
    let patient = Patient::new(vec![scheduler_at]);
    let mut has_died = false;
    let acting = async {
        let run = patient.submit(&refund.submission(), "once").await.map_err(|e| format!("{at}: {e:?}"))?;
        let followed = tokio::select! {
            followed = patient.follow(&run, END_MAX) => followed,
            never = patient.answer_pauses(&run, "no") => match never {},
        };
        followed.map(|seen| (run, seen.transcript)).map_err(|(_, trouble)| format!("{at}: {trouble:?}"))
    };
    // It may die before it has answered the submission, and must be started again for that.
    let acted = tokio::select! {
        acted = acting => acted,
        died = dying(&mut armed, at, &mut has_died) => Err(died),
    };
    let (run, transcript) = acted?;
    if dies == Some(true) && !has_died {
        // After the last boundary, the run may end before the process dies.
        armed.until_dead(at).await?;
        has_died = true;
    }
    if dies.is_some_and(|dies| dies != has_died) {
        return Err(format!("{at}: the process died there: {has_died}"));
    }
    let shown = patient.run(&run).await.map_err(|e| format!("{at}: {e:?}"))?;
    let wrong = |what: &str, found: &dyn std::fmt::Debug| Err(format!("{at}: {what}: {found:?}\n{shown:#}"));
    if shown["status"] != "succeeded" || shown["outputs"] != Refund::outputs() {
        return wrong("status", &shown["status"]);
    }
    let pauses: Vec<&Json> = shown["pauses"].as_array().into_iter().flatten().collect();
    if pauses.len() != 3 || pauses.iter().any(|pause| pause["status"] != "answered") {
        return wrong("pauses", &pauses);
    }
    transcript.is_whole();
    let ends: Vec<usize> = NODES.iter().map(|node| transcript.count("node_run_succeeded", node)).collect();
    if ends.iter().any(|count| *count != 1) {
        return wrong("ends", &ends);
    }
    // Each call is in the ledger once, also when it was made twice.
    let ledger: Vec<String> = cluster.redis.ask(&["HVALS", &format!("tm:{{0}}:run:{run}:ledger")]).await;
    if (ledger.len(), &shown["total_tokens"]) != (MODEL_CALLS, &json!(15 + 22 + 2 * 8)) {
        return wrong("ledger", &ledger);
    }
    let history: Vec<String> =
        cluster.redis.ask(&["LRANGE", &format!("tm:{{0}}:run:{run}:history"), "0", "-1"]).await;
    let of = |name: &str| {
        history.iter().filter(|record| record.contains(&format!("\"node_id\":\"{name}\""))).count()
    };
    let records = ["read", "shorten", "parcel", "order"].map(of);
    if records != [1; 4] {
        return wrong("history", &(records, &history));
    }
    // Only a result that was not recorded is made once more, with the same key.
    let (asked, calls) = (refund.model.requests().len(), refund.outside.take());
    let repeated = asked + calls.len() - MODEL_CALLS - 1;
    let is_lost = has_died && LOST.iter().any(|place| at.starts_with(place));
    if repeated > usize::from(is_lost)
        || calls.iter().any(|call| call.target != ASKED || call.key != calls[0].key)
    {
        return wrong("calls", &(asked, calls));
    }
    Ok(())
}

/// Starts the program again whenever it dies. Returns only when it ends in another way.
async fn dying(armed: &mut Armed<'_>, at: &str, has_died: &mut bool) -> String {
    while armed.process.end().is_none() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    if let Err(otherwise) = armed.until_dead(at).await {
        return otherwise;
    }
    *has_died = true;
    std::future::pending().await
}
