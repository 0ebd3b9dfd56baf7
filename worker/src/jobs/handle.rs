//! A job this worker holds: its queue entry, its identity, and the ways to report its result.

use std::sync::Arc;

use tidemill_common::clock::Timestamp;
use tidemill_common::failure::EngineErrorType;
use tidemill_common::ids::{BlobId, Delivery, RunId};
use tidemill_common::machine::fact::{Call, JobQuestion};
use tidemill_common::machine::state::record::Record;
use tidemill_common::store::{Completion, Dead};
use tidemill_common::value::Selector;
use tidemill_common::wire::fact::report::{JobName, Report};
use tidemill_common::wire::job::Job;

use crate::attempt::spill::Spilled;
use crate::jobs::in_flight::JobPlace;
use crate::jobs::reporter::Finished;
use crate::jobs::shared::{Core, now};

/// A job that this worker holds.
#[derive(Clone)]
pub(crate) struct JobHandle {
    pub(crate) core: Arc<Core>,
    pub(crate) place: JobPlace,
    /// The delivery count of the entry.
    pub(crate) number: u32,
    pub(crate) run: RunId,
    /// The app of the run, if the job says it.
    pub(crate) app: Option<Arc<str>>,
    /// The job's identity in facts.
    pub(crate) name: JobName,
    pub(crate) started_at: Timestamp,
}

/// The reason and end of a parked job's wait.
#[derive(Default)]
struct ParkReason {
    wait_ms: u64,
    reason: String,
    is_childs: bool,
    call: Option<Box<Call>>,
    pause: Option<Box<JobQuestion>>,
}

impl JobHandle {
    pub(crate) fn new(
        core: Arc<Core>,
        place: JobPlace,
        number: u32,
        job: &Job,
        started_at: Timestamp,
    ) -> Self {
        let name = JobName {
            lost_at: None,
            frame: job.frame.clone(),
            node: job.node.clone(),
            attempt: job.attempt,
            entry: place.entry,
            // A lost and recreated entry continues the delivery count of the lost one.
            holder: Delivery {
                consumer: core.consumer.clone(),
                number: job.delivered.saturating_add(number),
            },
        };
        Self { core, place, number, run: job.run, app: job.app.clone(), name, started_at }
    }

    /// Sends a result whose blobs are already stored.
    pub(crate) fn report_result(&self, spilled: Spilled, streamed: Vec<(Selector, u64)>) {
        let Spilled { mut record, failed, blobs } = spilled;
        if failed {
            record.worker = self.core.consumer.to_string();
        }
        self.end(record, failed, streamed, blobs, None);
    }

    /// Reports that the engine gives the job up. `content` is kept in the dead letter.
    pub(crate) fn give_up(&self, class: EngineErrorType, reason: String, content: String) {
        let dead = Dead::new("job", self.run.to_string(), reason.clone(), content)
            .at(self.name.frame.clone(), self.name.node.clone());
        // A job whose workers died has not failed here.
        let is_here = class != EngineErrorType::WorkerLost;
        let worker = if is_here { self.core.consumer.to_string() } else { String::new() };
        let record = Record { error: reason, error_type: class.name().into(), worker, ..Record::default() };
        self.end(record, true, Vec::new(), Vec::new(), Some(dead));
    }

    /// Parks the job for a time; no worker holds it meanwhile. `is_childs` is true when a node inside the job waits.
    pub(crate) fn park(&self, wait_ms: u64, reason: String, is_childs: bool) {
        self.park_with(ParkReason { wait_ms, reason, is_childs, ..ParkReason::default() }, Vec::new());
    }

    /// Parks the job until its pause is answered.
    pub(crate) fn park_for_answer(&self, question: JobQuestion) {
        let reason = format!("an answer to pause {} ({})", question.pause, question.request.kind.name());
        self.park_with(
            ParkReason { reason, pause: Some(Box::new(question)), ..ParkReason::default() },
            Vec::new(),
        );
    }

    /// Parks the job until a sub-workflow run has ended. `blobs` are the stored blobs the call refers to.
    pub(crate) fn park_for(&self, call: Call, wait_ms: u64, is_childs: bool, blobs: Vec<(BlobId, String)>) {
        let reason = format!("run {} of {}", call.run, call.app);
        self.park_with(
            ParkReason { wait_ms, reason, is_childs, call: Some(Box::new(call)), pause: None },
            blobs,
        );
    }

    fn park_with(&self, wait: ParkReason, blobs: Vec<(BlobId, String)>) {
        let ParkReason { wait_ms, reason, is_childs, call, pause } = wait;
        let report = Report::Parked {
            started_at: self.started_at,
            at: now().max(self.started_at),
            wait_ms,
            reason,
            is_childs,
            call,
            pause,
        };
        let completion = Completion {
            entry: self.place.entry,
            number: self.number,
            run: self.run,
            kind: report.kind(),
            body: report.to_json(&self.name),
            blobs: blobs.iter().map(|(id, text)| (id.clone(), text.len() as u64)).collect(),
            dead: None,
        };
        self.core.in_flight.ended(&self.place);
        let finished = Finished { queue: self.place.queue.clone(), completion, blobs };
        self.core.reporter.of(self.place.shard).send_result(finished);
        self.core.in_flight.stop(&self.place, self.number);
    }

    fn end(
        &self,
        record: Record,
        failed: bool,
        streamed: Vec<(Selector, u64)>,
        blobs: Vec<(BlobId, String)>,
        dead: Option<Dead>,
    ) {
        let finished_at = now().max(self.started_at);
        let report = Report::Ended {
            started_at: self.started_at,
            finished_at,
            failed,
            record: Box::new(record),
            streamed,
        };
        let completion = Completion {
            entry: self.place.entry,
            number: self.number,
            run: self.run,
            kind: report.kind(),
            body: report.to_json(&self.name),
            blobs: blobs.iter().map(|(id, text)| (id.clone(), text.len() as u64)).collect(),
            dead,
        };
        self.core.in_flight.ended(&self.place);
        let finished = Finished { queue: self.place.queue.clone(), completion, blobs };
        self.core.reporter.of(self.place.shard).send_result(finished);
    }
}
