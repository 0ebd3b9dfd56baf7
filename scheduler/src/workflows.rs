//! The workflow versions of a scheduler: one cache for its shards and its API, and the import of files.

use std::sync::Arc;

use tidemill_common::config::Config;
use tidemill_common::dsl::features::ServedFeatures;
use tidemill_common::dsl::moderation::Moderation;
use tidemill_common::dsl::{
    Diagnostic, Document, ParseOptions, RetryReading, SealError, SealingKey, features_place, hash_of,
    moderation,
};
use tidemill_common::graph::{self, Graph, GraphHash};
use tidemill_common::ids::ShardId;
use tidemill_common::machine::state::options::choices::Choices;
use tidemill_common::store::{Runs, StoreError};
use tidemill_common::value::JsonMap;
use tidemill_common::workflows::{self, OnWorker, WorkflowError};

pub use tidemill_common::workflows::Workflow;

/// The reason why a workflow cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    /// The file has errors; contains all of them.
    #[error("the workflow cannot be run")]
    Invalid(Vec<Diagnostic>),
    /// The workflow relies on moderation that is not served here. It was published under other settings, or by an older
    /// version of Tidemill.
    #[error("{0}")]
    Moderated(Box<Diagnostic>),
    /// The secrets of the workflow cannot be sealed.
    #[error(transparent)]
    Secrets(#[from] SealError),
    /// The client may not give sealed secrets. Contains the variable's name.
    #[error(
        "the secret variable {0} has a sealed value: give the secret itself, publish the workflow as an app, or use a key with \
         the role `admin`"
    )]
    SealGiven(String),
    /// A stored version cannot be used.
    #[error(transparent)]
    Stored(#[from] WorkflowError),
    /// The import panicked or was aborted.
    #[error("the workflow could not be read: {0}")]
    Broken(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whether the text of a workflow may have secrets that are sealed already. A seal is bound to the name of its variable alone, so
/// a workflow of one's own can show what any seal contains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Seals {
    /// It may.
    #[default]
    Allowed,
    /// It may not.
    Refused,
}

/// The versions that this process has loaded.
pub struct Workflows {
    known: workflows::Workflows,
    limits: ParseOptions,
    /// The setting `compat.moderation_left_out`.
    leaves_moderation_out: bool,
    /// The moderation that the settings serve.
    served: moderation::Served,
}

impl Workflows {
    /// Creates it empty. `key` seals and opens the secrets of workflows.
    pub fn new(config: &Config, key: Option<SealingKey>) -> Self {
        Self {
            known: workflows::Workflows::new(key, config.compat.secrets_in_outputs),
            limits: ParseOptions {
                bytes_max: config.run.import_bytes_max,
                children_max: config.run.children_max,
                migrations: config.compat.editor_migrations.into(),
                retries: RetryReading {
                    http_default: config.compat.http_retry_default,
                    without_enabled: config.compat.retry_without_enabled,
                },
                served: config.features.served(),
                ..ParseOptions::default()
            },
            leaves_moderation_out: config.compat.moderation_left_out,
            served: config.features.served_moderation(),
        }
    }

    /// Lets workers run the nodes for which this returns true, although this process could evaluate them.
    #[must_use]
    pub fn with_on_worker(self, on_worker: Option<OnWorker>) -> Self {
        Self { known: self.known.with_on_worker(on_worker), ..self }
    }

    /// The key that seals and opens the secrets of workflows.
    pub fn key(&self) -> Option<&SealingKey> {
        self.known.key()
    }

    /// Names the only queues that have workers. Nodes of other queues run in the first one.
    #[must_use]
    pub fn with_queues(self, queues: Vec<Arc<str>>) -> Self {
        Self { known: self.known.with_queues(queues), ..self }
    }

    /// Reads a workflow file. Also returns the warnings. It is slow: do not call it on an async thread.
    ///
    /// # Errors
    /// [`GraphError::Invalid`] with all problems, or [`GraphError::Secrets`] when there is no key to seal the secrets.
    pub fn import(&self, text: &[u8]) -> Result<(Arc<Workflow>, Vec<Diagnostic>), GraphError> {
        self.read(text, Seals::Allowed)
    }

    fn read(&self, text: &[u8], seals: Seals) -> Result<(Arc<Workflow>, Vec<Diagnostic>), GraphError> {
        let mut imported = graph::import_within(text, &self.limits);
        if let Some(document) = &imported.document {
            let left_out = self.leaves_moderation_out;
            moderation::settle(&mut imported.diagnostics, &document.features, &self.served, left_out);
        }
        if !imported.is_usable() || imported.diagnostics.iter().any(Diagnostic::is_error) {
            return Err(GraphError::Invalid(imported.diagnostics));
        }
        if seals == Seals::Refused
            && let Some(name) = imported.document.as_ref().and_then(Document::first_sealed)
        {
            return Err(GraphError::SealGiven(name.into()));
        }
        let sealed = imported.seal(self.known.key())?;
        let (Some(document), Some(graph), Some(text)) = (imported.document, imported.graph, sealed) else {
            return Err(GraphError::Invalid(imported.diagnostics));
        };
        Ok((self.known.keep(document, graph, text.into()), imported.diagnostics))
    }

    /// Refuses a stored workflow whose moderation is not served, unless the settings allow to leave moderation out.
    ///
    /// # Errors
    /// [`GraphError::Moderated`].
    pub fn check_moderation(&self, graph: &Graph) -> Result<(), GraphError> {
        let place = features_place(graph.front.mode.is_some());
        match moderation::not_served(&graph.features, &self.served, place) {
            Some(why) if !self.leaves_moderation_out => Err(GraphError::Moderated(Box::new(why))),
            Some(_) | None => Ok(()),
        }
    }

    /// True for a workflow that enables moderation that is not served, and that the settings leave out.
    pub fn leaves_moderation_out(&self, graph: &Graph) -> bool {
        self.leaves_moderation_out && moderation::is_unserved(&graph.features, &self.served)
    }

    /// The moderation of a workflow with these features; `None` when it has none, or none that is served.
    pub fn moderation(&self, features: &JsonMap) -> Option<Moderation> {
        let is_left_out = || moderation::is_unserved(features, &self.served);
        moderation::of(features).filter(|_| !is_left_out())
    }

    /// The features that the settings serve.
    pub const fn served(&self) -> ServedFeatures {
        self.limits.served
    }

    /// Returns the version with this document.
    ///
    /// # Errors
    /// [`GraphError::Stored`].
    pub fn of_document(&self, hash: &str, text: &str) -> Result<Arc<Workflow>, GraphError> {
        Ok(self.known.of_document(&GraphHash(hash.into()), text)?)
    }

    /// Returns the version of a workflow with extra steps around it, for runs whose options want them.
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

    /// Returns the version of a run on this shard.
    ///
    /// # Errors
    /// [`GraphError::Stored`], or an error of the store.
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

/// Imports a workflow file on a blocking thread.
///
/// # Errors
/// As [`Workflows::import`].
pub async fn import(
    workflows: &Arc<Workflows>,
    text: Vec<u8>,
) -> Result<(Arc<Workflow>, Vec<Diagnostic>), GraphError> {
    read(workflows, text, Seals::Allowed).await
}

/// Like [`Workflows::import`], on a thread that may be blocked, for a client of these rights.
///
/// # Errors
/// As [`Workflows::import`], and [`GraphError::SealGiven`].
pub async fn read(
    workflows: &Arc<Workflows>,
    text: Vec<u8>,
    seals: Seals,
) -> Result<(Arc<Workflow>, Vec<Diagnostic>), GraphError> {
    let workflows = workflows.clone();
    match tokio::task::spawn_blocking(move || workflows.read(&text, seals)).await {
        Ok(imported) => imported,
        Err(broken) => Err(GraphError::Broken(broken.to_string())),
    }
}
