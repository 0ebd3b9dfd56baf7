//! A cache of built graphs by hash. A graph never changes, so the worker fetches and builds it once, with its secrets
//! opened. The least recently used graph is evicted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidemill_common::dsl::{Document, SealingKey};
use tidemill_common::failure::{EngineErrorType, NodeFailure};
use tidemill_common::graph::{Graph, GraphHash, build::build};
use tidemill_common::ids::ShardId;
use tidemill_common::store::Jobs;
use tokio::sync::OnceCell;

use crate::backoff::{Backoff, Condition};

/// Most graphs in the cache. A graph of a hundred nodes takes some hundred KiB.
const GRAPHS_MAX: usize = 256;

#[derive(Debug, Default)]
struct Slot {
    graph: Arc<OnceCell<Arc<Graph>>>,
    /// The cache's use count at the last use of this slot.
    used: u64,
}

#[derive(Debug, Default)]
struct Cache {
    slots: HashMap<Arc<str>, Slot>,
    uses: u64,
}

/// The graph cache; see the module.
pub(crate) struct Graphs {
    jobs: Arc<dyn Jobs>,
    key: Option<SealingKey>,
    shows_secrets: bool,
    cache: Mutex<Cache>,
    loading: Condition,
}

impl Graphs {
    pub(crate) fn new(jobs: Arc<dyn Jobs>, key: Option<SealingKey>, shows_secrets: bool) -> Self {
        let loading = Condition::new("loading a workflow");
        Self { jobs, key, shows_secrets, cache: Mutex::default(), loading }
    }

    /// Returns the graph if it is in the cache.
    pub(crate) fn at_hand(&self, hash: &GraphHash) -> Option<Arc<Graph>> {
        let mut cache = self.lock();
        cache.uses += 1;
        let uses = cache.uses;
        let slot = cache.slots.get_mut(&hash.0)?;
        slot.used = uses;
        slot.graph.get().cloned()
    }

    /// Returns the graph and fetches it if necessary. Waits while the store does not answer.
    ///
    /// # Errors
    /// A failure for the node: the document is missing or unreadable, or its secrets do not open.
    pub(crate) async fn get(&self, shard: ShardId, hash: &GraphHash) -> Result<Arc<Graph>, NodeFailure> {
        // Concurrent callers wait for the same fetch.
        let cell = self.slot(hash);
        cell.get_or_try_init(|| self.load(shard, hash)).await.cloned()
    }

    fn slot(&self, hash: &GraphHash) -> Arc<OnceCell<Arc<Graph>>> {
        let mut cache = self.lock();
        if cache.slots.len() >= GRAPHS_MAX && !cache.slots.contains_key(&hash.0) {
            let oldest = cache.slots.iter().min_by_key(|(_, slot)| slot.used).map(|(hash, _)| hash.clone());
            oldest.and_then(|hash| cache.slots.remove(&hash));
        }
        cache.uses += 1;
        let uses = cache.uses;
        let slot = cache.slots.entry(hash.0.clone()).or_default();
        slot.used = uses;
        slot.graph.clone()
    }

    async fn load(&self, shard: ShardId, hash: &GraphHash) -> Result<Arc<Graph>, NodeFailure> {
        let mut backoff = Backoff::default();
        let text = loop {
            match self.jobs.graph_document(shard, &hash.0).await {
                Ok(Some(text)) => break text,
                Ok(None) => return Err(unusable(hash, "it is not in the store")),
                Err(error) if error.is_passing() => {
                    self.loading.failed(&error);
                    backoff.wait().await;
                }
                Err(error) => return Err(unusable(hash, &error.to_string())),
            }
        };
        self.loading.works();
        self.build(&text, hash)
    }

    fn build(&self, text: &str, hash: &GraphHash) -> Result<Arc<Graph>, NodeFailure> {
        let mut document = Document::from_stored(text).map_err(|e| unusable(hash, &e.to_string()))?;
        document.open(self.key.as_ref()).map_err(|e| unusable(hash, &e.to_string()))?;
        let (graph, problems) = build(&document, hash.clone());
        graph.map(|graph| Arc::new(graph.showing(self.shows_secrets))).ok_or_else(|| {
            let first = problems.iter().find(|problem| problem.is_error());
            unusable(hash, &first.map(ToString::to_string).unwrap_or_default())
        })
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unusable(hash: &GraphHash, reason: &str) -> NodeFailure {
    let message = format!("this worker cannot use workflow version {hash}: {reason}");
    NodeFailure::new(EngineErrorType::Engine.name(), message)
}
