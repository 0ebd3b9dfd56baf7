//! Room for one more process when there are as many as there may be: the process that has been idle for the longest time ends,
//! and if none is idle, the invocation waits.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{AcquireError, OwnedSemaphorePermit};
use tokio::time::Instant;

use super::LOOK;
use super::pool::Plugins;
use super::shared::{Shared, Stage};

type Acquiring = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// The wait of one invocation for a permit. It keeps its place in the queue for permits.
pub(super) struct Room<'p> {
    plugins: &'p Plugins,
    acquiring: Option<Acquiring>,
    permit: Option<OwnedSemaphorePermit>,
    /// The process that ends for this invocation.
    ending: Option<Arc<Shared>>,
}

impl<'p> Room<'p> {
    pub(super) fn new(plugins: &'p Plugins) -> Self {
        Self { plugins, acquiring: None, permit: None, ending: None }
    }

    /// The permit, once there is one.
    pub(super) fn take(&mut self) -> Option<OwnedSemaphorePermit> {
        self.permit.take()
    }

    /// Waits for a short time, because there may be a place in another process by then.
    pub(super) async fn make(&mut self, deadline: Instant) {
        let is_ending = |shared: &Arc<Shared>| !matches!(*shared.stage.borrow(), Stage::Ended { .. });
        if !self.ending.as_ref().is_some_and(is_ending) {
            self.ending = self.plugins.end_longest_idle();
        }
        let processes = &self.plugins.processes;
        let acquiring = self.acquiring.get_or_insert_with(|| Box::pin(processes.clone().acquire_owned()));
        let until = deadline.min(Instant::now() + LOOK);
        if let Ok(acquired) = tokio::time::timeout_at(until, acquiring).await {
            self.acquiring = None;
            self.permit = acquired.ok();
        }
    }
}
