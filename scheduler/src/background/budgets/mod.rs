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

pub use crate::background::budgets::budget::KeyBudget;
pub use crate::background::budgets::meter::Meter;
use crate::shards::lease::Lease;

/// Between two looks at what keys have spent.
const LOOK: Duration = Duration::from_secs(1);
/// Between two looks while no key has a budget: the first one that is set counts after that at the latest.
const UNBOUND: Duration = Duration::from_secs(5);
/// Between two looks for runs of a key that has spent too much: some may have begun just before.
const AGAIN: Duration = Duration::from_secs(5);
/// Between two looks at all runs that are open, not only at those that have begun meanwhile.
const ALL_AGAIN: Duration = Duration::from_secs(60);
/// How long before a look a run may have been created that was not in the lists yet.
const LATE: Duration = Duration::from_secs(60);
/// Runs that are listed at once, and whose keys are asked for side by side.
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
        let mut looks = Looks::default();
        while !*stop.borrow() {
            let (is_new, pause) = match self.look().await {
                Ok(None) => (false, UNBOUND),
                Ok(Some(is_new)) => (is_new, LOOK),
                Err(error) => {
                    tracing::warn!(%error, "budgets of keys have to wait for the store");
                    (false, LOOK)
                }
            };
            if self.is_any()
                && let Some(which) = looks.due(Instant::now(), is_new, lease.shards())
                && let Err(error) = self.end_runs(which, &looks.shards).await
            {
                tracing::warn!(%error, "runs over the budget of their key have to wait for the store");
                looks = Looks::default();
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
    async fn end_runs(&self, which: Which, shards: &[ShardId]) -> Result<(), StoreError> {
        let since = match which {
            Which::All => None,
            Which::CreatedWithin(age) => {
                let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
                Some(Timestamp::from_micros(self.store.time().await?.micros().saturating_sub(age)))
            }
        };
        for status in [RunStatus::Running, RunStatus::Scheduled, RunStatus::Paused] {
            let mut before: Option<Timestamp> = None;
            loop {
                let (status, shards) = (Some(status), Some(shards.to_vec()));
                let runs =
                    self.store.list_runs(&ListRuns { status, before, since, shards, limit: PAGE }).await?;
                let (is_full, asked) = (runs.len() >= PAGE, before);
                let fields = runs.iter().map(|run| self.store.run_fields(*run));
                let fields = futures_util::future::try_join_all(fields).await?;
                for (run, fields) in runs.into_iter().zip(fields) {
                    let Some(fields) = fields else { continue };
                    before =
                        fields.get("created_at").and_then(|at| at.parse().ok()).map(Timestamp::from_micros);
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

/// Which runs a look is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// Those that were created so long ago or less.
    CreatedWithin(Duration),
}

/// The looks at runs so far. What they read follows from what has begun, not from what is open: all open runs are read
/// when something is new, and now and then, since a run that changes its status meanwhile can be in neither list.
#[derive(Debug, Default)]
struct Looks {
    last: Option<Instant>,
    /// When all were looked at.
    all: Option<Instant>,
    /// On these shards.
    shards: Vec<ShardId>,
}

impl Looks {
    /// Which runs it is time to look at. `is_new`: a key has crossed its budget just now.
    fn due(&mut self, now: Instant, is_new: bool, shards: Vec<ShardId>) -> Option<Which> {
        let since = |at: Option<Instant>| at.map(|at| now.saturating_duration_since(at));
        let more = shards.iter().any(|shard| !self.shards.contains(shard));
        self.shards = shards;
        if is_new || more || since(self.all).is_none_or(|age| age >= ALL_AGAIN) {
            (self.last, self.all) = (Some(now), Some(now));
            return Some(Which::All);
        }
        let age = since(self.last).filter(|age| *age >= AGAIN)?;
        self.last = Some(now);
        Some(Which::CreatedWithin(age + LATE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_open_runs_are_read_when_something_is_new_and_else_once_a_minute() {
        let (mut looks, begin) = (Looks::default(), Instant::now());
        let shards = |count: u16| (0..count).map(ShardId).collect::<Vec<_>>();
        let within = |seconds| Some(Which::CreatedWithin(Duration::from_secs(seconds)));
        for (second, is_new, count, expected) in [
            (0, false, 2, Some(Which::All)),
            (1, false, 2, None),
            (5, false, 2, within(65)),
            (6, false, 2, None),
            (12, false, 2, within(67)),
            (13, true, 2, Some(Which::All)),
            (14, false, 3, Some(Which::All)),
            (15, false, 1, None),
            (20, false, 1, within(66)),
            (74, false, 1, Some(Which::All)),
        ] {
            let now = begin + Duration::from_secs(second);
            assert_eq!(looks.due(now, is_new, shards(count)), expected, "second {second}");
        }
    }
}
