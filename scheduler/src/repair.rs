//! Looks, in small pieces, for executions whose job is neither waiting nor held by anybody: deleted by hand, or lost
//! with Redis. They are enqueued again.
//!
//! A job that has just ended looks the same until its result is applied; so a job counts as lost only when two looks in
//! a row miss it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidemill_common::graph::NodeIx;
use tidemill_common::ids::{EntryId, RunId, ShardId};
use tidemill_common::machine::RunState;
use tidemill_common::machine::fact::JobLost;
use tidemill_common::store::StoreError;

use crate::batch::Input;
use crate::cache::{self, Graphs, LoadError, RunCache};
use crate::drive::ShardStore;
use crate::metrics as names;

/// Runs in one piece.
const PIECE: usize = 50;

/// Suspects that two rounds do not miss again are forgotten this long after.
const REMEMBER: Duration = Duration::from_secs(600);

/// What two looks share.
#[derive(Debug, Default)]
pub struct Found {
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
    looked_at: Instant,
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
    /// Looks through the whole shard about once in `every`.
    pub fn new(every: Duration) -> Self {
        Self { every, looked_at: Instant::now(), found: Arc::default() }
    }

    /// What looks have found so far.
    pub fn found(&self) -> Arc<Mutex<Found>> {
        self.found.clone()
    }

    /// A look, when it is time for one.
    /// `uncommitted` runs are left out: their jobs may not be there yet.
    pub fn due(&mut self, cache: &RunCache, uncommitted: &HashSet<RunId>) -> Option<Look> {
        let under_way = lock(&self.found).from;
        // Pieces of one round follow each other a second apart.
        let pause = if under_way.is_some() { Duration::from_secs(1).min(self.every) } else { self.every };
        if self.looked_at.elapsed() < pause {
            return None;
        }
        self.looked_at = Instant::now();
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
        graphs: &Graphs,
        shard: ShardId,
        found: Arc<Mutex<Found>>,
    ) -> Result<(), StoreError> {
        let (runs, next) = store.open_runs(shard, self.from, PIECE).await?;
        for run in runs {
            let open = match self.known.get(&run) {
                Some(open) => open.clone(),
                None => match cache::load(store, graphs, run).await {
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
