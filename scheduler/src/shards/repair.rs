//! Finds executions whose job has vanished: it neither waits nor is held by a worker. A person deleted it, or Redis
//! lost it. Such jobs are enqueued again. The search runs in small pieces.
//!
//! A job that has just ended looks the same until its result is applied. So a job counts as lost only when two looks in
//! a row miss it.
//!
//! Findings and the time of the next look belong to the process, not to the loop of a shard. So a shard is searched
//! even when it is taken again and again. A new process looks early, twice, because it may not live for long.

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

/// Time after which suspects of earlier rounds are forgotten, on top of two rounds.
const REMEMBER: Duration = Duration::from_secs(600);

/// The pause before the first round in a process, and before the second. Later rounds come once in `every`.
const FIRST_ROUNDS: Duration = Duration::from_secs(5);
/// The number of early rounds.
const FIRST_ROUNDS_MAX: usize = 2;
/// The pause between two pieces of one round.
const PIECE_PAUSE: Duration = Duration::from_secs(1);

/// The findings for each shard that this process has owned.
#[derive(Debug, Default)]
pub struct Findings(Mutex<HashMap<ShardId, Arc<Mutex<ShardFindings>>>>);

impl Findings {
    /// The findings for a shard.
    pub fn of(&self, shard: ShardId) -> Arc<Mutex<ShardFindings>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(shard).or_default().clone()
    }
}

/// The findings about one shard, kept from loop to loop.
#[derive(Debug, Default)]
pub struct ShardFindings {
    /// The time of the last look; at first the time when the process took the shard.
    looked_at: Option<Instant>,
    /// The number of complete rounds.
    rounds: usize,
    /// Jobs that one look has missed.
    suspects: HashMap<(RunId, EntryId), Instant>,
    /// Jobs that two looks have missed.
    lost: Vec<(RunId, JobLost)>,
    /// Queues that were trimmed in this round.
    trimmed: HashSet<Arc<str>>,
    /// The position where the next piece begins.
    from: Option<usize>,
}

/// Decides when to look.
pub struct Repair {
    every: Duration,
    found: Arc<Mutex<ShardFindings>>,
}

/// One look at a piece of a shard.
pub struct RepairPass {
    from: usize,
    /// The time after which a suspect is forgotten.
    remember: Duration,
    /// The open jobs of the runs in memory.
    known: HashMap<RunId, Vec<OpenJob>>,
}

/// A job that a run waits for.
#[derive(Debug, Clone)]
pub struct OpenJob {
    queue: Arc<str>,
    lost: JobLost,
}

impl Repair {
    /// Searches the whole shard about once in `every`, and continues from what earlier loops have `found`.
    pub fn new(every: Duration, found: Arc<Mutex<ShardFindings>>) -> Self {
        lock(&found).looked_at.get_or_insert_with(Instant::now);
        Self { every, found }
    }

    /// The findings so far.
    pub fn found(&self) -> Arc<Mutex<ShardFindings>> {
        self.found.clone()
    }

    /// Returns a look when one is due. It leaves out `uncommitted` runs, because their jobs may not be stored yet; that
    /// function is called only when a look is due.
    pub fn due(
        &mut self,
        cache: &RunCache,
        uncommitted: impl FnOnce() -> HashSet<RunId>,
    ) -> Option<RepairPass> {
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
        Some(RepairPass {
            from: under_way.unwrap_or(0),
            remember: self.every.saturating_mul(2) + REMEMBER,
            known: cache
                .iter()
                .map(|run| (run.id, if uncommitted.contains(&run.id) { Vec::new() } else { open_jobs(run) }))
                .collect(),
        })
    }

    /// Takes the jobs that were missed twice.
    pub fn take_lost(&mut self) -> Vec<Input> {
        let lost = std::mem::take(&mut lock(&self.found).lost);
        metrics::counter!(names::JOBS_LOST.name).increment(lost.len() as u64);
        lost.into_iter().map(|(run, job)| Input::Lost(run, job)).collect()
    }
}

fn lock(found: &Mutex<ShardFindings>) -> std::sync::MutexGuard<'_, ShardFindings> {
    found.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The jobs that a run waits for.
pub fn open_jobs(run: &RunState) -> Vec<OpenJob> {
    let mut open = Vec::new();
    for (path, frame) in &run.frames {
        for (at, node) in frame.nodes.iter().enumerate() {
            if let Some(entry) = node.job {
                let ix = NodeIx(u32::try_from(at).unwrap_or(u32::MAX));
                let queue = run.graph.node(ix).settings.queue.clone();
                open.push(OpenJob { queue, lost: JobLost { frame: path.clone(), node: ix, entry } });
            }
        }
    }
    open
}

impl RepairPass {
    /// Looks at one piece.
    ///
    /// # Errors
    /// The store did not answer; the piece is looked at again later.
    pub async fn run(
        self,
        store: &dyn ShardStore,
        workflows: &Workflows,
        shard: ShardId,
        found: Arc<Mutex<ShardFindings>>,
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
        open: Vec<OpenJob>,
        found: &Mutex<ShardFindings>,
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
                    tracing::warn!(%run, entry = %job.entry, "a job has vanished and is enqueued again");
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

    /// The seconds at which looks begin when the shard is taken again every `turn`.
    async fn looks(turn: Duration, seconds: u64) -> Vec<u64> {
        let (store, shard) = (MemoryStore::new(Arc::new(SystemClock)), ShardId(0));
        let (findings, cache) = (Findings::default(), RunCache::new(1024));
        let workflows = Workflows::new(&Config::default(), None);
        let (began, mut at) = (Instant::now(), Vec::new());
        while began.elapsed() < Duration::from_secs(seconds) {
            let mut repair = Repair::new(EVERY, findings.of(shard));
            let taken = Instant::now();
            while taken.elapsed() < turn {
                if let Some(pass) = repair.due(&cache, HashSet::new) {
                    at.push(began.elapsed().as_secs());
                    pass.run(&store, &workflows, shard, repair.found()).await.unwrap();
                }
                tokio::time::advance(Duration::from_millis(500)).await;
            }
        }
        at
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_is_searched_however_often_it_is_taken_again() {
        let steady = looks(Duration::from_secs(600), 200).await;
        assert_eq!(steady[..4], [5, 10, 70, 130]);
        let often = looks(Duration::from_secs(2), 200).await;
        assert_eq!(often, [5, 10, 70, 130, 190]);
    }
}
