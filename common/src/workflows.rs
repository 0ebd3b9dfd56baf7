//! Workflow versions that are ready to run, by their hash. A version never changes, so a process reads it, opens its
//! secrets and builds its graph once, and keeps it until newer ones need the room.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

use tidemill_base::limits::{WORKFLOW_BYTES_MIN, WORKFLOWS_BYTES_MAX};
use tidemill_base::value::JsonMap;
use tidemill_workflow::dsl::{Diagnostic, Document, SealError, SealingKey};
use tidemill_workflow::graph::{self, Graph, GraphHash, Node};

/// A workflow version, ready to run.
#[derive(Debug)]
pub struct Workflow {
    /// The graph, its secrets open.
    pub graph: Arc<Graph>,
    /// The text to store, its secrets sealed.
    pub document: Arc<str>,
    /// The app's description.
    pub description: String,
    /// Run options that the file sets (`workflow.tidemill`).
    pub options: JsonMap,
}

/// Why a stored version cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkflowError {
    /// The store does not have it, although a run or an app refers to it.
    #[error("the workflow version {0} is not in the store")]
    Missing(GraphHash),
    /// Its secrets cannot be opened.
    #[error(transparent)]
    Secrets(#[from] SealError),
    /// Its document cannot be read, or has no graph that can run.
    #[error("the stored workflow version {hash} cannot be used: {reason}")]
    Unreadable {
        /// The version.
        hash: GraphHash,
        /// The problem of the document.
        reason: String,
    },
}

/// The versions that a process has met. The least recently used ones go first when their documents have more than
/// [`WORKFLOWS_BYTES_MAX`] bytes.
pub struct Workflows {
    key: Option<SealingKey>,
    shows_secrets: bool,
    on_worker: Option<OnWorker>,
    /// The only queues that have workers; empty: any queue may have one.
    queues: Vec<Arc<str>>,
    cache: Mutex<Cache>,
}

/// Returns true for nodes that must run on a worker, although a scheduler could evaluate them.
pub type OnWorker = Arc<dyn Fn(&Node) -> bool + Send + Sync>;

#[derive(Default)]
struct Cache {
    entries: HashMap<GraphHash, CacheEntry>,
    bytes: usize,
    uses: u64,
}

#[derive(Default)]
struct CacheEntry {
    /// Empty while the first request for it loads it; the others wait for that one.
    workflow: Arc<OnceCell<Arc<Workflow>>>,
    /// The size that it is counted with, in bytes.
    bytes: usize,
    /// The count of uses at its last one.
    used: u64,
}

impl Workflows {
    /// An empty cache. `key` opens the secrets of documents; `shows_secrets` is [`Graph::showing`]'s.
    pub fn new(key: Option<SealingKey>, shows_secrets: bool) -> Self {
        Self { key, shows_secrets, on_worker: None, queues: Vec::new(), cache: Mutex::default() }
    }

    /// Lets workers run the nodes for which this returns true, as `runs_on: worker` in the file does.
    #[must_use]
    pub fn with_on_worker(self, on_worker: Option<OnWorker>) -> Self {
        Self { on_worker, ..self }
    }

    /// Names the only queues that have workers, for a process without a fleet. Nodes of other queues run in the first one.
    #[must_use]
    pub fn with_queues(self, queues: Vec<Arc<str>>) -> Self {
        Self { queues, ..self }
    }

    /// The key that seals and opens the secrets of documents.
    pub fn key(&self) -> Option<&SealingKey> {
        self.key.as_ref()
    }

    /// The version, if it is in memory.
    pub fn find(&self, hash: &GraphHash) -> Option<Arc<Workflow>> {
        let mut cache = self.lock();
        cache.uses += 1;
        let uses = cache.uses;
        let entry = cache.entries.get_mut(hash)?;
        entry.used = uses;
        entry.workflow.get().cloned()
    }

    /// The version; `load` reads its document, once for all who ask at the same time.
    ///
    /// # Errors
    /// Those of `load`, and [`WorkflowError`]. A version that failed is loaded again at the next call.
    pub async fn get_or_load<E: From<WorkflowError>>(
        &self,
        hash: &GraphHash,
        load: impl Future<Output = Result<Option<Arc<str>>, E>>,
    ) -> Result<Arc<Workflow>, E> {
        let cell = self.lock().entry(hash);
        let loaded = cell.get_or_try_init(async || {
            let text = load.await?.ok_or_else(|| WorkflowError::Missing(hash.clone()))?;
            Ok::<_, E>(Arc::new(self.build(hash, text)?))
        });
        let workflow = loaded.await.cloned()?;
        self.lock().weigh(hash, workflow.document.len());
        Ok(workflow)
    }

    /// The version whose document this is.
    ///
    /// # Errors
    /// [`WorkflowError::Unreadable`] or [`WorkflowError::Secrets`].
    pub fn of_document(&self, hash: &GraphHash, text: &str) -> Result<Arc<Workflow>, WorkflowError> {
        if let Some(known) = self.find(hash) {
            return Ok(known);
        }
        let workflow = self.build(hash, text.into())?;
        Ok(self.insert(workflow))
    }

    /// Keeps a version that was just built: its graph, and the text to store.
    pub fn keep(&self, document: Document, graph: Graph, text: Arc<str>) -> Arc<Workflow> {
        self.insert(self.workflow(document, graph, text))
    }

    fn build(&self, hash: &GraphHash, text: Arc<str>) -> Result<Workflow, WorkflowError> {
        let unreadable = |reason: String| WorkflowError::Unreadable { hash: hash.clone(), reason };
        let mut document = Document::from_stored(&text).map_err(|problem| unreadable(problem.to_string()))?;
        document.open(self.key.as_ref())?;
        let (graph, problems) = graph::build(&document, hash.clone());
        let graph = graph.ok_or_else(|| {
            let first = problems.iter().find(|problem| problem.is_error());
            unreadable(first.map_or_else(|| "it has no graph".into(), Diagnostic::to_string))
        })?;
        Ok(self.workflow(document, graph, text))
    }

    fn workflow(&self, document: Document, mut graph: Graph, text: Arc<str>) -> Workflow {
        let Document { description, options, .. } = document;
        if let Some(on_worker) = &self.on_worker {
            for node in &mut graph.nodes {
                node.settings.on_worker |= on_worker(node);
            }
        }
        if let Some(first) = self.queues.first() {
            for node in graph.nodes.iter_mut().filter(|node| !self.queues.contains(&node.settings.queue)) {
                node.settings.queue = first.clone();
            }
        }
        Workflow { graph: Arc::new(graph.showing(self.shows_secrets)), document: text, description, options }
    }

    fn insert(&self, workflow: Workflow) -> Arc<Workflow> {
        let workflow = Arc::new(workflow);
        let mut cache = self.lock();
        let hash = &workflow.graph.hash;
        // A cell that another request is filling is left to it; both have built the same.
        let kept = cache.entry(hash).set(workflow.clone());
        if kept.is_ok() {
            cache.weigh(hash, workflow.document.len());
        }
        workflow
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        // It is a cache: what a panicking holder left in it is still right.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// The cell of a version, a new one if need be.
    fn entry(&mut self, hash: &GraphHash) -> Arc<OnceCell<Arc<Workflow>>> {
        self.uses += 1;
        if !self.entries.contains_key(hash) {
            self.entries.insert(hash.clone(), CacheEntry { used: self.uses, ..CacheEntry::default() });
            self.weigh(hash, 0);
        }
        let entry = self.entries.entry(hash.clone()).or_default();
        entry.used = self.uses;
        entry.workflow.clone()
    }

    /// Notes how much a version counts for, and makes room.
    fn weigh(&mut self, hash: &GraphHash, bytes: usize) {
        let Some(entry) = self.entries.get_mut(hash) else { return };
        let bytes = bytes.max(WORKFLOW_BYTES_MIN);
        self.bytes += bytes;
        self.bytes -= std::mem::replace(&mut entry.bytes, bytes);
        while self.bytes > WORKFLOWS_BYTES_MAX && self.entries.len() > 1 {
            let oldest =
                self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(hash, _)| hash.clone());
            let Some(old) = oldest.and_then(|hash| self.entries.remove(&hash)) else { return };
            self.bytes -= old.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> Arc<str> {
        let file = format!(
            "kind: app\nversion: 0.6.0\napp: {{mode: workflow, name: {name}}}\nworkflow:\n  graph:\n    nodes:\n    \
             - {{id: s, data: {{type: start, title: S, variables: []}}}}\n    \
             - {{id: e, data: {{type: end, title: E, outputs: []}}}}\n    edges: [{{source: s, target: e}}]\n"
        );
        let mut imported = graph::import(file.as_bytes());
        imported
            .seal(None)
            .expect("no secrets")
            .unwrap_or_else(|| panic!("{:?}", imported.diagnostics))
            .into()
    }

    fn hash(text: &str) -> GraphHash {
        tidemill_workflow::dsl::hash_of(text)
    }

    #[tokio::test]
    async fn a_version_is_loaded_once_for_all_who_ask() {
        let workflows = Workflows::new(None, false);
        let (text, loads) = (text("x"), std::sync::atomic::AtomicUsize::new(0));
        let load = || async {
            loads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok::<_, WorkflowError>(Some(text.clone()))
        };
        let hash = hash(&text);
        let (one, two) =
            tokio::join!(workflows.get_or_load(&hash, load()), workflows.get_or_load(&hash, load()));
        assert!(Arc::ptr_eq(&one.unwrap(), &two.unwrap()));
        assert_eq!(loads.into_inner(), 1);
        assert!(workflows.find(&hash).is_some());
    }

    #[tokio::test]
    async fn a_version_that_was_missing_is_looked_for_again() {
        let workflows = Workflows::new(None, false);
        let (text, gone) = (text("x"), async || Ok::<Option<Arc<str>>, WorkflowError>(None));
        let hash = hash(&text);
        let error = workflows.get_or_load(&hash, gone()).await.unwrap_err();
        assert!(matches!(error, WorkflowError::Missing(_)), "{error}");
        assert!(workflows.get_or_load(&hash, async { Ok::<_, WorkflowError>(Some(text)) }).await.is_ok());
    }

    #[test]
    fn the_version_that_was_not_used_for_longest_goes_first_and_no_other() {
        let workflows = Workflows::new(None, false);
        let texts: Vec<_> = ["a", "b", "c"].map(text).into();
        let each: Vec<_> = texts.iter().map(|text| hash(text)).collect();
        for (hash, text) in each.iter().zip(&texts) {
            workflows.of_document(hash, text).unwrap();
        }
        workflows.find(&each[0]);
        workflows.lock().weigh(&each[2], WORKFLOWS_BYTES_MAX - WORKFLOW_BYTES_MIN);
        let kept: Vec<_> = each.iter().map(|hash| workflows.find(hash).is_some()).collect();
        assert_eq!(kept, [true, false, true]);
    }
}
