//! The run states that a scheduler keeps in memory. It is a cache: losing it costs a reload.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tidemill_common::graph::{Graph, GraphHash};
use tidemill_common::ids::{EntryId, RunId};
use tidemill_common::machine::RunState;
use tidemill_common::machine::run::Hashing;
use tidemill_common::store::StoreError;
use tidemill_common::wire::{WireError, state};

use crate::stores::ShardStore;
use crate::workflows::{GraphError, Workflows};

/// Ended runs that are remembered, so that late facts of theirs cost no reload.
const ENDED_MAX: usize = 10_000;
/// What may be written of a run before it is measured for the first time.
const UNMEASURED_BYTES: usize = 64 * 1024;

/// Why a run cannot be worked on.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no such run (any more).
    #[error("there is no run {0}")]
    NoRun(RunId),
    /// A newer version has written it, and must go on with it.
    #[error("run {run} is written in version {version}, which this process does not know")]
    Newer {
        /// The run.
        run: RunId,
        /// Its version.
        version: u64,
    },
    /// What is stored cannot be used.
    #[error("run {run} cannot be loaded: {reason}")]
    Unreadable {
        /// The run.
        run: RunId,
        /// Why.
        reason: String,
    },
}

struct Cached {
    run: RunState,
    /// Bytes, about: what was measured, and what commits have written since.
    bytes: usize,
    measured: usize,
    used: u64,
    /// The fact that it was made of, if it was not loaded.
    made_of: Option<EntryId>,
}

impl Cached {
    /// Counts what a commit wrote. To measure a run is to look at all of it; done when it may have grown by half, a run of
    /// ten thousand steps is not looked at ten thousand times.
    fn grow(&mut self, written: usize) {
        self.bytes += written;
        if self.bytes > self.measured + self.measured / 2 + UNMEASURED_BYTES {
            self.measured = self.run.size_estimate();
            self.bytes = self.measured;
        }
    }
}

/// The runs of one shard, bounded in bytes.
pub struct RunCache {
    /// Each in a place of its own: a table that grows moves no states.
    runs: HashMap<RunId, Box<Cached>, Hashing>,
    bytes: usize,
    bytes_max: usize,
    clock: u64,
    ended: HashSet<RunId, Hashing>,
    ended_order: VecDeque<RunId>,
}

impl RunCache {
    /// An empty cache.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            runs: HashMap::default(),
            bytes: 0,
            bytes_max,
            clock: 0,
            ended: HashSet::default(),
            ended_order: VecDeque::new(),
        }
    }

    /// A run, if it is here.
    pub fn get_mut(&mut self, run: &RunId) -> Option<&mut RunState> {
        self.clock += 1;
        let cached = self.runs.get_mut(run)?;
        cached.used = self.clock;
        Some(&mut cached.run)
    }

    /// A run to look at, if it is here.
    pub fn get(&self, run: &RunId) -> Option<&RunState> {
        self.runs.get(run).map(|cached| &cached.run)
    }

    /// All runs in here.
    pub fn iter(&self) -> impl Iterator<Item = &RunState> {
        self.runs.values().map(|cached| &cached.run)
    }

    /// Takes a run in.
    pub fn insert(&mut self, run: RunState) {
        self.take_in(run, None);
    }

    /// Takes a run in that was made of the fact with which it is to begin.
    pub fn insert_new(&mut self, run: RunState, made_of: EntryId) {
        self.take_in(run, Some(made_of));
    }

    /// Whether a run was made of this fact: its head is what the fact says.
    pub fn is_made_of(&self, run: &RunId, fact: EntryId) -> bool {
        self.runs.get(run).is_some_and(|cached| cached.made_of == Some(fact))
    }

    fn take_in(&mut self, run: RunState, made_of: Option<EntryId>) {
        self.clock += 1;
        let bytes = run.size_estimate();
        self.bytes += bytes;
        let cached = Box::new(Cached { bytes, measured: bytes, used: self.clock, made_of, run });
        if let Some(old) = self.runs.insert(cached.run.id, cached) {
            self.bytes -= old.bytes;
        }
    }

    /// Lets go of a run.
    pub fn remove(&mut self, run: &RunId) {
        if let Some(old) = self.runs.remove(run) {
            self.bytes -= old.bytes;
        }
    }

    /// A run has ended and its end is committed.
    pub fn end(&mut self, run: RunId) {
        self.remove(&run);
        if self.ended.insert(run) {
            self.ended_order.push_back(run);
        }
        if self.ended_order.len() > ENDED_MAX
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }

    /// Whether a run is known to have ended.
    pub fn has_ended(&self, run: &RunId) -> bool {
        self.ended.contains(run)
    }

    /// Counts what a commit wrote (run, and bytes, about), and lets go of the runs that were not used for longest until the
    /// bound is kept. `busy` are runs with changes that are not committed: they stay.
    pub fn settle(&mut self, written: &[(RunId, usize)], busy: &[RunId]) {
        for (run, bytes) in written {
            if let Some(cached) = self.runs.get_mut(run) {
                let before = cached.bytes;
                cached.grow(*bytes);
                self.bytes = self.bytes + cached.bytes - before;
            }
        }
        if self.bytes <= self.bytes_max {
            return;
        }
        let busy: HashSet<&RunId> = busy.iter().collect();
        let mut by_use: Vec<(u64, RunId)> =
            self.runs.iter().filter(|(id, _)| !busy.contains(id)).map(|(id, c)| (c.used, *id)).collect();
        by_use.sort_unstable();
        // A tenth below the bound, so that this is not done for every commit.
        let aim = self.bytes_max - self.bytes_max / 10;
        for (_, id) in by_use {
            if self.bytes <= aim {
                break;
            }
            self.remove(&id);
        }
    }

    /// Bytes in use, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// Runs in here.
    pub fn len(&self) -> usize {
        self.runs.len()
    }
    /// True when no run is in here.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
    /// Lets go of everything.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.bytes = 0;
    }
}

/// The graph of a run, from memory or from its shard.
///
/// # Errors
/// See [`LoadError`].
pub async fn graph_of(
    store: &dyn ShardStore,
    workflows: &Workflows,
    run: RunId,
    hash: &GraphHash,
) -> Result<Arc<Graph>, LoadError> {
    match workflows.of_run(store, run.shard(), hash).await {
        Ok(workflow) => Ok(workflow.graph.clone()),
        Err(GraphError::Store(error)) => Err(error.into()),
        Err(error) => Err(LoadError::Unreadable { run, reason: error.to_string() }),
    }
}

/// Loads a run from the store.
///
/// # Errors
/// See [`LoadError`].
pub async fn load(store: &dyn ShardStore, workflows: &Workflows, run: RunId) -> Result<RunState, LoadError> {
    let rest = store.load_run(run).await?.ok_or(LoadError::NoRun(run))?;
    let unusable = |error: WireError| match error {
        WireError::Version { version, .. } => LoadError::Newer { run, version },
        WireError::Malformed { .. } | WireError::Unknown { .. } | WireError::UnknownNode { .. } => {
            LoadError::Unreadable { run, reason: error.to_string() }
        }
    };
    let head = state::head_from_fields(&rest.run).map_err(unusable)?;
    let graph = graph_of(store, workflows, run, &head.graph).await?;
    state::load(run, graph, rest).map_err(unusable)
}
