//! The workflow versions of a scheduler: one cache for its shards and its API, and the way from a file to a version.

use std::sync::Arc;

use tidemill_common::config::Config;
use tidemill_common::dsl::{Diagnostic, Document, ParseLimits, SealError, SealingKey, hash_of, moderation};
use tidemill_common::graph::{self, Graph, GraphHash};
use tidemill_common::ids::ShardId;
use tidemill_common::machine::choices::Choices;
use tidemill_common::store::{Runs, StoreError};
use tidemill_common::workflows::{self, WorkflowError};

pub use tidemill_common::workflows::Workflow;

/// Why a workflow cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// The file has errors; all of them.
    #[error("the workflow cannot be run")]
    Invalid(Vec<Diagnostic>),
    /// It was published by a version that did not say so: it relies on moderation, which is not served.
    #[error("{0}")]
    Moderated(Box<Diagnostic>),
    /// Its secrets cannot be sealed.
    #[error(transparent)]
    Secrets(#[from] SealError),
    /// A stored version cannot be used.
    #[error(transparent)]
    Stored(#[from] WorkflowError),
    /// The import was broken off by a fault of this program.
    #[error("the workflow could not be read: {0}")]
    Broken(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The versions that this process has met.
pub struct Workflows {
    known: workflows::Workflows,
    limits: ParseLimits,
    /// `compat.moderation_left_out`.
    leaves_moderation_out: bool,
}

impl Workflows {
    /// None yet. `key` seals and opens the secrets of workflows.
    pub fn new(config: &Config, key: Option<SealingKey>) -> Self {
        Self {
            known: workflows::Workflows::new(key, config.compat.secrets_in_outputs),
            limits: ParseLimits {
                bytes_max: config.run.import_bytes_max,
                children_max: config.run.children_max,
                ..ParseLimits::default()
            },
            leaves_moderation_out: config.compat.moderation_left_out,
        }
    }

    /// Reads a workflow file; also answers the warnings. Takes its time: not for an async thread.
    ///
    /// # Errors
    /// [`GraphError::Invalid`] with all problems, [`GraphError::Secrets`] when there is no key to seal them.
    pub fn import(&self, text: &[u8]) -> Result<(Arc<Workflow>, Vec<Diagnostic>), GraphError> {
        let mut imported = graph::import_within(text, &self.limits);
        moderation::settle(&mut imported.diagnostics, self.leaves_moderation_out);
        if !imported.is_usable() || imported.diagnostics.iter().any(Diagnostic::is_error) {
            return Err(GraphError::Invalid(imported.diagnostics));
        }
        let sealed = imported.seal(self.known.key())?;
        let (Some(document), Some(graph), Some(text)) = (imported.document, imported.graph, sealed) else {
            return Err(GraphError::Invalid(imported.diagnostics));
        };
        Ok((self.known.keep(document, graph, text.into()), imported.diagnostics))
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

    /// The version whose document this is.
    ///
    /// # Errors
    /// [`GraphError::Stored`].
    pub fn of_document(&self, hash: &str, text: &str) -> Result<Arc<Workflow>, GraphError> {
        Ok(self.known.of_document(&GraphHash(hash.into()), text)?)
    }

    /// The version of a workflow that has steps around it, for runs that want them.
    ///
    /// # Errors
    /// As [`Workflows::of_document`].
    pub fn with_steps_around(
        &self,
        workflow: &Workflow,
        choices: &Choices,
    ) -> Result<Arc<Workflow>, GraphError> {
        let unreadable = |problem: Diagnostic| WorkflowError::Unreadable {
            hash: workflow.graph.hash.clone(),
            reason: problem.to_string(),
        };
        let document = Document::from_stored(&workflow.document).map_err(unreadable)?;
        let Choices { summary_before, facts_after, language, .. } = choices;
        let text = document.with_steps_around(*summary_before, *facts_after, *language).canonical();
        self.of_document(&hash_of(&text).0, &text)
    }

    /// The version that a run on this shard uses.
    ///
    /// # Errors
    /// [`GraphError::Stored`] and the store's.
    pub async fn of_run(
        &self,
        store: &dyn Runs,
        shard: ShardId,
        hash: &GraphHash,
    ) -> Result<Arc<Workflow>, GraphError> {
        match self.known.find(hash) {
            Some(known) => Ok(known),
            None => {
                let load = async { Ok::<_, GraphError>(store.graph(shard, &hash.0).await?) };
                self.known.get_or_load(hash, load).await
            }
        }
    }
}

/// Imports a workflow file on a thread where it may take its time.
///
/// # Errors
/// As [`Workflows::import`].
pub async fn import(
    workflows: &Arc<Workflows>,
    text: Vec<u8>,
) -> Result<(Arc<Workflow>, Vec<Diagnostic>), GraphError> {
    let workflows = workflows.clone();
    match tokio::task::spawn_blocking(move || workflows.import(&text)).await {
        Ok(imported) => imported,
        Err(broken) => Err(GraphError::Broken(broken.to_string())),
    }
}
