//! Starts sub-workflow runs: workflows that are called as tools. Each order that a run's commit stored becomes a run on
//! the same shard.
//!
//! The script that creates the run removes the order. So one order becomes one run, however many schedulers look at it,
//! and no run when the caller has removed the order. An order that can never become a run is refused, and the caller's
//! node gets the reason. The owner of a shard looks when a commit has stored an order, and every few seconds in any
//! case.

mod order;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tidemill_common::nodes::tool::{APP_NOT_FOUND, APP_NOT_PUBLISHED};
use tidemill_common::store::{App, Refusal, Runs, StoreError, WaitingCall};
use tidemill_common::wire::fact::between_runs;
use tokio::sync::Notify;
use tokio::sync::watch::Receiver;

use crate::background::subruns::order::Order;
use crate::shards::lease::Lease;
use crate::submit::{CalledBy, Submission, SubmitError, Submitter, SystemValues, WorkflowSource};

/// The pause between two looks for orders that were not announced.
const POLL_PAUSE: Duration = Duration::from_secs(10);
/// The pause while an order has to wait, such as when the shard is too busy.
const BUSY_PAUSE: Duration = Duration::from_millis(200);
/// Runs that are created concurrently.
const AT_ONCE: usize = 8;

/// The reason why an order has not become a run.
#[derive(Debug, thiserror::Error)]
enum OrderError {
    /// It may succeed later.
    #[error("{0}")]
    Temporary(String),
    /// It will never succeed.
    #[error("{0}")]
    Permanent(String),
}

impl From<StoreError> for OrderError {
    fn from(error: StoreError) -> Self {
        if error.is_passing() {
            Self::Temporary(error.to_string())
        } else {
            Self::Permanent(error.to_string())
        }
    }
}

impl From<SubmitError> for OrderError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Store(error) => error.into(),
            SubmitError::Busy | SubmitError::QueueFull | SubmitError::BlobGone => {
                Self::Temporary(error.to_string())
            }
            other => Self::Permanent(other.to_string()),
        }
    }
}

/// Creates runs from orders.
#[derive(Clone)]
pub struct SubrunStarter {
    store: Arc<dyn Runs>,
    submitter: Arc<Submitter>,
    ordered: Arc<Notify>,
}

impl SubrunStarter {
    /// Creates it. `ordered` is notified when a commit has stored an order.
    pub fn new(store: Arc<dyn Runs>, submitter: Arc<Submitter>, ordered: Arc<Notify>) -> Self {
        Self { store, submitter, ordered }
    }

    /// Serves the shards that this process owns, until `stop` is set.
    pub async fn run(self, lease: Arc<Lease>, mut stop: Receiver<bool>) {
        while !*stop.borrow() {
            let shards = lease.shards();
            let pause = match self.create_waiting(&shards).await {
                Ok(true) => BUSY_PAUSE,
                Ok(false) => POLL_PAUSE,
                Err(error) => {
                    tracing::warn!(%error, "sub-workflow runs cannot be created yet");
                    BUSY_PAUSE
                }
            };
            tokio::select! {
                _ = stop.changed() => {}
                () = self.ordered.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Returns true when an order is left for later.
    async fn create_waiting(&self, shards: &[tidemill_common::ids::ShardId]) -> Result<bool, StoreError> {
        if shards.is_empty() {
            return Ok(false);
        }
        let waiting = self.store.waiting_calls(shards).await?;
        let created = stream::iter(waiting).map(|call| self.create(call)).buffer_unordered(AT_ONCE);
        Ok(created.fold(false, |any, left| async move { any || left }).await)
    }

    /// Creates one run. Returns true when the order is left for later.
    async fn create(&self, call: WaitingCall) -> bool {
        let (run, caller) = (call.run, call.caller);
        let error = match self.submit(&call).await {
            Ok(()) => return false,
            Err(error) => error,
        };
        match error {
            OrderError::Temporary(reason) => {
                tracing::debug!(%run, %caller, reason, "a sub-workflow run cannot be created yet");
                true
            }
            OrderError::Permanent(reason) => match self.refuse(&call, &reason).await {
                Ok(()) => false,
                Err(error) => {
                    tracing::warn!(%run, %caller, %error, "an order for a sub-workflow run cannot be refused yet");
                    true
                }
            },
        }
    }

    async fn submit(&self, call: &WaitingCall) -> Result<(), OrderError> {
        let order = self.store.call_order(call.caller, call.run).await?;
        let order = order.ok_or_else(|| OrderError::Permanent("the order of the call is gone".into()))?;
        let mut order = Order::read(&order).map_err(OrderError::Permanent)?;
        let inputs = order.open(&*self.store, call.caller.shard()).await?;
        let app = self.app(&order.app).await?;
        let caller = order.caller(call.caller);
        let submission = Submission {
            files: inputs.files,
            call_depth: order.depth,
            user: order.user,
            key: order.key,
            called: Some(CalledBy { call: call.clone(), caller, budget: order.budget }),
            ..Submission::of(WorkflowSource::App(Arc::new(app)), SystemValues::Standard, inputs.inputs)
        };
        match self.submitter.submit(submission).await {
            // Another scheduler was faster, or the caller has removed the order.
            Ok(_) | Err(SubmitError::Passed) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Finds an app by its id, or else by its name. The errors have Dify's words.
    async fn app(&self, wanted: &str) -> Result<App, OrderError> {
        let published = |app: App| match app.document.is_empty() {
            true => Err(OrderError::Permanent(APP_NOT_PUBLISHED.into())),
            false => Ok(app),
        };
        if let Some(app) = self.store.app(wanted).await? {
            return published(app);
        }
        let mut named = Vec::new();
        for id in self.store.apps().await? {
            named.extend(self.store.app(&id).await?.filter(|app| app.name == wanted));
        }
        match named.len() {
            0 => Err(OrderError::Permanent(format!(
                "{APP_NOT_FOUND}: no app has the id or the name {wanted}; for a UUID of Dify, publish its export with \
                 `tidemill apps add FILE --new-id {wanted}`"
            ))),
            1 => published(named.remove(0)),
            count => Err(OrderError::Permanent(format!(
                "{count} apps are called {wanted}; name one by its id instead"
            ))),
        }
    }

    async fn refuse(&self, call: &WaitingCall, reason: &str) -> Result<(), StoreError> {
        let order = self.store.call_order(call.caller, call.run).await?.unwrap_or_default();
        let (order, caller) = order::refused(&order, call.caller, reason);
        let why = Refusal { order, fact: between_runs::call_ended_body(&caller, call.run) };
        let is_refused = self.store.refuse_call(call, &why).await?;
        tracing::info!(run = %call.run, caller = %call.caller, reason, is_refused, "a sub-workflow run cannot be created");
        Ok(())
    }
}
