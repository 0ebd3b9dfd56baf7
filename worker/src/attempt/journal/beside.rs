//! Sub-workflow runs beside which the job continues: a process of a plugin waits for them, so the job cannot be parked.

use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::machine::fact::Call;
use tidemill_common::store::Called;
use tidemill_common::wire::fact::report::Report;

use crate::attempt::journal::Journal;
use crate::attempt::journal::waiting::stored_input;
use crate::attempt::spill;

impl Journal {
    /// Orders a sub-workflow run and continues. `step` is unique among all calls of the node's execution, so a worker that
    /// does the job again orders another run. The order and the journal entry are one write, so it is ordered once, and
    /// only by the worker that holds the job. The run is stopped when this worker no longer has the job.
    ///
    /// # Errors
    /// The input cannot be stored.
    pub(crate) async fn call_beside(&self, step: &str, app: &str, input: Json) -> Result<RunId, String> {
        let run = self.of.run.called_by(&self.of.execution, step, 1);
        let (input, blobs) = stored_input(input);
        let stored = spill::store(self.jobs(), self.of.shard, &blobs).await;
        stored.map_err(|error| format!("the input of the app cannot be stored: {error}"))?;
        tracing::debug!(run = %self.of.run, node = %self.handle.name.node, called = %run, app, "calls a run and continues");
        let report = Report::Called {
            started_at: self.handle.started_at,
            is_childs: self.child_try.is_some(),
            call: Box::new(Call { run, app: app.to_owned(), given: Some(input) }),
        };
        self.record_report(step, &json!({"run": run}), report, &blobs).await;
        Ok(run)
    }

    /// The state of a run that [`Self::call_beside`] has ordered. The owner of the shard may not have seen the order yet
    /// ([`Called::Unknown`]).
    pub(crate) async fn look_beside(&self, run: RunId) -> Called {
        self.until_answered(|| self.jobs().called(self.of.run, run)).await
    }
}
