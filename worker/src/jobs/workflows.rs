//! Loads the graphs of jobs. A worker waits while the store does not answer; a workflow that it cannot use fails the node.

use std::sync::Arc;

use tidemill_common::dsl::{SealError, SealingKey};
use tidemill_common::failure::{EngineErrorType, NodeFailure};
use tidemill_common::graph::{Graph, GraphHash};
use tidemill_common::ids::ShardId;
use tidemill_common::need::Need;
use tidemill_common::store::Jobs;
use tidemill_common::workflows::{Workflow, WorkflowError, Workflows};

use crate::jobs::backoff::{Backoff, Condition};

/// The graphs of jobs, from memory or from the store.
pub(crate) struct WorkflowLoader {
    jobs: Arc<dyn Jobs>,
    workflows: Workflows,
    loading: Condition,
}

/// Why a graph could not be loaded.
struct Unusable {
    reason: String,
    /// Whether another worker's secret key may open it.
    is_sealed: bool,
}

impl From<String> for Unusable {
    fn from(reason: String) -> Self {
        Self { reason, is_sealed: false }
    }
}

impl From<WorkflowError> for Unusable {
    fn from(error: WorkflowError) -> Self {
        match error {
            WorkflowError::Missing(_) => "it is not in the store".to_owned().into(),
            WorkflowError::Unreadable { reason, .. } => reason.into(),
            WorkflowError::Secrets(error) => {
                let is_sealed = matches!(error, SealError::NoKey { .. } | SealError::WrongKey { .. });
                Self { reason: error.to_string(), is_sealed }
            }
        }
    }
}

impl WorkflowLoader {
    pub(crate) fn new(jobs: Arc<dyn Jobs>, key: Option<SealingKey>, shows_secrets: bool) -> Self {
        let workflows = Workflows::new(key, shows_secrets);
        Self { jobs, workflows, loading: Condition::new("loading a workflow") }
    }

    /// The graph, if it is in memory.
    pub(crate) fn find(&self, hash: &GraphHash) -> Option<Arc<Graph>> {
        self.workflows.find(hash).map(|workflow| workflow.graph.clone())
    }

    /// The graph, loaded if need be; waits while the store does not answer.
    ///
    /// # Errors
    /// A failure for the node: the document is not there, cannot be read, or its secrets do not open.
    pub(crate) async fn get(&self, shard: ShardId, hash: &GraphHash) -> Result<Arc<Graph>, NodeFailure> {
        self.whole(shard, hash).await.map(|workflow| workflow.graph.clone())
    }

    /// The stored text of the version, its secrets sealed.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(crate) async fn document(&self, shard: ShardId, hash: &GraphHash) -> Result<Arc<str>, NodeFailure> {
        self.whole(shard, hash).await.map(|workflow| workflow.document.clone())
    }

    async fn whole(&self, shard: ShardId, hash: &GraphHash) -> Result<Arc<Workflow>, NodeFailure> {
        let loaded = self.workflows.get_or_load(hash, self.load(shard, hash)).await;
        loaded.map_err(|Unusable { reason, is_sealed }| {
            let message = format!("this worker cannot use workflow version {hash}: {reason}");
            let failure = NodeFailure::new(EngineErrorType::Engine.name(), message);
            let need = Need::SecretKey { of: format!("workflow version {hash}") };
            if is_sealed { failure.lacking(need) } else { failure }
        })
    }

    async fn load(&self, shard: ShardId, hash: &GraphHash) -> Result<Option<Arc<str>>, Unusable> {
        let mut backoff = Backoff::default();
        loop {
            match self.jobs.graph_document(shard, &hash.0).await {
                Ok(text) => {
                    self.loading.works();
                    return Ok(text);
                }
                Err(error) if error.is_passing() => {
                    self.loading.failed(&error);
                    backoff.wait().await;
                }
                Err(error) => return Err(error.to_string().into()),
            }
        }
    }
}
