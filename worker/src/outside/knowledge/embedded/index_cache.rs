//! The cache of dataset indexes in a worker's memory. Each search first asks the store for the dataset's version with a
//! short request, and loads only what changed. All indexes together stay within `knowledge.index_bytes_max`; the least
//! recently searched one is evicted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_common::nodes::knowledge_retrieval::ErrorType;
use tidemill_common::store::{DocumentList, Jobs, KnowledgeBases};
use tidemill_common::wire::knowledge::{DatasetRecord, DocumentRecord};

use crate::outside::knowledge::KnowledgeError;
use crate::outside::knowledge::embedded::index::{Document, Index, least_bytes, load};

/// Most loads of a dataset that changes while it is loaded.
const LOADS_MAX: u32 = 10;
/// Time for gathering hits before they are counted in the store.
const GATHER: Duration = Duration::from_secs(1);

/// The index cache; see the module.
pub struct IndexCache {
    jobs: Arc<dyn Jobs>,
    bytes_max: u64,
    indexes: Mutex<HashMap<String, Arc<CachedIndex>>>,
    /// The number of searches so far, used as a clock for evictions.
    searches: AtomicU64,
    /// Uncounted hits by dataset and segment.
    found: Arc<Mutex<UncountedHits>>,
}

type UncountedHits = HashMap<String, HashMap<String, u64>>;

/// A slot for one index.
#[derive(Default)]
struct CachedIndex {
    /// Locked while loading, so that an index is loaded once.
    index: tokio::sync::Mutex<Option<Arc<Index>>>,
    bytes: AtomicU64,
    used: AtomicU64,
}

impl IndexCache {
    /// Creates an empty cache for this store.
    pub fn new(jobs: Arc<dyn Jobs>, bytes_max: u64) -> Self {
        let (indexes, searches) = (Mutex::default(), AtomicU64::new(0));
        Self { jobs, bytes_max, indexes, searches, found: Arc::default() }
    }

    /// Returns the store.
    pub fn store(&self) -> &dyn KnowledgeBases {
        self.jobs.knowledge()
    }

    /// Returns the current index of a dataset.
    ///
    /// # Errors
    /// The store cannot be read, or the dataset needs too much memory.
    pub async fn index(&self, dataset: &DatasetRecord) -> Result<Arc<Index>, KnowledgeError> {
        let cached = self.indexes().entry(dataset.id.clone()).or_default().clone();
        cached.used.store(self.searches.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        let mut held = cached.index.lock().await;
        let version = self.store().knowledge_version(&dataset.id).await?;
        if let Some(index) = &*held
            && (index.version, index.created_at) == (version, dataset.created_at)
        {
            return Ok(index.clone());
        }
        let loaded = self.load(dataset, held.as_deref()).await;
        let index = match loaded {
            Ok(index) => Arc::new(index),
            Err(error) => {
                *held = None;
                cached.bytes.store(0, Ordering::Relaxed);
                return Err(error);
            }
        };
        *held = Some(index.clone());
        cached.bytes.store(index.bytes(), Ordering::Relaxed);
        drop(held);
        self.make_room(&dataset.id);
        Ok(index)
    }

    async fn load(&self, dataset: &DatasetRecord, before: Option<&Index>) -> Result<Index, KnowledgeError> {
        let known: HashMap<&str, &Document> =
            before.into_iter().flat_map(|it| &it.documents).map(|it| (&*it.record.generation, it)).collect();
        for _ in 0..LOADS_MAX {
            let DocumentList { version, mut documents } = self.store().documents(&dataset.id).await?;
            documents.retain(DocumentRecord::is_searched);
            self.check_size(dataset, documents.iter().map(least_bytes).sum())?;
            let mut index = Index {
                version,
                created_at: dataset.created_at,
                dimension: documents.iter().find(|it| it.dimension > 0).map(|it| it.dimension as usize),
                documents: Vec::with_capacity(documents.len()),
                hits: HashMap::new(),
            };
            let wanted = documents.len();
            for record in documents {
                let content = match known.get(&*record.generation) {
                    Some(known) => Some(known.content.clone()),
                    None => load(self.store(), &dataset.id, &record).await?.map(Arc::new),
                };
                let Some(content) = content else { break };
                index.documents.push(Document { record, content });
            }
            // Otherwise a document was replaced during the load.
            if index.documents.len() == wanted {
                self.check_size(dataset, index.bytes())?;
                index.hits = self.store().hits(&dataset.id).await?;
                tracing::debug!(dataset = dataset.id, version, documents = wanted, "knowledge base loaded");
                return Ok(index);
            }
        }
        let message = format!(
            "knowledge base {:?} changes faster than it can be read; or segments of it are missing in the store: \
             add its documents again",
            dataset.name
        );
        Err(KnowledgeError { class: ErrorType::Retrieval, message, retryable: true })
    }

    fn check_size(&self, dataset: &DatasetRecord, bytes: u64) -> Result<(), KnowledgeError> {
        if bytes <= self.bytes_max {
            return Ok(());
        }
        let message = format!(
            "knowledge base {:?} takes {bytes} bytes of memory or more, and knowledge.index_bytes_max is {}: raise \
             that, or make several datasets of it",
            dataset.name, self.bytes_max
        );
        Err(KnowledgeError { class: ErrorType::Retrieval, message, retryable: false })
    }

    /// Evicts the least recently searched indexes until all fit; `keep` stays.
    fn make_room(&self, keep: &str) {
        let mut indexes = self.indexes();
        let mut total: u64 = indexes.values().map(|cached| cached.bytes.load(Ordering::Relaxed)).sum();
        let mut order: Vec<(u64, String)> =
            indexes.iter().map(|(id, cached)| (cached.used.load(Ordering::Relaxed), id.clone())).collect();
        order.sort();
        for (_, id) in order.into_iter().filter(|(_, id)| id != keep) {
            if total <= self.bytes_max {
                return;
            }
            let Some(cached) = indexes.get(&id) else { continue };
            // A locked index is being loaded and will be used next.
            if cached.index.try_lock().is_ok() {
                total -= cached.bytes.load(Ordering::Relaxed).min(total);
                indexes.remove(&id);
                tracing::debug!(
                    dataset = id,
                    "knowledge base evicted from memory; the next search loads it again"
                );
            }
        }
    }

    /// Notes hits. They are counted in the store a little later, many at once; a worker that dies before loses them.
    pub fn found(&self, dataset: &str, segments: impl Iterator<Item = String>) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = found.is_empty();
        for segment in segments {
            *found.entry(dataset.to_owned()).or_default().entry(segment).or_default() += 1;
        }
        if is_first && !found.is_empty() {
            let (jobs, found) = (self.jobs.clone(), self.found.clone());
            tokio::spawn(async move {
                tokio::time::sleep(GATHER).await;
                let gathered = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
                for (dataset, hits) in gathered {
                    let hits: Vec<(String, u64)> = hits.into_iter().collect();
                    if let Err(error) = jobs.knowledge().count_hits(&dataset, &hits).await {
                        tracing::debug!(dataset, %error, "hits cannot be counted");
                    }
                }
            });
        }
    }

    fn indexes(&self) -> MutexGuard<'_, HashMap<String, Arc<CachedIndex>>> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
