//! Takes an even share of all shards. Each shard is under a lease and has its own loop.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tidemill_common::config::SchedulerConfig;
use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::files::Files;
use tidemill_common::ids::ShardId;
use tidemill_common::store::StoreError;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use crate::background::budgets::Meter;
use crate::background::limits::Limiter;
use crate::metrics as names;
use crate::namespace::Namespace;
use crate::sealing::Sealing;
use crate::shards::lease::Lease;
use crate::shards::liveness::Liveness;
use crate::shards::repair::Findings;
use crate::shards::retention::Retention;
use crate::shards::shard_loop::{End, LoopContext};
use crate::stores::ShardStore;
use crate::workflows::Workflows;

/// The number of looks for shards without an owner, per lease time.
const POLLS_PER_LEASE: u64 = 10;
/// The shortest and the longest pause between tries while the store is down.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// Takes, runs and gives up the shards of this process.
pub struct ShardKeeper {
    /// The id of this scheduler, new for each start of the process.
    pub id: Arc<str>,
    /// The store, with connections for this thread's runtime.
    pub store: Arc<dyn ShardStore>,
    pub config: SchedulerConfig,
    /// Holds the files of the runs.
    pub files: Arc<dyn Files>,
    /// The workflow versions of the process.
    pub workflows: Arc<Workflows>,
    pub liveness: Arc<Liveness>,
    /// The leases, renewed by a separate thread.
    pub lease: Arc<Lease>,
    pub meter: Arc<Meter>,
    /// Follows the places of runs.
    pub limiter: Arc<Limiter>,
    /// Notified when a commit has stored orders for sub-workflow runs.
    pub ordered: Arc<Notify>,
    /// Notified when a commit has ordered a notice for a webhook.
    pub noticed: Arc<Notify>,
    /// The findings about lost jobs, kept from one loop of a shard to the next.
    pub findings: Findings,
    /// Raises the version of the namespace once all of its processes know it.
    pub sealing: Sealing,
    /// The settings of the namespace, for the whole process.
    pub namespace: Arc<Namespace>,
}

struct Owned {
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

/// A keeper that is dropped takes its loops with it. A loop that has ended is not touched.
impl Drop for Owned {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ShardKeeper {
    /// Takes and keeps shards until `stop` is set. Then each loop finishes its commit, and all shards are given up.
    pub async fn run(&self, mut stop: watch::Receiver<bool>) {
        let (ended, mut endings) = mpsc::unbounded_channel();
        let mut owned: HashMap<ShardId, Owned> = HashMap::new();
        let mut pause = PAUSES[0];
        let mut rests_until = Instant::now();
        while !*stop.borrow() {
            self.liveness.beat();
            // The loop turns meanwhile: other shards may end, and /livez sees it move.
            let rest = rests_until.saturating_duration_since(Instant::now());
            let looked = if rest.is_zero() { self.look_around(&mut owned, &ended).await } else { Ok(false) };
            let wait = match looked {
                Ok(_) if !rest.is_zero() => rest.min(self.look_every(false)),
                Ok(owns_all) => {
                    pause = PAUSES[0];
                    self.look_every(owns_all)
                }
                Err(error @ StoreError::Newer { .. }) => {
                    tracing::error!(%error, "shards are left to newer schedulers");
                    self.give_up_all(std::mem::take(&mut owned)).await;
                    PAUSES[1]
                }
                Err(error) => {
                    tracing::warn!(%error, "shards cannot be checked yet");
                    pause = (pause * 2).min(PAUSES[1]);
                    pause
                }
            };
            metrics::gauge!(names::SHARDS.name).set(owned.len() as f64);
            tokio::select! {
                _ = stop.changed() => {}
                Some((shard, end)) = endings.recv() => {
                    let rest = self.ended(&mut owned, shard, end).await;
                    rests_until = rests_until.max(Instant::now() + rest.unwrap_or_default());
                }
                () = tokio::time::sleep(wait) => {}
            }
        }
        self.give_up_all(owned).await;
    }

    /// The pause between two looks. It is short, because a free shard has no owner until this look; its lease has run
    /// out before. A scheduler that owns all shards only waits for others to come.
    fn look_every(&self, owns_all: bool) -> Duration {
        let renew = self.config.shard_renew_ms;
        let short = (self.config.shard_lease_ms / POLLS_PER_LEASE).min(renew);
        Duration::from_millis(if owns_all { renew } else { short })
    }

    /// Announces that this process lives, and takes or gives up shards so that all schedulers have about the same
    /// number. Returns true if this process owns all shards.
    async fn look_around(
        &self,
        owned: &mut HashMap<ShardId, Owned>,
        ended: &mpsc::UnboundedSender<(ShardId, End)>,
    ) -> Result<bool, StoreError> {
        let lease = Duration::from_millis(self.config.shard_lease_ms);
        // Checked first: a process that may not own shards must not announce itself.
        let meta = self.store.meta().await?;
        self.namespace.note(meta);
        let shards = meta.shards;
        let live = self.store.announce_scheduler(&self.id, lease).await?;
        self.sealing.settle(&*self.store, meta.version).await;
        let share = share_of(usize::from(shards), &live, &self.id);
        while owned.len() > share {
            let Some(most) = owned.keys().max().copied() else { break };
            if let Some(one) = owned.remove(&most) {
                tracing::info!(shard = %most, share, "giving a shard up to another scheduler");
                self.let_go(most, one).await;
            }
        }
        let mut failed = None;
        for shard in (0..shards).map(ShardId) {
            if owned.len() >= share {
                break;
            }
            if owned.contains_key(&shard) {
                continue;
            }
            match self.take(shard, lease, ended).await {
                Ok(Some(one)) => drop(owned.insert(shard, one)),
                Ok(None) => {}
                // In a cluster the other shards may be on servers that answer.
                Err(error) if error.is_passing() => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(owned.len() == usize::from(shards)),
        }
    }

    async fn take(
        &self,
        shard: ShardId,
        lease: Duration,
        ended: &mpsc::UnboundedSender<(ShardId, End)>,
    ) -> Result<Option<Owned>, StoreError> {
        if self.store.holder(shard).await?.is_some_and(|holder| *holder != *self.id) {
            return Ok(None);
        }
        let Some(owner) = self.store.claim(shard, &self.id, lease).await? else { return Ok(None) };
        crash::pass(CrashPoint::ShardClaimed);
        let claim = owner.claim();
        tracing::info!(%shard, epoch = claim.epoch, cursor = %claim.cursor, "took a shard");
        metrics::counter!(names::TAKEOVERS.name).increment(1);
        let liveness = Arc::new(Liveness::default());
        self.lease.keep(shard, liveness.clone());
        let context = LoopContext {
            store: self.store.clone(),
            workflows: self.workflows.clone(),
            cache_bytes: self.config.run_cache_bytes,
            liveness,
            repair_every: Duration::from_secs(self.config.repair_seconds.max(1)),
            found: self.findings.of(shard),
            files: self.files.clone(),
            ordered: self.ordered.clone(),
            noticed: self.noticed.clone(),
            meter: self.meter.clone(),
            limiter: self.limiter.clone(),
            namespace: self.namespace.clone(),
            retention: Retention {
                age: Duration::from_secs(self.config.retention_seconds),
                bytes: self.config.retention_bytes,
            },
        };
        let (stop, stopped) = watch::channel(false);
        let (ended, lost) = (ended.clone(), self.lease.lost(shard));
        let task = tokio::spawn(async move {
            let turning = AssertUnwindSafe(context.run(owner, stopped)).catch_unwind();
            let end = tokio::select! {
                end = turning => end.unwrap_or_else(|_| panicked(shard)),
                () = lost => End::Lost,
            };
            // The receiver is gone when the process is stopping.
            drop(ended.send((shard, end)));
        });
        Ok(Some(Owned { stop, task }))
    }

    /// Handles a loop that has ended: its memory is gone, and the shard is taken again if it is free. Returns the time in
    /// which no shards are to be taken.
    async fn ended(&self, owned: &mut HashMap<ShardId, Owned>, shard: ShardId, end: End) -> Option<Duration> {
        owned.remove(&shard);
        self.lease.forget(shard);
        match end {
            End::Stopped => {}
            End::Lost => tracing::warn!(%shard, "another scheduler has the shard"),
            End::Retake(error @ StoreError::Newer { .. }) => {
                tracing::error!(%shard, %error, "the shard is left to a newer scheduler");
                self.release(shard).await;
                // For this long we are not announced as live, so that others take the shard.
                return Some(Duration::from_millis(self.config.shard_lease_ms));
            }
            End::Retake(error) => {
                tracing::warn!(%shard, %error, "giving up the shard to take it again");
                // A store that is down does not come back faster when it is asked more often.
                return Some(PAUSES[0]);
            }
        }
        None
    }

    async fn let_go(&self, shard: ShardId, mut one: Owned) {
        let _ = one.stop.send(true);
        if (&mut one.task).await.is_err() {
            tracing::error!(%shard, "the loop of a shard panicked");
        }
        self.lease.forget(shard);
        crash::pass(CrashPoint::ReleaseBegun);
        self.release(shard).await;
    }

    async fn release(&self, shard: ShardId) {
        if let Err(error) = self.store.release(shard, &self.id).await {
            tracing::warn!(%shard, %error, "a shard could not be given up; its lease will run out");
        }
    }

    async fn give_up_all(&self, owned: HashMap<ShardId, Owned>) {
        for one in owned.values() {
            let _ = one.stop.send(true);
        }
        for (shard, one) in owned {
            self.let_go(shard, one).await;
        }
        if let Err(error) = self.store.retire_scheduler(&self.id).await {
            tracing::warn!(%error, "the process stays in the list of schedulers until its entry expires");
        }
    }
}

/// The number of shards for one of the live schedulers. All of them compute the same shares, which differ by at most one:
/// what is left over goes to the first by their ids.
fn share_of(shards: usize, live: &[String], id: &str) -> usize {
    let count = live.len().max(1);
    let before = live.iter().filter(|other| other.as_str() < id).count();
    shards / count + usize::from(before < shards % count)
}

/// Handles a panic outside of a step. If only the task ended, nothing would run the shard any more. So the shard is
/// taken again; after several take-overs facts are applied one by one, which gets past the fact that causes the panic.
fn panicked(shard: ShardId) -> End {
    metrics::counter!(names::PANICS.name).increment(1);
    tracing::error!(%shard, "the loop of a shard panicked");
    End::Retake(StoreError::Unexpected { doing: "turning a shard", reason: "the loop panicked".into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_differ_by_at_most_one_and_are_all_shards_together() {
        for (shards, schedulers) in [(64, 10), (2, 3), (7, 7), (16, 1), (1, 2), (5, 4)] {
            let live: Vec<String> = (0..schedulers).map(|n| format!("s-{n:02}")).collect();
            let shares: Vec<usize> = live.iter().map(|id| share_of(shards, &live, id)).collect();
            assert_eq!(shares.iter().sum::<usize>(), shards, "{shares:?}");
            let (least, most) = (shares.iter().min(), shares.iter().max());
            assert!(most <= least.map(|least| least + 1).as_ref(), "{shares:?}");
        }
        assert_eq!(share_of(4, &[], "s-1"), 4, "before it is in the list");
    }
}
