//! Sub-workflow runs beside which the job continues: a process of a plugin waits for them, so the job cannot be parked.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::limits::SIDE_CALLS_MAX;
use tidemill_common::machine::fact::Call;
use tidemill_common::store::Called;
use tidemill_common::wire::fact::report::Report;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::attempt::journal::Journal;
use crate::attempt::journal::waiting::stored_input;
use crate::attempt::spill;

/// The places of a job for such runs. All invocations and nodes inside the job share them.
pub(super) struct SideCalls {
    /// Most runs for which the job waits at once.
    waited_max: usize,
    waited: Semaphore,
    /// Places for runs that may be under way. One for which nothing waits any more keeps its place until the job ends, because
    /// nothing here sees its end. So the owner of the run, which stops the oldest of too many, never has too many.
    open: Semaphore,
}

impl SideCalls {
    pub(super) fn new(waited_max: usize) -> Arc<Self> {
        let (waited, open) = (Semaphore::new(waited_max), Semaphore::new(SIDE_CALLS_MAX));
        Arc::new(Self { waited_max, waited, open })
    }
}

/// A sub-workflow run beside which the job continues. Dropping this ends the wait for it, not the run.
pub(crate) struct SideCall<'j> {
    journal: &'j Journal,
    pub(crate) run: RunId,
    _waits: SemaphorePermit<'j>,
    /// Given back when its end was seen.
    open: Option<SemaphorePermit<'j>>,
}

impl Journal {
    /// Orders a sub-workflow run and continues. `step` is unique among all calls of the node's execution, so a worker that
    /// does the job again orders another run. The order and the journal entry are one write, so it is ordered once, and
    /// only by the worker that holds the job. The run is stopped when this worker no longer has the job.
    ///
    /// # Errors
    /// The job has too many such runs, or the input cannot be stored.
    pub(crate) async fn call_beside(
        &self,
        step: &str,
        app: &str,
        input: Json,
    ) -> Result<SideCall<'_>, String> {
        let places = &self.side_calls;
        let waits = places.waited.try_acquire().map_err(|_| {
            format!("busy: a job may wait for {} apps at once (plugins.app_calls_max)", places.waited_max)
        })?;
        let open = places.open.try_acquire().map_err(|_| {
            format!("a job may call {SIDE_CALLS_MAX} apps beside those whose ends it has seen: it no longer waits for most of them")
        })?;
        let run = self.of.run.called_by(&self.of.execution, step, 1);
        let (input, blobs) = stored_input(input);
        let stored = spill::store(self.jobs(), self.of.shard, &blobs).await;
        stored.map_err(|error| format!("the input of the app cannot be stored: {error}"))?;
        // From here on there may be an order.
        let call = SideCall { journal: self, run, _waits: waits, open: Some(open) };
        tracing::debug!(run = %self.of.run, node = %self.handle.name.node, called = %run, app, "calls a run and continues");
        let report = Report::Called {
            started_at: self.handle.started_at,
            is_childs: self.child_try.is_some(),
            call: Box::new(Call { run, app: app.to_owned(), given: Some(input) }),
        };
        self.record_report(step, &json!({"run": run}), report, &blobs).await;
        Ok(call)
    }
}

impl SideCall<'_> {
    /// The state of the run. The owner of the shard may not have seen the order yet ([`Called::Unknown`]).
    pub(crate) async fn look(&mut self) -> Called {
        let (journal, run) = (self.journal, self.run);
        let called = journal.until_answered(|| journal.jobs().called(journal.of.run, run)).await;
        if matches!(called, Called::Refused(_) | Called::Ended(_) | Called::Gone) {
            self.open = None;
        }
        called
    }
}

impl Drop for SideCall<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tidemill_common::clock::Timestamp;

    use super::*;
    use crate::attempt::journal::ChildTry;
    use crate::tests::fake::{FakeJobs, execution, journal, run_id};

    #[tokio::test(start_paused = true)]
    async fn all_of_a_job_share_its_places_and_an_end_gives_one_back() {
        let jobs = FakeJobs::new();
        let journal = journal(&jobs);
        let most = journal.side_calls.waited_max;
        let child_try = ChildTry { child: "inner".into(), number: 1, began: Timestamp::from_micros(5) };
        let inner = journal.of_child(execution(6), 1, child_try);
        let mut calls = Vec::new();
        for number in 0..most {
            let journal = if number % 2 == 0 { &journal } else { &inner };
            calls.push(
                journal.call_beside(&format!("ask/{number}"), "a-1", json!({})).await.expect("a place"),
            );
        }
        let refused = inner.call_beside("ask/x", "a-1", json!({})).await.err().expect("no place is left");
        assert!(
            refused.contains("plugins.app_calls_max") && refused.contains(&most.to_string()),
            "{refused}"
        );
        assert_eq!(jobs.state().facts.len(), most, "nothing more was ordered");
        let mut first = calls.remove(0);
        jobs.state().called.insert(first.run, Called::Ended(HashMap::new()));
        first.look().await;
        drop(first);
        assert_eq!(journal.side_calls.open.available_permits(), SIDE_CALLS_MAX - most + 1);
        assert!(inner.call_beside("ask/y", "a-1", json!({})).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_is_waited_for_is_never_one_too_many() {
        let jobs = FakeJobs::new();
        let journal = journal(&jobs);
        let waited = journal.call_beside("ask/first", "a-1", json!({})).await.expect("a place");
        for number in 1..SIDE_CALLS_MAX {
            drop(journal.call_beside(&format!("ask/{number}"), "a-1", json!({})).await.expect("a place"));
        }
        let refused =
            journal.call_beside("ask/last", "a-1", json!({})).await.err().expect("no place is left");
        assert!(refused.contains("may call 64 apps"), "{refused}");
        assert_eq!(jobs.state().facts.len(), SIDE_CALLS_MAX, "its owner stops none");
        assert_eq!(waited.run, run_id().called_by(&execution(5), "ask/first", 1));
    }
}
