//! Enforces the budgets of API keys. Commits of all shards count what a key spends. Every second each scheduler adds up
//! the spending of the keys that have a budget. When a key has spent too much, the scheduler ends its runs on the own
//! shards, paused ones too, and every scheduler refuses new ones.
//!
//! So a key can exceed its budget by the cost of the calls that are in flight, or begin within that second.

mod budget;
mod meter;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{CommandKey, ListRuns, RunCommand, Runs, StoreError, day_of};
use tidemill_common::wire::fact;
use tokio::sync::watch::Receiver;

pub use crate::background::budgets::budget::KeyBudget;
pub use crate::background::budgets::meter::Meter;
use crate::shards::lease::Lease;

/// The pause between two checks of what keys have spent.
const POLL_PAUSE: Duration = Duration::from_secs(1);
/// The pause while no key has a budget. The first budget takes effect after this time at the latest.
const UNBOUND: Duration = Duration::from_secs(5);
/// The pause between two searches for runs of a key that has spent too much: some may have begun just before.
const AGAIN: Duration = Duration::from_secs(5);
/// The pause between two searches through all open runs. Other searches only look at new runs.
const ALL_AGAIN: Duration = Duration::from_secs(60);
/// The longest time between the creation of a run and its entry in the lists.
const LATE: Duration = Duration::from_secs(60);
/// Runs in one page of the list. Their keys are read concurrently.
const PAGE: usize = 100;
/// The idempotency key of the command: a run gets it only once.
const COMMAND: &str = "tidemill:over_budget";

/// Knows the keys that have spent too much, and ends their runs.
#[derive(Clone)]
pub struct Budgets {
    store: Arc<dyn Runs>,
    exceeded: Arc<RwLock<BTreeMap<String, String>>>,
}

impl Budgets {
    /// Creates it. No spending is known yet.
    pub fn new(store: Arc<dyn Runs>) -> Self {
        Self { store, exceeded: Arc::default() }
    }

    /// Returns why a key may spend nothing more, as of the last check.
    pub fn exceeded(&self, key: &str) -> Option<String> {
        self.exceeded.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Checks the keys, and the runs on the shards of this process, until `stop` is set.
    pub async fn run(self, lease: Arc<Lease>, mut stop: Receiver<bool>) {
        let mut looks = Looks::default();
        while !*stop.borrow() {
            let (is_new, pause) = match self.refresh().await {
                Ok(None) => (false, UNBOUND),
                Ok(Some(is_new)) => (is_new, POLL_PAUSE),
                Err(error) => {
                    tracing::warn!(%error, "budgets of keys cannot be checked yet");
                    (false, POLL_PAUSE)
                }
            };
            if self.is_any()
                && let Some(which) = looks.due(Instant::now(), is_new, lease.shards())
                && let Err(error) = self.end_runs(which, &looks.shards).await
            {
                tracing::warn!(%error, "runs over the budget of their key cannot be ended yet");
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

    /// Adds up the spending of the keys that have a budget. Returns whether a key has exceeded its budget since the
    /// last check, or `None` if no key has a budget.
    async fn refresh(&self) -> Result<Option<bool>, StoreError> {
        let budgets = self.store.key_budgets().await?;
        let is_any = !budgets.is_empty();
        let mut exceeded = BTreeMap::new();
        if is_any {
            let day = day_of(self.store.time().await?);
            for (key, text) in budgets {
                match KeyBudget::read(&text) {
                    Ok(budget) => {
                        let (all, today) = (
                            self.store.key_cost(&key, None).await?,
                            self.store.key_cost(&key, Some(&day)).await?,
                        );
                        exceeded.extend(budget.crossed(&key, &all, &today).map(|reason| (key, reason)));
                    }
                    Err(reason) => tracing::error!(key, reason, "the stored budget of a key is invalid"),
                }
            }
        }
        let mut known = self.exceeded.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = exceeded.keys().any(|key| !known.contains_key(key));
        *known = exceeded;
        Ok(is_any.then_some(is_new))
    }

    /// Ends runs on these shards whose key has spent too much.
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
                let runs = self
                    .store
                    .list_runs(&ListRuns {
                        status,
                        before,
                        since,
                        shards,
                        limit: PAGE,
                        ..ListRuns::default()
                    })
                    .await?;
                let (is_full, earlier) = (runs.len() >= PAGE, before);
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
                // The time did not move on (all runs of the page were removed): the next page would be the same one.
                if !is_full || before == earlier {
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
        tracing::info!(%run, reason, ?sent, "a run is ended because its key is over its budget");
        Ok(())
    }
}

/// The runs that a search covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// Runs that were created within this time.
    CreatedWithin(Duration),
}

/// The searches so far. Their cost depends on the number of new runs, not of open ones. All open runs are searched when
/// something is new, and once a minute: a run that changes its status during a search can be missing from both lists.
#[derive(Debug, Default)]
struct Looks {
    last: Option<Instant>,
    /// The time of the last search through all runs.
    all: Option<Instant>,
    /// The shards of the last search.
    shards: Vec<ShardId>,
}

impl Looks {
    /// Returns the search that is due. `is_new`: a key has just exceeded its budget.
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
    fn all_open_runs_are_searched_when_something_is_new_and_once_a_minute() {
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
