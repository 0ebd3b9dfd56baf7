//! Background work of a shard's owner, one task at a time, so that none of it delays facts.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::ids::RunId;
use tidemill_common::store::{Indexed, StoreError};
use tidemill_common::wire::RUNS_OF_APPS;
use tokio::time::Instant;

use crate::metrics as names;
use crate::shards::batch::Batch;
use crate::shards::retention::Swept;
use crate::shards::shard_loop::{Committing, ShardLoop};

/// Applied facts after which the inbox is trimmed.
const TRIM_EVERY: usize = 1000;
/// The most runs that are listed by app in one task.
const LISTED_AT_ONCE: usize = 200;
/// The pause after runs could not be listed, or have to be listed later.
const INDEX_PAUSE: Duration = Duration::from_secs(30);
/// Time after which fewer facts are trimmed too: until then they count towards the limit of the inbox.
const TRIM_PAUSE: Duration = Duration::from_secs(5);

impl ShardLoop<'_> {
    /// Starts the next background task if none runs: trimming, sweeping, looking for lost jobs, or listing runs of an earlier
    /// version by app.
    pub(super) fn start_housekeeping(&mut self) {
        if self.housekeeping.is_some() {
            return;
        }
        let (store, shard, epoch) = (self.context.store.clone(), self.shard, self.epoch);
        let is_trim_due = self.since_trim > 0 && self.trimmed_at.elapsed() >= TRIM_PAUSE;
        if self.since_trim >= TRIM_EVERY || is_trim_due {
            self.since_trim = 0;
            self.trimmed_at = Instant::now();
            self.housekeeping = Some(Box::pin(async move {
                crash::pass(CrashPoint::TrimBegun);
                store.trim_inbox(shard, epoch).await?;
                crash::pass(CrashPoint::TrimDone);
                let left = store.inbox_len(shard).await?;
                metrics::gauge!(names::INBOX.name, "shard" => shard.to_string()).set(left as f64);
                Ok(Swept::default())
            }));
        } else if Instant::now() >= self.sweep_at {
            let label = shard.to_string();
            metrics::gauge!(names::CACHE_BYTES.name, "shard" => label.clone()).set(self.cache.bytes() as f64);
            metrics::gauge!(names::CACHE_RUNS.name, "shard" => label).set(self.cache.len() as f64);
            let (retention, now) = (self.context.retention, self.now());
            self.sweep_at = Instant::now() + Swept::default().pause;
            let files = self.context.files.clone();
            self.housekeeping =
                Some(Box::pin(async move { retention.sweep(&*store, &*files, shard, epoch, now).await }));
        } else if let Some(pass) =
            self.repair.due(&self.cache, || uncommitted(self.committing.as_ref(), self.next.as_ref()))
        {
            let workflows = self.context.workflows.clone();
            let found = self.repair.found();
            self.housekeeping = Some(Box::pin(async move {
                pass.run(&*store, &workflows, shard, found).await?;
                Ok(Swept::default())
            }));
        } else if self.index_at.is_some_and(|at| at <= Instant::now())
            && self.context.namespace.known().is_some_and(|meta| meta.version >= RUNS_OF_APPS)
        {
            let now = self.now();
            self.index_at = Some(Instant::now() + INDEX_PAUSE);
            self.housekeeping = Some(Box::pin(async move {
                let indexed = store.index_runs(shard, epoch, now, LISTED_AT_ONCE).await?;
                Ok(Swept { indexed: Some(indexed), ..Swept::default() })
            }));
        }
    }

    pub(super) fn housekeeping_done(&mut self, done: Result<Swept, StoreError>) {
        match done {
            Ok(swept) => {
                metrics::counter!(names::SWEPT.name).increment(swept.aged as u64);
                metrics::counter!(names::EVICTED.name).increment(swept.evicted as u64);
                match swept.indexed {
                    Some(Indexed::More) => self.index_at = Some(Instant::now()),
                    Some(Indexed::All) => self.index_at = None,
                    Some(Indexed::Later) | None => {}
                }
                self.sweep_at = self.sweep_at.min(Instant::now() + swept.pause);
            }
            // The main loop notices when the store is down; here it only means a delay.
            Err(error) => {
                tracing::debug!(shard = %self.shard, %error, "background work of the shard has to wait")
            }
        }
        let lost = self.repair.take_lost();
        if !lost.is_empty() {
            self.lost.0 = self.now();
            self.lost.1.extend(lost);
        }
    }
}

/// Runs with changes that are not written yet.
fn uncommitted(committing: Option<&(Instant, Batch, Committing)>, next: Option<&Batch>) -> HashSet<RunId> {
    let batches = committing.map(|(_, batch, _)| batch).into_iter().chain(next);
    batches.flat_map(|batch| batch.touched.iter().copied()).collect()
}

/// Waits for the running background task; for ever when there is none.
pub(super) async fn poll_housekeeping(
    housekeeping: &mut Option<BoxFuture<'static, Result<Swept, StoreError>>>,
) -> Result<Swept, StoreError> {
    let Some(future) = housekeeping.as_mut() else { return std::future::pending().await };
    let done = future.await;
    *housekeeping = None;
    done
}
