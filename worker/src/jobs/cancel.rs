//! Stops cancelled jobs. A published cancellation is only a hint: the worker asks the store at once whether it still
//! owns the entry, as the heartbeat would do a little later. So a late hint cannot stop the next attempt of the same
//! execution. Hints are remembered for one lease, because the job may arrive after its hint.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_common::ids::ExecutionId;
use tidemill_common::store::Hint;
use tokio::time::Instant;

use crate::jobs::backoff::Backoff;
use crate::jobs::in_flight::JobPlace;
use crate::jobs::shared::Core;
use crate::metrics;

/// Most hints that are remembered. The heartbeat covers the others.
const REMEMBERED_MAX: usize = 10_000;

/// Executions that were recently cancelled.
#[derive(Debug)]
pub(crate) struct Remembered {
    lease: Duration,
    heard: Mutex<HashMap<ExecutionId, Instant>>,
}

impl Remembered {
    pub(crate) fn new(lease: Duration) -> Self {
        Self { lease, heard: Mutex::default() }
    }
    fn add(&self, execution: ExecutionId) {
        let (now, mut heard) = (Instant::now(), self.lock());
        if heard.len() >= REMEMBERED_MAX {
            heard.retain(|_, at| now.duration_since(*at) < self.lease);
        }
        if heard.len() < REMEMBERED_MAX {
            heard.insert(execution, now);
        }
    }
    /// Returns true if the execution was cancelled within the last lease.
    pub(crate) fn contains(&self, execution: &ExecutionId) -> bool {
        let mut heard = self.lock();
        match heard.get(execution) {
            Some(at) if at.elapsed() < self.lease => true,
            Some(_) => heard.remove(execution).is_none(),
            None => false,
        }
    }
    fn lock(&self) -> MutexGuard<'_, HashMap<ExecutionId, Instant>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receives hints until the worker ends.
pub(crate) async fn listen(core: Arc<Core>) {
    let mut backoff = Backoff::default();
    loop {
        match core.jobs.hints().await {
            Ok(mut hints) => {
                core.listening.works();
                backoff.reset();
                while let Some(hint) = hints.next().await {
                    match hint {
                        Hint::Stop(execution) => hear(&core, execution),
                        Hint::HandedBack(shard) => core.handed_back.hear(&core, shard).await,
                    }
                }
            }
            Err(error) => core.listening.failed(&error),
        }
        backoff.wait().await;
    }
}

fn hear(core: &Arc<Core>, execution: ExecutionId) {
    core.remembered.add(execution);
    for (place, number) in core.in_flight.of_execution(&execution) {
        tokio::spawn(ask(core.clone(), place, number));
    }
}

/// Asks the store whether this worker still owns a job, and stops the job if not. After an error the heartbeat asks
/// again.
pub(crate) async fn ask(core: Arc<Core>, place: JobPlace, number: u32) {
    let answer = core.jobs.heartbeat(place.shard, &place.queue, &core.consumer, &[place.entry]).await;
    if answer.is_ok_and(|lost| lost.contains(&place.entry)) && core.in_flight.lose(&place, number) {
        metrics::JOBS_LOST.count();
        tracing::debug!(entry = %place.entry, "job was cancelled");
    }
}
