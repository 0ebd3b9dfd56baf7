//! Renews the leases of our shards from a separate thread, so that a busy loop does not lose them. It renews only while
//! the loop of a shard turns, so that a stuck loop does lose its shard.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidemill_common::ids::ShardId;
use tokio::sync::watch;

use crate::shards::liveness::Liveness;
use crate::stores::LeaseStore;

/// A loop counts as stuck after this many lease times without a turn. One is too few: a commit may wait for a slow
/// disk.
const STUCK_LEASES: u32 = 4;

struct RenewedLease {
    liveness: Arc<Liveness>,
    lost: watch::Sender<bool>,
}

/// The leases of this process.
pub struct Lease {
    id: Arc<str>,
    lease_ms: u64,
    renew_ms: u64,
    leases: Mutex<HashMap<ShardId, RenewedLease>>,
    stop: watch::Sender<bool>,
}

impl Lease {
    /// Creates it without leases.
    pub fn new(id: Arc<str>, lease_ms: u64, renew_ms: u64) -> Self {
        Self { id, lease_ms, renew_ms, leases: Mutex::default(), stop: watch::channel(false).0 }
    }

    /// Renews the lease of a shard from now on, while its loop turns.
    pub fn keep(&self, shard: ShardId, liveness: Arc<Liveness>) {
        self.lock().insert(shard, RenewedLease { liveness, lost: watch::channel(false).0 });
    }

    /// Stops renewing the lease of a shard.
    pub fn forget(&self, shard: ShardId) {
        self.lock().remove(&shard);
    }

    /// The shards whose leases are renewed, sorted.
    pub fn shards(&self) -> Vec<ShardId> {
        let mut shards: Vec<ShardId> = self.lock().keys().copied().collect();
        shards.sort();
        shards
    }

    /// Completes when the lease of the shard is lost.
    pub fn lost(&self, shard: ShardId) -> impl Future<Output = ()> + Send + use<> {
        let receiver = self.lock().get(&shard).map(|lease| lease.lost.subscribe());
        async move {
            let Some(mut receiver) = receiver else { return std::future::pending().await };
            while !*receiver.borrow() {
                if receiver.changed().await.is_err() {
                    // The caller of `forget` ends the loop itself.
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Makes [`Lease::run`] return.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Renews leases until [`Lease::stop`]. Runs on its own thread and runtime.
    pub async fn run(&self, store: LeaseStore) {
        let mut stop = self.stop.subscribe();
        loop {
            tokio::select! {
                _ = stop.wait_for(|is_stopping| *is_stopping) => return,
                () = tokio::time::sleep(Duration::from_millis(self.renew_ms)) => {}
            }
            let shards = self.moving();
            if shards.is_empty() {
                continue;
            }
            let lease = Duration::from_millis(self.lease_ms);
            match store.renew(&shards, &self.id, lease).await {
                Ok(lost) => lost.into_iter().for_each(|shard| self.report_lost(shard)),
                Err(error) => tracing::warn!(%error, "leases could not be renewed"),
            }
        }
    }

    fn moving(&self) -> Vec<ShardId> {
        let leases = self.lock();
        let silence = Duration::from_millis(self.lease_ms) * STUCK_LEASES;
        let moves = |lease: &RenewedLease| lease.liveness.moved_within(silence);
        let mut shards: Vec<ShardId> = leases.iter().filter(|(_, k)| moves(k)).map(|(s, _)| *s).collect();
        shards.sort();
        shards
    }

    fn report_lost(&self, shard: ShardId) {
        tracing::warn!(%shard, "the lease of a shard is lost");
        if let Some(lease) = self.lock().get(&shard) {
            lease.lost.send_replace(true);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ShardId, RenewedLease>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stuck_loop_loses_its_lease_and_a_turning_loop_keeps_it() {
        let lease = Lease::new("s-1".into(), 5_000, 1_000);
        let [stuck, turning] = [Arc::new(Liveness::default()), Arc::new(Liveness::default())];
        lease.keep(ShardId(0), stuck.clone());
        lease.keep(ShardId(1), turning.clone());
        stuck.beat();
        tokio::time::advance(Duration::from_secs(20)).await;
        turning.beat();
        assert_eq!(lease.moving(), [ShardId(0), ShardId(1)]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(lease.moving(), [ShardId(1)]);
    }
}
