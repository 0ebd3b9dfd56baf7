//! Starts a delivered job: parses it, notes it as held, and runs it. A job that cannot be parsed or was delivered too
//! often fails its node here.

use std::sync::Arc;

use serde_json::Value as Json;
use tidemill_common::crash;
use tidemill_common::failure::{EngineErrorType, JOB_REFUSED};
use tidemill_common::ids::{FramePath, NodeId, RunId};
use tidemill_common::store::{Completion, Dead, Delivered, withheld};
use tidemill_common::wire::WireError;
use tidemill_common::wire::fact::kind;
use tidemill_common::wire::job::{self, Job};
use tokio::sync::OwnedSemaphorePermit;

use crate::attempt::execute;
use crate::jobs::consume::hand_back;
use crate::jobs::handle::JobHandle;
use crate::jobs::in_flight::JobPlace;
use crate::jobs::reporter::Finished;
use crate::jobs::shared::{Core, now};
use crate::jobs::{cancel, takeover};
use crate::metrics;
use crate::setup::pass_on;

/// Starts a job. A short pure node has already ended when this returns.
pub(crate) fn begin(core: &Arc<Core>, delivered: Delivered, permit: OwnedSemaphorePermit) {
    metrics::JOBS_READ.count();
    let read = match delivered.run.parse::<RunId>() {
        Ok(run) => match job::parse(run, &delivered.body) {
            Err(newer @ WireError::Version { .. }) => return leave_to_newer(core, delivered, &newer),
            read => read.map_err(|error| error.to_string()),
        },
        Err(error) => Err(error.to_string()),
    };
    let Delivered { shard, queue, entry, number, run, body } = delivered;
    let place = JobPlace { shard, queue, entry };
    let job = match read {
        Ok(job) => job,
        Err(reason) => return refuse(core, place, number, &run, body, permit, &reason),
    };
    if core.setup.passed(&place).is_some() {
        // This worker could not do it and has handed it back.
        let delivered = Delivered { shard, queue: place.queue.clone(), entry, number, run, body };
        tokio::spawn(begin_passed(core.clone(), delivered, permit));
        return;
    }
    start(core, place, number, job, (body, permit));
}

/// Starts a job that this worker has handed back, if no other living worker can do it any more.
async fn begin_passed(core: Arc<Core>, delivered: Delivered, permit: OwnedSemaphorePermit) {
    let place = JobPlace { shard: delivered.shard, queue: delivered.queue.clone(), entry: delivered.entry };
    if pass_on::is_still_for_another(&core, &place).await {
        return pass_on::pass_again(core, delivered).await;
    }
    let Ok(job) =
        delivered.run.parse().map_err(drop).and_then(|run| job::parse(run, &delivered.body).map_err(drop))
    else {
        return hand_back(core, delivered).await;
    };
    start(&core, place, delivered.number, job, (delivered.body, permit));
}

fn start(
    core: &Arc<Core>,
    place: JobPlace,
    number: u32,
    job: Job,
    (body, permit): (String, OwnedSemaphorePermit),
) {
    let started_at = now();
    core.in_flight.insert(place.clone(), number, Some(job.execution), permit);
    crash::pass(crash::CrashPoint::JobTaken);
    let handle = JobHandle::new(core.clone(), place, number, &job, started_at);
    if takeover::is_worn_out(&handle) {
        tokio::spawn(takeover::give_up(handle, job, body));
        return;
    }
    if core.remembered.contains(&job.execution) {
        tokio::spawn(cancel::ask(core.clone(), handle.place.clone(), number));
    }
    execute::start(handle, job, body.len());
}

/// Returns the job to its queue for a newer worker. During an upgrade such workers exist.
fn leave_to_newer(core: &Arc<Core>, delivered: Delivered, reason: &WireError) {
    metrics::HANDED_BACK.count();
    tracing::error!(run = delivered.run, node = job::node_in(&delivered.body), entry = %delivered.entry, %reason, "a job is returned for a newer worker");
    tokio::spawn(hand_back(core.clone(), delivered));
}

/// Fails the node of a job that cannot be parsed. Otherwise the job would circulate between the workers forever.
fn refuse(
    core: &Arc<Core>,
    place: JobPlace,
    number: u32,
    run: &str,
    body: String,
    permit: OwnedSemaphorePermit,
    reason: &str,
) {
    metrics::JOBS_ENDED.count_for("refused");
    tracing::error!(run, node = job::node_in(&body), entry = %place.entry, reason, "a job cannot be read");
    core.in_flight.insert(place.clone(), number, None, permit);
    let reason = format!("{JOB_REFUSED}: {reason}");
    // A job that cannot be read does not say reliably which secrets it contains.
    let kept = withheld(&body);
    match attributed(run, &body) {
        Some(job) => {
            let handle = JobHandle::new(core.clone(), place, number, &job, now());
            handle.give_up(EngineErrorType::Engine, reason, kept);
        }
        None => discard(core, place, number, run, reason, kept),
    }
}

/// Reads the few fields that name the job's node, so that the node can be failed.
fn attributed(run: &str, body: &str) -> Option<Job> {
    let run: RunId = run.parse().ok()?;
    let map: Json = serde_json::from_str(body).ok()?;
    let number = |key: &str| map.get(key).and_then(Json::as_u64).and_then(|n| u32::try_from(n).ok());
    let node = map.get("node")?.as_str()?;
    let frame = FramePath::from(map.get("frame").and_then(Json::as_str).unwrap_or_default());
    // Every version writes and reads these fields.
    let skeleton = serde_json::json!({
        "node": node, "frame": frame, "graph": "", "attempt": number("attempt")?,
        "delivered": number("delivered").unwrap_or(0),
        "execution": tidemill_common::ids::ExecutionId::derive(&run, &frame, &NodeId::from(node)),
    });
    job::parse(run, &skeleton.to_string()).ok()
}

/// Removes a job whose node is unknown from its queue and keeps it as a dead letter.
fn discard(core: &Arc<Core>, place: JobPlace, number: u32, run: &str, reason: String, body: String) {
    let dead = Dead::new("job", run, reason, body);
    let completion = Completion {
        entry: place.entry,
        number,
        run: run.parse().unwrap_or_else(|_| RunId::new(0, 0, place.shard)),
        kind: kind::FAILED,
        body: "{}".into(),
        blobs: Vec::new(),
        dead: Some(dead),
    };
    core.in_flight.ended(&place);
    let reports = core.reporter.of(place.shard);
    reports.send_result(Finished { queue: place.queue, completion, blobs: Vec::new() });
}
