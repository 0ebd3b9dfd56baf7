//! Starts the runs of schedules that are due.
//!
//! The owner of a shard looks at its schedules, which spares other schedulers the work. It is safe when several fire
//! the same time: one write creates the run and moves the schedule to its next time, and only while that time is still
//! due. So a scheduler that dies earlier has done nothing, and a later one finds nothing to do. The store's clock
//! counts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::config::Config;
use tidemill_common::graph::{Graph, NodeIx};
use tidemill_common::nodes::NodeData;
use tidemill_common::nodes::trigger_schedule::{Plan, TriggerScheduleData};
use tidemill_common::store::{App, DueSchedule, Fired, FromSchedule, Runs, StoreError};
use tidemill_common::value::JsonMap;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use crate::shards::lease::Lease;
use crate::submit::{Submission, SubmitError, Submitter, SystemValues, WorkflowSource};
use crate::workflows::Workflows;

/// The pause between two looks, plus some for each shard, so that a process with many shards does not ask all the time.
const POLL_PAUSE: Duration = Duration::from_secs(2);
const POLL_PAUSE_PER_SHARD: Duration = Duration::from_millis(50);
/// The pause when there is more to fire.
const BUSY: Duration = Duration::from_millis(20);
/// The pause before a schedule that failed is tried again.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
/// The user of these runs.
const USER: &str = "schedule";

/// Fires the due schedules of the shards that this process owns.
pub struct Schedules {
    store: Arc<dyn Runs>,
    submitter: Arc<Submitter>,
    workflows: Arc<Workflows>,
    lease: Arc<Lease>,
    catch_up_max: u64,
    /// Schedules that failed, and when to try them again.
    waiting: HashMap<String, Instant>,
}

/// The result of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PollOutcome {
    /// Nothing is due.
    Quiet,
    /// A run was started or a schedule was moved to its next time; more may be due.
    Moved,
}

/// The reason why a schedule was not fired.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Schedules {
    /// Creates it for the shards under these leases.
    pub fn new(
        store: Arc<dyn Runs>,
        submitter: Arc<Submitter>,
        workflows: Arc<Workflows>,
        lease: Arc<Lease>,
        config: &Config,
    ) -> Self {
        let catch_up_max = config.scheduler.catch_up_max;
        Self { store, submitter, workflows, lease, catch_up_max, waiting: HashMap::new() }
    }

    /// Looks for due schedules until `stop` is set.
    pub async fn run(mut self, mut stop: Receiver<bool>) {
        while !*stop.borrow() {
            let shards = self.lease.shards();
            let pause = POLL_PAUSE + POLL_PAUSE_PER_SHARD * u32::try_from(shards.len()).unwrap_or(u32::MAX);
            let pause = match self.poll(&shards).await {
                Ok(PollOutcome::Moved) => BUSY,
                Ok(PollOutcome::Quiet) => pause,
                Err(error) => {
                    tracing::warn!(%error, "schedules cannot be checked yet");
                    pause
                }
            };
            tokio::select! {
                _ = stop.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn poll(&mut self, shards: &[tidemill_common::ids::ShardId]) -> Result<PollOutcome, StoreError> {
        if shards.is_empty() {
            return Ok(PollOutcome::Quiet);
        }
        let (now, due) = self.store.due_schedules(shards).await?;
        let mut outcome = PollOutcome::Quiet;
        self.waiting.retain(|_, until| *until > Instant::now());
        for schedule in due {
            if self.waiting.contains_key(&schedule.trigger) {
                continue;
            }
            match self.serve(&schedule, now).await {
                Ok(()) => outcome = PollOutcome::Moved,
                // The shard is too busy; the schedule stays due.
                Err(Failed::Submit(SubmitError::Busy | SubmitError::QueueFull)) => {}
                Err(Failed::Store(error) | Failed::Submit(SubmitError::Store(error)))
                    if error.is_passing() =>
                {
                    return Err(error);
                }
                Err(error) => self.put_off(&schedule, &error.to_string()).await?,
            }
        }
        Ok(outcome)
    }

    async fn put_off(&mut self, schedule: &DueSchedule, error: &str) -> Result<(), StoreError> {
        tracing::warn!(
            trigger = schedule.trigger,
            error,
            "a schedule cannot be fired; it is tried again later"
        );
        self.waiting.insert(schedule.trigger.clone(), Instant::now() + AFTER_FAILURE);
        let fired = Fired { error: Some(error.to_string()), ..Fired::default() };
        self.store.note_fired(&schedule.trigger, &fired).await
    }

    /// Fires a schedule that is due, or moves it to its next time.
    async fn serve(&self, schedule: &DueSchedule, now: Timestamp) -> Result<(), Failed> {
        let id = &schedule.trigger;
        let Some((app, node)) = self.app_of(id).await? else {
            tracing::info!(trigger = id, "a schedule is removed, because its app is gone");
            self.store.move_schedule(id, schedule.due, None).await?;
            return Ok(());
        };
        let workflow = self.workflows.of_document(&app.version, &app.document).map_err(SubmitError::from)?;
        let Some(data) = data_of(&workflow.graph, &node) else {
            self.store.move_schedule(id, schedule.due, None).await?;
            return Ok(());
        };
        let Plan { fire, next, dropped } =
            data.schedule.plan(schedule.due, now, data.catch_up, self.catch_up_max);
        if dropped {
            tracing::warn!(
                trigger = id,
                due_ms = schedule.due.millis(),
                catch_up = data.catch_up.name(),
                "a schedule has missed times, and some of them are not fired"
            );
        }
        let Some(at) = fire else {
            self.store.move_schedule(id, schedule.due, next).await?;
            return Ok(());
        };
        let from = FromSchedule { trigger: id.clone(), due: schedule.due, next, at };
        let submission = Submission {
            user: USER.into(),
            root: Some(node),
            schedule: Some(from),
            ..Submission::of(WorkflowSource::App(Arc::new(app)), SystemValues::Standard, JsonMap::new())
        };
        match self.submitter.submit(submission).await {
            Ok(done) => {
                tracing::info!(trigger = id, run = %done.run, at_ms = at.millis(), "a schedule has started a run");
                let fired = Fired { at: Some(now), run: Some(done.run), error: None };
                self.store.note_fired(id, &fired).await?;
                Ok(())
            }
            // Another scheduler has fired it.
            Err(SubmitError::Passed) => Ok(()),
            // The times at which its app is off are left out.
            Err(error @ (SubmitError::AppOff(_) | SubmitError::AppRemoved(_))) => {
                let fired = Fired { error: Some(error.to_string()), ..Fired::default() };
                self.store.move_schedule(id, schedule.due, next).await?;
                self.store.note_fired(id, &fired).await?;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The app and the node of a schedule, or `None` when they were removed.
    async fn app_of(&self, trigger: &str) -> Result<Option<(App, String)>, StoreError> {
        let Some(state) = self.store.trigger(trigger).await? else { return Ok(None) };
        let app = self.store.app(&state.trigger.app).await?;
        Ok(app.map(|app| (app, state.trigger.node)))
    }
}

/// The schedule in the app's current version. Returns `None` when its node was removed or has another type now.
fn data_of<'g>(graph: &'g Graph, node: &str) -> Option<&'g TriggerScheduleData> {
    let at: NodeIx = graph.find(node)?;
    let NodeData::TriggerSchedule(data) = &graph.node(at).data else { return None };
    Some(data)
}

#[cfg(test)]
mod tests;
