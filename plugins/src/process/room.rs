//! Room for one more process when there are as many as there may be: the process that has been idle for the longest time ends,
//! and if none is idle, the invocation waits. A nested one does not wait for others ([`super::nested`]).

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::nested::Share;
use super::pool::Plugins;
use super::shared::{Shared, Stage, lock};
use super::{LOOK, Process, Session};

type Acquiring = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// The limits of processes, in words for [`super::ProcessError::Busy`].
const PROCESSES: &str = "processes_max";
const OUTERMOST: &str =
    "the part of processes_max that is not kept for calls of other plugins (nested_percent)";
const NESTED: &str = "processes_max, and what another plugin calls does not wait";

/// The wait of one invocation for a process. It keeps its place in the queues for permits.
pub(super) struct Room<'p> {
    plugins: &'p Plugins,
    is_nested: bool,
    /// What an outermost invocation needs besides a permit.
    share: Option<Share>,
    acquiring_share: Option<Acquiring>,
    permit: Option<OwnedSemaphorePermit>,
    acquiring: Option<Acquiring>,
    /// The process that ends for this invocation.
    ending: Option<Arc<Shared>>,
}

fn acquire(permits: &Arc<Semaphore>) -> Acquiring {
    Box::pin(permits.clone().acquire_owned())
}

impl<'p> Room<'p> {
    pub(super) fn new(plugins: &'p Plugins, is_nested: bool) -> Self {
        Self {
            plugins,
            is_nested,
            share: None,
            acquiring_share: None,
            permit: None,
            acquiring: None,
            ending: None,
        }
    }

    /// Begins a session in a process, if it has a place for this invocation.
    pub(super) fn enter(
        &mut self,
        process: &Process,
        open: impl FnOnce(&Process) -> Option<Session>,
    ) -> Option<Session> {
        if self.is_nested {
            return open(process);
        }
        let mut of_process = lock(&process.shared.outermost);
        let share = match of_process.upgrade() {
            Some(share) => share,
            None => self.has_share().then(|| self.share.clone()).flatten()?,
        };
        let session = open(process)?;
        *of_process = Arc::downgrade(&share);
        Some(session.sharing(share))
    }

    /// Whether this invocation may have a process of its own: with a share, which is taken if there is one, or without need.
    pub(super) fn has_share(&mut self) -> bool {
        if !self.is_nested && self.share.is_none() {
            self.share = self.plugins.outermost.clone().try_acquire_owned().ok().map(Arc::new);
            if self.share.is_some() {
                self.acquiring_share = None;
            }
        }
        self.is_nested || self.share.is_some()
    }

    /// The permit for a process, if there is one. The wait for it is over then.
    pub(super) fn take(&mut self) -> Option<OwnedSemaphorePermit> {
        let permit =
            self.permit.take().or_else(|| self.plugins.processes.clone().try_acquire_owned().ok())?;
        self.acquiring = None;
        Some(permit)
    }

    /// Waits for a short time, because there may be a place in another process by then.
    ///
    /// # Errors
    /// The limit, if it was in vain: at the deadline, and for a nested invocation if no process is idle.
    pub(super) async fn make(&mut self, deadline: Instant) -> Result<(), &'static str> {
        let now = Instant::now();
        let (has_share, until) = (self.has_share(), deadline.min(now + LOOK));
        if now >= deadline {
            return Err(if has_share { PROCESSES } else { OUTERMOST });
        }
        if !has_share {
            let acquiring = self.acquiring_share.get_or_insert_with(|| acquire(&self.plugins.outermost));
            if let Ok(acquired) = tokio::time::timeout_at(until, acquiring).await {
                self.acquiring_share = None;
                self.share = acquired.ok().map(Arc::new);
            }
            return Ok(());
        }
        let is_ending = |shared: &Arc<Shared>| !matches!(*shared.stage.borrow(), Stage::Ended { .. });
        if !self.ending.as_ref().is_some_and(is_ending) {
            self.ending = self.plugins.end_longest_idle();
        }
        let is_in_vain = self.is_nested && self.ending.is_none();
        let acquiring = self.acquiring.get_or_insert_with(|| acquire(&self.plugins.processes));
        // A permit may be there already.
        let acquired = tokio::time::timeout_at(if is_in_vain { now } else { until }, acquiring).await;
        match acquired {
            Ok(acquired) => {
                self.acquiring = None;
                self.permit = acquired.ok();
            }
            Err(_) if is_in_vain => return Err(NESTED),
            Err(_) => {}
        }
        Ok(())
    }
}
