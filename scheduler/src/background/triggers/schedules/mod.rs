//! Starts the runs of schedules whose time has come.
//!
//! Who owns a shard looks at its schedules. That only spares the others the look: any number of schedulers may try to
//! fire one time, since its run and the schedule's step to the next time are one write, made only while that time is
//! still due. So whoever dies before has done nothing, and who comes later has nothing left to do. The clock is the store's.

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

/// Between two looks, and a little for each shard, so that a process that owns all of many shards does not ask all the time.
const LOOK: Duration = Duration::from_secs(2);
const LOOK_A_SHARD: Duration = Duration::from_millis(50);
/// Between two looks at once, when there is more to fire.
const BUSY: Duration = Duration::from_millis(20);
/// Before a schedule that could not be fired is tried again.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
/// Whose runs they are, for the record.
const USER: &str = "schedule";

/// Fires the schedules of the shards that this process owns.
pub struct Schedules {
    store: Arc<dyn Runs>,
    submitter: Arc<Submitter>,
    workflows: Arc<Workflows>,
    lease: Arc<Lease>,
    catch_up_max: u64,
    /// Schedules that could not be fired, and when to try again.
    waiting: HashMap<String, Instant>,
}

/// What became of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looked {
    /// Nothing is due.
    Quiet,
    /// Something was fired, or moved on; more may be due.
    Moved,
}

/// Why a schedule that is due was not fired.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Schedules {
    /// For a process with this store and these leases.
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

    /// Looks until told to stop.
    pub async fn run(mut self, mut stop: Receiver<bool>) {
        while !*stop.borrow() {
            let shards = self.lease.shards();
            let pause = LOOK + LOOK_A_SHARD * u32::try_from(shards.len()).unwrap_or(u32::MAX);
            let pause = match self.look(&shards).await {
                Ok(Looked::Moved) => BUSY,
                Ok(Looked::Quiet) => pause,
                Err(error) => {
                    tracing::warn!(%error, "schedules have to wait for the store");
                    pause
                }
            };
            tokio::select! {
                _ = stop.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn look(&mut self, shards: &[tidemill_common::ids::ShardId]) -> Result<Looked, StoreError> {
        if shards.is_empty() {
            return Ok(Looked::Quiet);
        }
        let (now, due) = self.store.due_schedules(shards).await?;
        let mut looked = Looked::Quiet;
        self.waiting.retain(|_, until| *until > Instant::now());
        for schedule in due {
            if self.waiting.contains_key(&schedule.trigger) {
                continue;
            }
            match self.serve(&schedule, now).await {
                Ok(()) => looked = Looked::Moved,
                // The shard has too much to do; it stays due.
                Err(Failed::Submit(SubmitError::Busy | SubmitError::QueueFull)) => {}
                Err(Failed::Store(error) | Failed::Submit(SubmitError::Store(error)))
                    if error.is_passing() =>
                {
                    return Err(error);
                }
                Err(error) => self.put_off(&schedule, &error.to_string()).await?,
            }
        }
        Ok(looked)
    }

    async fn put_off(&mut self, schedule: &DueSchedule, error: &str) -> Result<(), StoreError> {
        tracing::warn!(trigger = schedule.trigger, error, "a schedule cannot be fired, and is tried again");
        self.waiting.insert(schedule.trigger.clone(), Instant::now() + AFTER_FAILURE);
        let fired = Fired { error: Some(error.to_string()), ..Fired::default() };
        self.store.note_fired(&schedule.trigger, &fired).await
    }

    /// Does what is to be done about a schedule that is due.
    async fn serve(&self, schedule: &DueSchedule, now: Timestamp) -> Result<(), Failed> {
        let id = &schedule.trigger;
        let Some((app, node)) = self.whose(id).await? else {
            tracing::info!(trigger = id, "a schedule is gone with its app's version");
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
                "times of a schedule were missed, and not all of them are fired"
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
                tracing::info!(trigger = id, run = %done.run, at_ms = at.millis(), "a schedule has begun a run");
                let fired = Fired { at: Some(now), run: Some(done.run), error: None };
                self.store.note_fired(id, &fired).await?;
                Ok(())
            }
            // Another scheduler has fired it.
            Err(SubmitError::Passed) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The app and the node of a schedule, while they are there.
    async fn whose(&self, trigger: &str) -> Result<Option<(App, String)>, StoreError> {
        let Some(state) = self.store.trigger(trigger).await? else { return Ok(None) };
        let app = self.store.app(&state.trigger.app).await?;
        Ok(app.map(|app| (app, state.trigger.node)))
    }
}

/// What the app's present version says of the schedule. Its node may be gone, or have become something else.
fn data_of<'g>(graph: &'g Graph, node: &str) -> Option<&'g TriggerScheduleData> {
    let at: NodeIx = graph.find(node)?;
    match &graph.node(at).data {
        NodeData::TriggerSchedule(data) => Some(data),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
