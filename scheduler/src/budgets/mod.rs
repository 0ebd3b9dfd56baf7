//! What API keys may spend on models. A key's spending is counted by the commits of all shards; each scheduler adds it up every second
//! for the keys that have a budget. Of one that has spent too much the runs on its shards are ended, paused ones too, and
//! new ones are refused everywhere.
//!
//! So a key can spend more than its budget by what its calls cost that are under way, or begin within that second.

mod budget;
mod meter;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::machine::run::RunStatus;
use tidemill_common::store::{CommandKey, ListRuns, RunCommand, Runs, StoreError, day_of};
use tidemill_common::wire::fact;
use tokio::sync::watch::Receiver;

use crate::lease::Lease;
pub use budget::KeyBudget;
pub use meter::Meter;

/// Between two looks at what keys have spent.
const LOOK: Duration = Duration::from_secs(1);
/// Between two looks while no key has a budget: the first one that is set counts after that at the latest.
const UNBOUND: Duration = Duration::from_secs(5);
/// Between two looks for runs of a key that has spent too much: some may have begun just before.
const AGAIN: Duration = Duration::from_secs(5);
/// Runs that are listed at once.
const PAGE: usize = 100;
/// The key of the command, so that a run is told once.
const COMMAND: &str = "tidemill:over_budget";

/// See the module.
#[derive(Clone)]
pub struct Budgets {
    store: Arc<dyn Runs>,
    exceeded: Arc<RwLock<BTreeMap<String, String>>>,
}

impl Budgets {
    /// Nothing is known yet of what keys have spent.
    pub fn new(store: Arc<dyn Runs>) -> Self {
        Self { store, exceeded: Arc::default() }
    }

    /// Why a key may spend nothing more, as of the last look.
    pub fn exceeded(&self, key: &str) -> Option<String> {
        self.exceeded.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Looks after keys, and after the runs on the shards of this process, until it is told to stop.
    pub async fn run(self, lease: Arc<Lease>, mut stop: Receiver<bool>) {
        let mut ended_at: Option<Instant> = None;
        while !*stop.borrow() {
            let (is_new, pause) = match self.look().await {
                Ok(None) => (false, UNBOUND),
                Ok(Some(is_new)) => (is_new, LOOK),
                Err(error) => {
                    tracing::warn!(%error, "budgets of keys have to wait for the store");
                    (false, LOOK)
                }
            };
            let is_due = ended_at.is_none_or(|at| at.elapsed() >= AGAIN);
            if self.is_any() && (is_new || is_due) {
                ended_at = Some(Instant::now());
                if let Err(error) = self.end_runs(&lease.shards()).await {
                    tracing::warn!(%error, "runs over the budget of their key have to wait for the store");
                    ended_at = None;
                }
            }
            tokio::select! {
                _ = stop.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    fn is_any(&self) -> bool {
        !self.exceeded.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Adds up what keys with a budget have spent; answers whether one has crossed it since the last look, and none if no key
    /// has one.
    async fn look(&self) -> Result<Option<bool>, StoreError> {
        let budgets = self.store.key_budgets().await?;
        let is_any = !budgets.is_empty();
        let mut exceeded = BTreeMap::new();
        if is_any {
            let day = day_of(self.store.time().await?);
            for (key, text) in budgets {
                match KeyBudget::read(&text) {
                    Ok(budget) => {
                        let (all, today) = (
                            self.store.key_spent(&key, None).await?,
                            self.store.key_spent(&key, Some(&day)).await?,
                        );
                        exceeded.extend(budget.crossed(&key, &all, &today).map(|reason| (key, reason)));
                    }
                    Err(reason) => tracing::error!(key, reason, "the budget of a key cannot be read"),
                }
            }
        }
        let mut known = self.exceeded.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = exceeded.keys().any(|key| !known.contains_key(key));
        *known = exceeded;
        Ok(is_any.then_some(is_new))
    }

    /// Ends the runs on these shards whose key has spent too much.
    async fn end_runs(&self, shards: &[ShardId]) -> Result<(), StoreError> {
        for status in [RunStatus::Running, RunStatus::Scheduled, RunStatus::Paused] {
            let mut before: Option<Timestamp> = None;
            loop {
                let query = ListRuns { status: Some(status), before, limit: PAGE };
                let runs = self.store.list_runs(&query).await?;
                let (is_full, asked) = (runs.len() >= PAGE, before);
                for run in runs {
                    let Some(fields) = self.store.run_fields(run).await? else { continue };
                    before =
                        fields.get("created_at").and_then(|at| at.parse().ok()).map(Timestamp::from_micros);
                    if !shards.contains(&run.shard()) {
                        continue;
                    }
                    if let Some(reason) = fields.get("key").and_then(|key| self.exceeded(key)) {
                        self.end(run, &reason).await?;
                    }
                }
                // A page of runs that were all removed meanwhile leads nowhere.
                if !is_full || before == asked {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn end(&self, run: RunId, reason: &str) -> Result<(), StoreError> {
        let key = CommandKey { key: COMMAND.into(), sha: COMMAND.into() };
        let body = fact::stop_body(reason);
        let command = RunCommand { key: Some(key), ..RunCommand::new(fact::kind::OVER_BUDGET, body) };
        let sent = self.store.send_command(run, &command).await?;
        tracing::info!(%run, reason, ?sent, "a run is ended for the budget of its key");
        Ok(())
    }
}
