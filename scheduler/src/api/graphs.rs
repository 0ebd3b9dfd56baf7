//! Graphs in memory, by hash. A version never changes, so what was built once serves every submission and every
//! follower until it is the one that was not asked for longest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tidemill_common::config::Config;
use tidemill_common::dsl::{Diagnostic, Document, ParseLimits, SealError, SealingKey, hash_of, moderation};
use tidemill_common::graph::{self, Graph, GraphHash};
use tidemill_common::ids::ShardId;
use tidemill_common::machine::choices::Choices;
use tidemill_common::store::{Runs, StoreError};
use tidemill_common::value::JsonMap;

/// Most bytes of documents whose graphs are kept; a graph takes a few times its document.
const DOCUMENT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Why there is no graph.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// The file is wrong; all that is.
    #[error("the workflow cannot be run")]
    Invalid(Vec<Diagnostic>),
    /// It was published by a version that did not say so: it relies on moderation, which is not served.
    #[error("{0}")]
    Moderated(Box<Diagnostic>),
    /// Its secrets cannot be sealed or opened.
    #[error(transparent)]
    Secrets(#[from] SealError),
    /// The store does not have it, although something refers to it.
    #[error("the workflow version {hash} is not in the store")]
    Missing {
        /// Its hash.
        hash: String,
    },
    /// A stored document that this process cannot use.
    #[error("the stored workflow version {hash} cannot be used: {reason}")]
    Unreadable {
        /// Its hash.
        hash: String,
        /// Why.
        reason: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A workflow version, ready to use.
#[derive(Debug)]
pub struct Known {
    /// The graph, its secrets open.
    pub graph: Arc<Graph>,
    /// The text to store, its secrets sealed.
    pub document: Arc<str>,
    /// The app's description.
    pub description: String,
    /// Run options that the file sets (`workflow.tidemill`).
    pub options: JsonMap,
}

/// Graphs by hash.
pub struct Graphs {
    key: Option<SealingKey>,
    shows_secrets: bool,
    limits: ParseLimits,
    /// `compat.moderation_left_out`.
    leaves_moderation_out: bool,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_hash: HashMap<GraphHash, (Arc<Known>, u64)>,
    bytes: usize,
    uses: u64,
}

impl Graphs {
    /// None kept yet. `key` seals and opens the secrets of workflows.
    pub fn new(config: &Config, key: Option<SealingKey>) -> Self {
        Self {
            shows_secrets: config.compat.secrets_in_outputs,
            key,
            limits: ParseLimits {
                bytes_max: config.run.import_bytes_max,
                children_max: config.run.children_max,
                ..ParseLimits::default()
            },
            leaves_moderation_out: config.compat.moderation_left_out,
            kept: Mutex::default(),
        }
    }

    /// Reads a workflow file; also answers the warnings. Takes its time: not for an async thread.
    ///
    /// # Errors
    /// [`GraphError::Invalid`] with all problems, [`GraphError::Secrets`] when there is no key to seal them.
    pub fn import(&self, text: &[u8]) -> Result<(Arc<Known>, Vec<Diagnostic>), GraphError> {
        let mut imported = graph::import_within(text, &self.limits);
        moderation::settle(&mut imported.diagnostics, self.leaves_moderation_out);
        if !imported.is_usable() || imported.diagnostics.iter().any(Diagnostic::is_error) {
            return Err(GraphError::Invalid(imported.diagnostics));
        }
        let sealed = imported.seal(self.key.as_ref())?;
        let (Some(document), Some(graph), Some(text)) = (imported.document, imported.graph, sealed) else {
            return Err(GraphError::Invalid(imported.diagnostics));
        };
        Ok((self.keep(document, graph, text.into()), imported.diagnostics))
    }

    /// Refuses a workflow that was published before and relies on moderation, unless that may be left out.
    ///
    /// # Errors
    /// [`GraphError::Moderated`].
    pub fn check_moderation(&self, graph: &Graph) -> Result<(), GraphError> {
        match moderation::refused(&graph.features) {
            Some(why) if !self.leaves_moderation_out => Err(GraphError::Moderated(Box::new(why))),
            Some(_) | None => Ok(()),
        }
    }

    /// The graph of a stored document.
    ///
    /// # Errors
    /// [`GraphError::Unreadable`] or [`GraphError::Secrets`].
    pub fn of_document(&self, hash: &str, text: &str) -> Result<Arc<Known>, GraphError> {
        let hash = GraphHash(hash.into());
        if let Some(known) = self.find(&hash) {
            return Ok(known);
        }
        let unreadable = |reason: String| GraphError::Unreadable { hash: hash.to_string(), reason };
        let mut document = Document::from_stored(text).map_err(|problem| unreadable(problem.to_string()))?;
        document.open(self.key.as_ref())?;
        let (graph, problems) = graph::build(&document, hash.clone());
        let graph = graph.ok_or_else(|| {
            let first = problems.iter().find(|problem| problem.is_error());
            unreadable(first.map_or_else(|| "it has no graph".into(), Diagnostic::to_string))
        })?;
        Ok(self.keep(document, graph, text.into()))
    }

    /// The version of a workflow that has steps around it, for runs that want them.
    ///
    /// # Errors
    /// As [`Graphs::of_document`].
    pub fn with_steps_around(&self, known: &Known, choices: &Choices) -> Result<Arc<Known>, GraphError> {
        let hash = || known.graph.hash.to_string();
        let document = Document::from_stored(&known.document)
            .map_err(|problem| GraphError::Unreadable { hash: hash(), reason: problem.to_string() })?;
        let Choices { summary_before, facts_after, language, .. } = choices;
        let text = document.with_steps_around(*summary_before, *facts_after, *language).canonical();
        self.of_document(&hash_of(&text).0, &text)
    }

    /// The graph of a version that a run on this shard uses.
    ///
    /// # Errors
    /// As [`Graphs::of_document`]; [`GraphError::Missing`] when the store does not have it.
    pub async fn of_run(
        &self,
        store: &dyn Runs,
        shard: ShardId,
        hash: &GraphHash,
    ) -> Result<Arc<Known>, GraphError> {
        if let Some(known) = self.find(hash) {
            return Ok(known);
        }
        let text = store.graph(shard, &hash.0).await?;
        self.of_document(&hash.0, &text.ok_or_else(|| GraphError::Missing { hash: hash.to_string() })?)
    }

    fn find(&self, hash: &GraphHash) -> Option<Arc<Known>> {
        let mut kept = self.lock();
        kept.uses += 1;
        let now = kept.uses;
        let (known, used) = kept.by_hash.get_mut(hash)?;
        *used = now;
        Some(known.clone())
    }

    fn keep(&self, document: Document, graph: Graph, text: Arc<str>) -> Arc<Known> {
        let known = Arc::new(Known {
            graph: Arc::new(graph.showing(self.shows_secrets)),
            document: text,
            description: document.description,
            options: document.options,
        });
        self.lock().insert(known.clone());
        known
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        // Whatever a panicking holder left is a cache all the same.
        self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Kept {
    fn insert(&mut self, known: Arc<Known>) {
        self.uses += 1;
        self.bytes += known.document.len();
        if let Some((old, _)) = self.by_hash.insert(known.graph.hash.clone(), (known, self.uses)) {
            self.bytes -= old.document.len();
        }
        while self.bytes > DOCUMENT_BYTES_MAX && self.by_hash.len() > 1 {
            let oldest = self.by_hash.iter().min_by_key(|(_, (_, used))| *used).map(|(hash, _)| hash.clone());
            let Some((old, _)) = oldest.and_then(|hash| self.by_hash.remove(&hash)) else { return };
            self.bytes -= old.document.len();
        }
    }
}
