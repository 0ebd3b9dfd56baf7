//! Submissions that are acknowledged only when they are durable: the run is created as any other, and then waited for.

use std::time::Duration;

use tidemill_common::ids::RunId;
use tidemill_common::store::{Durability, Unconfirmed, Written};

use super::{Submission, SubmitError, Submitted, Submitter, WorkflowSource};

impl Submitter {
    /// Creates the run, or finds the one that the same request created before, and waits until it is as durable as the
    /// request or `scheduler.durability` asks. When this returns `Ok`, the run will be executed, even if this process dies
    /// at once.
    ///
    /// # Errors
    /// See [`SubmitError`]; nothing was created then, except perhaps when the store did not answer, and after
    /// [`SubmitError::Unconfirmed`]. Under an idempotency key the request can be repeated safely.
    pub async fn submit(&self, submission: Submission) -> Result<Submitted, SubmitError> {
        let level = self.level_of(&submission);
        self.gives(level).await?;
        let submitted = self.create_or_find(submission).await?;
        self.confirm(Written::Run(submitted.run), level).await?;
        Ok(submitted)
    }

    /// The level for what a client asked for; the default if it asked for none.
    pub fn durability(&self, asked: Option<Durability>) -> Durability {
        asked.unwrap_or(self.config.scheduler.durability)
    }

    /// Runs that no client submitted need no more than what waits for them.
    fn level_of(&self, it: &Submission) -> Durability {
        let is_inner = matches!(it.workflow, WorkflowSource::BuiltIn(_));
        if is_inner || it.schedule.is_some() || it.called.is_some() {
            return Durability::Memory;
        }
        self.durability(it.durability)
    }

    /// Succeeds when the store can give this durability.
    ///
    /// # Errors
    /// [`SubmitError::Undurable`] with what to set.
    pub async fn gives(&self, level: Durability) -> Result<(), SubmitError> {
        if level == Durability::Memory {
            return Ok(());
        }
        self.store.durable().gives(level).await.map_err(|why| match why {
            Unconfirmed::Store(error) => error.into(),
            why @ (Unconfirmed::Unsupported(_)
            | Unconfirmed::Late { .. }
            | Unconfirmed::NoReplica
            | Unconfirmed::NoLongerMaster
            | Unconfirmed::Lost) => SubmitError::Undurable(why.to_string()),
        })
    }

    /// Waits until what was written is durable.
    ///
    /// # Errors
    /// [`SubmitError::Unconfirmed`].
    pub async fn confirm(&self, written: Written, level: Durability) -> Result<(), SubmitError> {
        if level == Durability::Memory {
            return Ok(());
        }
        let run: RunId = written.run();
        let within = Duration::from_millis(self.config.scheduler.durability_wait_ms);
        self.store.durable().confirm(written, level, within).await.map_err(|why| {
            tracing::warn!(%run, durability = level.name(), error = %why, "a write is not known to be durable");
            SubmitError::Unconfirmed { run, why: Box::new(why) }
        })
    }
}
