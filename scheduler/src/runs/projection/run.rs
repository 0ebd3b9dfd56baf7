//! `workflow_started` and `workflow_finished`.

use serde_json::{Value as Json, json};
use tidemill_common::machine::state::run::{RunState, RunStatus};
use tidemill_common::wire::event::{EventRecord, kind};

use crate::runs::end_user;
use crate::runs::projection::{Projection, field, text};
use crate::runs::record::RunRecord;

/// The reason of a start after a pause.
const RESUMPTION: &str = "resumption";

/// Counts and times of a run: from the record of an ended run, or from the state of a waiting one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// Node starts in the root frame.
    pub steps: u64,
    /// Tokens of all model calls.
    pub tokens: u64,
    /// Seconds from the start, or the last pause, to the end; with `None` they follow from the times of the events.
    pub elapsed: Option<f64>,
}

impl Totals {
    /// Totals of a run that has not ended. Its time follows from the events.
    pub fn of_state(run: &RunState) -> Self {
        Self { steps: run.root_steps(), tokens: run.tokens(), elapsed: None }
    }
    /// Totals of an ended run.
    pub fn of(record: &RunRecord) -> Self {
        let ended = record.finished_at.map(|at| record.elapsed_since_pause(at));
        Self { steps: record.steps.unwrap_or(0), tokens: record.tokens.unwrap_or(0), elapsed: ended }
    }
}

impl Projection {
    pub(super) fn workflow_started(&mut self, record: &EventRecord) -> Json {
        // After a pause the run starts again, and its time is counted from then, as on Dify.
        self.began_ms = Some(record.ts);
        if text(record, "reason") == RESUMPTION {
            self.created_at = record.ts.div_euclid(1000);
        }
        let data = json!({
            "id": self.run.id,
            "workflow_id": self.run.workflow_id,
            "inputs": self.run.inputs,
            "created_at": self.created_at,
            "reason": field(record, "reason", "initial".into()),
        });
        self.envelope("workflow_started", data)
    }

    pub(super) fn workflow_finished(&mut self, record: &EventRecord) -> Json {
        let (status, error) = match record.kind.as_str() {
            kind::GRAPH_RUN_SUCCEEDED => (RunStatus::Succeeded, Json::Null),
            kind::GRAPH_RUN_PARTIAL_SUCCEEDED => (RunStatus::PartialSucceeded, Json::Null),
            kind::GRAPH_RUN_ABORTED => (RunStatus::Stopped, field(record, "reason", Json::Null)),
            _ => (RunStatus::Failed, field(record, "error", Json::Null)),
        };
        let error = end_user::error(error);
        let (outputs, files) = self.with_files(field(record, "outputs", json!({})));
        let data = json!({
            "id": self.run.id,
            "workflow_id": self.run.workflow_id,
            "status": status.name(),
            "outputs": outputs,
            "error": error,
            "elapsed_time": self.elapsed(record),
            "total_tokens": self.totals.tokens,
            "total_steps": self.totals.steps,
            "created_by": {"id": self.run.end_user_id, "user": self.run.user},
            "created_at": self.created_at,
            "finished_at": record.ts.div_euclid(1000),
            "exceptions_count": field(record, "exceptions_count", 0.into()),
            "files": files,
        });
        self.envelope("workflow_finished", data)
    }

    /// Seconds from the start of the run, or its last pause, to this event.
    pub(super) fn elapsed(&self, record: &EventRecord) -> f64 {
        let by_events = self.began_ms.map_or(0.0, |began| (record.ts - began).max(0) as f64 / 1000.0);
        self.totals.elapsed.unwrap_or(by_events)
    }
}
