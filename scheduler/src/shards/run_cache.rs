//! The run states that a scheduler keeps in memory. Losing one only costs a reload.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tidemill_common::graph::{Graph, GraphHash};
use tidemill_common::ids::{EntryId, RunId};
use tidemill_common::machine::RunState;
use tidemill_common::machine::state::run::Hashing;
use tidemill_common::store::StoreError;
use tidemill_common::wire::{WireError, state};

use crate::stores::ShardStore;
use crate::workflows::{GraphError, Workflows};

/// The number of ended runs to remember, so that their late facts cost no reload.
const ENDED_MAX: usize = 10_000;
/// Bytes that commits may write of a run before its size is measured again.
const UNMEASURED_BYTES: usize = 64 * 1024;

/// The reason why a run cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run does not exist (any more).
    #[error("there is no run {0}")]
    NoRun(RunId),
    /// A newer version of Tidemill has written the run, and has to continue it.
    #[error("run {run} is written in version {version}, which this process does not know")]
    Newer {
        run: RunId,
        /// The version of the stored state.
        version: u64,
    },
    /// The stored state cannot be used.
    #[error("run {run} cannot be loaded: {reason}")]
    Unreadable { run: RunId, reason: String },
}

struct Cached {
    run: RunState,
    /// The approximate size: as measured, plus the bytes that commits wrote since.
    bytes: usize,
    measured: usize,
    used: u64,
    /// The start fact that the run was created from, or `None` when it was loaded.
    made_of: Option<EntryId>,
}

impl Cached {
    /// Adds the bytes that a commit wrote. Measuring has to walk through the whole run. It happens only when the run
    /// may have grown by half, so a run of ten thousand steps is not measured ten thousand times.
    fn grow(&mut self, written: usize) {
        self.bytes += written;
        if self.bytes > self.measured + self.measured / 2 + UNMEASURED_BYTES {
            self.measured = self.run.size_estimate();
            self.bytes = self.measured;
        }
    }
}

/// The runs of one shard, with a limit in bytes.
pub struct RunCache {
    /// Each state has its own allocation, so that a growing table moves no states.
    runs: HashMap<RunId, Box<Cached>, Hashing>,
    bytes: usize,
    bytes_max: usize,
    clock: u64,
    ended: HashSet<RunId, Hashing>,
    ended_order: VecDeque<RunId>,
}

impl RunCache {
    /// Creates an empty cache.
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

    /// Returns a run and marks it as used.
    pub fn get_mut(&mut self, run: &RunId) -> Option<&mut RunState> {
        self.clock += 1;
        let cached = self.runs.get_mut(run)?;
        cached.used = self.clock;
        Some(&mut cached.run)
    }

    /// Returns a run without marking it as used.
    pub fn get(&self, run: &RunId) -> Option<&RunState> {
        self.runs.get(run).map(|cached| &cached.run)
    }

    /// All runs in the cache.
    pub fn iter(&self) -> impl Iterator<Item = &RunState> {
        self.runs.values().map(|cached| &cached.run)
    }

    /// Adds a run that was loaded.
    pub fn insert(&mut self, run: RunState) {
        self.take_in(run, None);
    }

    /// Adds a run that was created from its start fact.
    pub fn insert_new(&mut self, run: RunState, made_of: EntryId) {
        self.take_in(run, Some(made_of));
    }

    /// True when the run was created from this fact, so that its head matches the fact.
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

    /// Removes a run.
    pub fn remove(&mut self, run: &RunId) {
        if let Some(old) = self.runs.remove(run) {
            self.bytes -= old.bytes;
        }
    }

    /// Removes a run after its end was committed, and remembers that it has ended.
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

    /// True when the run is known to have ended.
    pub fn has_ended(&self, run: &RunId) -> bool {
        self.ended.contains(run)
    }

    /// Adds what a commit wrote (run, approximate bytes). When the cache is over its limit, removes the runs that were
    /// not used for longest. `busy` runs have changes that are not committed: they stay.
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
        // A tenth below the limit, so that not every commit has to do this.
        let aim = self.bytes_max - self.bytes_max / 10;
        for (_, id) in by_use {
            if self.bytes <= aim {
                break;
            }
            self.remove(&id);
        }
    }

    /// Changes the limit. The next [`Self::settle`] keeps it.
    pub fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// The approximate number of bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// The number of runs.
    pub fn len(&self) -> usize {
        self.runs.len()
    }
    /// True when there are no runs.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
    /// Removes all runs.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.bytes = 0;
    }
}

/// Returns the graph of a run, from memory or from its shard.
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
