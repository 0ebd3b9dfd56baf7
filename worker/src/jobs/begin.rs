//! Starts a delivered job: parses it, notes it as held, and runs it. A job that cannot be parsed or was delivered too
//! often fails its node here.

use std::sync::Arc;

use serde_json::Value as Json;
use tidemill_common::clock::Timestamp;
use tidemill_common::crash;
use tidemill_common::failure::{EngineErrorType, JOB_REFUSED};
use tidemill_common::ids::{FramePath, NodeId, RunId};
use tidemill_common::store::{Completion, Dead, Delivered, withheld};
use tidemill_common::wire::WireError;
use tidemill_common::wire::fact::kind;
use tidemill_common::wire::job::{self, Job};
use tidemill_common::wire::suspect::Suspect;
use tokio::sync::OwnedSemaphorePermit;

use crate::attempt::execute;
use crate::jobs::consume::hand_back;
use crate::jobs::handle::JobHandle;
use crate::jobs::in_flight::JobPlace;
use crate::jobs::reporter::Finished;
use crate::jobs::shared::{Core, now};
use crate::jobs::{cancel, takeover};
use crate::metrics;

/// Starts a new job. A short pure node has already ended when this returns.
pub(crate) fn begin(core: &Arc<Core>, delivered: Delivered, permit: OwnedSemaphorePermit) {
    begin_again(core, delivered, permit, Earlier::default());
}

/// What is known of the holder of a job before this worker.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// Its last sign of life; `None` if it returned the job.
    pub(crate) lost_at: Option<Timestamp>,
    /// The record of the job if the holder died.
    pub(crate) suspect: Option<Suspect>,
}

/// Starts a job that was taken over.
pub(crate) fn begin_again(
    core: &Arc<Core>,
    delivered: Delivered,
    permit: OwnedSemaphorePermit,
    earlier: Earlier,
) {
    let Earlier { lost_at, suspect } = earlier;
    metrics::JOBS_READ.count();
    let started_at = now();
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
    if core.in_flight.runs(&place, number) {
        // A fail-over has lost that the job was delivered here, and it was delivered here again. Its attempt goes on: texts
        // of two attempts under one delivery could not be told apart.
        tracing::info!(run = %job.run, node = %job.node, entry = %place.entry, "a job that runs here was delivered again, and goes on");
        return;
    }
    core.in_flight.insert(place.clone(), number, Some(job.execution), permit, suspect.as_ref());
    core.in_flight.describe(&place, job.run, job.node.clone());
    crash::pass(crash::CrashPoint::JobTaken);
    let mut handle = JobHandle::new(core.clone(), place, number, &job, started_at);
    handle.name.lost_at = lost_at;
    if let Some(suspect) = suspect
        && takeover::is_worn_out(&handle, &suspect)
    {
        tokio::spawn(takeover::give_up(handle, job, body, suspect));
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
    core.in_flight.insert(place.clone(), number, None, permit, None);
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
