//! Looks, in small pieces, for executions whose job is neither waiting nor held by anybody: deleted by hand, or lost
//! with Redis. They are enqueued again.
//!
//! A job that has just ended looks the same until its result is applied; so a job counts as lost only when two looks in
//! a row miss it.
//!
//! What looks have found, and when the next one is due, belongs to the process and not to the loop that turns a shard: a
//! shard that is taken anew again and again is looked through all the same. A process that has just begun looks soon, and
//! soon once more, since it may not live for long.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidemill_common::graph::NodeIx;
use tidemill_common::ids::{EntryId, RunId, ShardId};
use tidemill_common::machine::RunState;
use tidemill_common::machine::fact::JobLost;
use tidemill_common::store::StoreError;
use tokio::time::Instant;

use crate::metrics as names;
use crate::shards::batch::Input;
use crate::shards::run_cache;
use crate::shards::run_cache::{LoadError, RunCache};
use crate::stores::ShardStore;
use crate::workflows::Workflows;

/// Runs in one piece.
const PIECE: usize = 50;

/// Suspects that two rounds do not miss again are forgotten this long after.
const REMEMBER: Duration = Duration::from_secs(600);

/// Until the first round of looks in a process, and between that and the second; later ones come at their own pace.
const FIRST_ROUNDS: Duration = Duration::from_secs(5);
/// Rounds that come sooner.
const FIRST_ROUNDS_MAX: usize = 2;
/// Between two pieces of one round.
const PIECE_PAUSE: Duration = Duration::from_secs(1);

/// What looks have found, for each shard that this process has owned.
#[derive(Debug, Default)]
pub struct Findings(Mutex<HashMap<ShardId, Arc<Mutex<Found>>>>);

impl Findings {
    /// Those of a shard.
    pub fn of(&self, shard: ShardId) -> Arc<Mutex<Found>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(shard).or_default().clone()
    }
}

/// What looks share.
#[derive(Debug, Default)]
pub struct Found {
    /// The last look; at first the moment when the process took the shard.
    looked_at: Option<Instant>,
    /// Whole rounds so far.
    rounds: usize,
    /// Missed once.
    suspects: HashMap<(RunId, EntryId), Instant>,
    /// Missed twice.
    lost: Vec<(RunId, JobLost)>,
    /// Queues that were trimmed in this round.
    trimmed: HashSet<Arc<str>>,
    /// Where the next piece begins.
    from: Option<usize>,
}

/// Decides when to look.
pub struct Repair {
    every: Duration,
    found: Arc<Mutex<Found>>,
}

/// One look at a piece of the shard.
pub struct Look {
    from: usize,
    /// How long a suspect is remembered.
    remember: Duration,
    /// Jobs of the runs that are in memory.
    known: HashMap<RunId, Vec<Open>>,
}

/// A job that a run waits for.
#[derive(Debug, Clone)]
pub struct Open {
    queue: Arc<str>,
    lost: JobLost,
}

impl Repair {
    /// Looks through the whole shard about once in `every`, and goes on from what earlier loops have `found`.
    pub fn new(every: Duration, found: Arc<Mutex<Found>>) -> Self {
        lock(&found).looked_at.get_or_insert_with(Instant::now);
        Self { every, found }
    }

    /// What looks have found so far.
    pub fn found(&self) -> Arc<Mutex<Found>> {
        self.found.clone()
    }

    /// A look, when it is time for one.
    /// `uncommitted` runs are left out: their jobs may not be there yet. They are asked for when it is time only.
    pub fn due(&mut self, cache: &RunCache, uncommitted: impl FnOnce() -> HashSet<RunId>) -> Option<Look> {
        let under_way = {
            let mut found = lock(&self.found);
            let pause = match found.from {
                Some(_) => PIECE_PAUSE.min(self.every),
                None if found.rounds < FIRST_ROUNDS_MAX => FIRST_ROUNDS.min(self.every),
                None => self.every,
            };
            if found.looked_at.is_some_and(|at| at.elapsed() < pause) {
                return None;
            }
            found.looked_at = Some(Instant::now());
            found.from
        };
        let uncommitted = uncommitted();
        Some(Look {
            from: under_way.unwrap_or(0),
            remember: self.every.saturating_mul(2) + REMEMBER,
            known: cache
                .iter()
                .map(|run| (run.id, if uncommitted.contains(&run.id) { Vec::new() } else { open_jobs(run) }))
                .collect(),
        })
    }

    /// Jobs that were missed twice.
    pub fn take_lost(&mut self) -> Vec<Input> {
        let lost = std::mem::take(&mut lock(&self.found).lost);
        metrics::counter!(names::JOBS_LOST.name).increment(lost.len() as u64);
        lost.into_iter().map(|(run, job)| Input::Lost(run, job)).collect()
    }
}

fn lock(found: &Mutex<Found>) -> std::sync::MutexGuard<'_, Found> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The jobs that a run waits for.
pub fn open_jobs(run: &RunState) -> Vec<Open> {
    let mut open = Vec::new();
    for (path, frame) in &run.frames {
        for (at, node) in frame.nodes.iter().enumerate() {
            if let Some(entry) = node.job {
                let ix = NodeIx(u32::try_from(at).unwrap_or(u32::MAX));
                let queue = run.graph.node(ix).settings.queue.clone();
                open.push(Open { queue, lost: JobLost { frame: path.clone(), node: ix, entry } });
            }
        }
    }
    open
}

impl Look {
    /// Looks at one piece.
    ///
    /// # Errors
    /// The store did not answer; the piece is looked at again later.
    pub async fn run(
        self,
        store: &dyn ShardStore,
        workflows: &Workflows,
        shard: ShardId,
        found: Arc<Mutex<Found>>,
    ) -> Result<(), StoreError> {
        let (runs, next) = store.open_runs(shard, self.from, PIECE).await?;
        for run in runs {
            let open = match self.known.get(&run) {
                Some(open) => open.clone(),
                None => match run_cache::load(store, workflows, run).await {
                    Ok(state) => open_jobs(&state),
                    Err(LoadError::Store(error)) => return Err(error),
                    Err(LoadError::NoRun(_) | LoadError::Newer { .. } | LoadError::Unreadable { .. }) => {
                        continue;
                    }
                },
            };
            self.judge(store, shard, run, open, &found).await?;
        }
        let mut found = lock(&found);
        found.from = next;
        if next.is_none() {
            found.rounds += 1;
            found.trimmed.clear();
            // Suspects that were not missed again within two rounds have ended.
            found.suspects.retain(|_, since| since.elapsed() < self.remember);
        }
        Ok(())
    }

    async fn judge(
        &self,
        store: &dyn ShardStore,
        shard: ShardId,
        run: RunId,
        open: Vec<Open>,
        found: &Mutex<Found>,
    ) -> Result<(), StoreError> {
        let mut queues: HashMap<Arc<str>, Vec<JobLost>> = HashMap::new();
        for job in open {
            queues.entry(job.queue).or_default().push(job.lost);
        }
        for (queue, jobs) in queues {
            let entries: Vec<EntryId> = jobs.iter().map(|j| j.entry).collect();
            if lock(found).trimmed.insert(queue.clone()) {
                store.trim_jobs(shard, &queue).await?;
            }
            let missed = store.lost_jobs(shard, &queue, &entries).await?;
            let mut found = lock(found);
            for job in jobs {
                let key = (run, job.entry);
                if !missed.contains(&job.entry) {
                    found.suspects.remove(&key);
                } else if found.suspects.remove(&key).is_some() {
                    tracing::warn!(%run, entry = %job.entry, "a job is gone and is enqueued again");
                    found.lost.push((run, job));
                } else {
                    found.suspects.insert(key, Instant::now());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tidemill_common::clock::SystemClock;
    use tidemill_common::config::Config;
    use tidemill_common::store::memory::MemoryStore;

    use super::*;

    const EVERY: Duration = Duration::from_secs(60);

    /// Seconds at which looks begin, of a shard that is taken anew every `turn` for so many seconds.
    async fn looks(turn: Duration, seconds: u64) -> Vec<u64> {
        let (store, shard) = (MemoryStore::new(Arc::new(SystemClock)), ShardId(0));
        let (findings, cache) = (Findings::default(), RunCache::new(1024));
        let workflows = Workflows::new(&Config::default(), None);
        let (began, mut at) = (Instant::now(), Vec::new());
        while began.elapsed() < Duration::from_secs(seconds) {
            let mut repair = Repair::new(EVERY, findings.of(shard));
            let taken = Instant::now();
            while taken.elapsed() < turn {
                if let Some(look) = repair.due(&cache, HashSet::new) {
                    at.push(began.elapsed().as_secs());
                    look.run(&store, &workflows, shard, repair.found()).await.unwrap();
                }
                tokio::time::advance(Duration::from_millis(500)).await;
            }
        }
        at
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_is_looked_through_however_often_it_is_taken_anew() {
        let steady = looks(Duration::from_secs(600), 200).await;
        assert_eq!(steady[..4], [5, 10, 70, 130]);
        let often = looks(Duration::from_secs(2), 200).await;
        assert_eq!(often, [5, 10, 70, 130, 190]);
    }
}
