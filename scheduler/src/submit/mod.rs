//! From a request to a scheduled run, for both surfaces of the API: workflow, options, inputs, system variables, run
//! id, head, and the one call that creates it. Read [`Submitter::submit`]; the rest are its words.

mod files;
mod inputs;
mod options;
mod sys;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value as Json;
use tidemill_common::config::{Config, nearest};
use tidemill_common::dsl::Diagnostic;
use tidemill_common::ids::{BlobId, RunId, ShardId};
use tidemill_common::machine::fact::NamedValues;
use tidemill_common::machine::run::{RunHead, RunStatus};
use tidemill_common::store::{App, Created, Meta, NewRun, Reserved, Runs, StoreError};
use tidemill_common::value::{BlobRef, JsonMap, Segment, Stored, blob_text};
use tidemill_common::wire;
use tokio::sync::OnceCell;

use crate::api::graphs::{GraphError, Graphs, Known};

pub use sys::SystemValues;

/// Longest `user`, in characters. Dify keeps it in a column of this width.
pub const USER_CHARS_MAX: usize = 255;

/// Why nothing was submitted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The workflow cannot be had.
    #[error(transparent)]
    Workflow(#[from] GraphError),
    /// Inputs that the start form does not take, in Dify's words.
    #[error("{message}")]
    Inputs {
        /// What is wrong.
        message: String,
        /// False for what Dify takes for an error of its own.
        invalid_param: bool,
    },
    /// An option that does not exist.
    #[error("unknown option {key} in {origin}{}", nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    UnknownOption {
        /// Its name.
        key: String,
        /// The request or the workflow.
        origin: &'static str,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// An option's value does not fit.
    #[error("option {key} in {origin} must be {expected}")]
    Option {
        /// Its name.
        key: &'static str,
        /// The request or the workflow.
        origin: &'static str,
        /// What would fit.
        expected: String,
    },
    /// A conversation variable of another type.
    #[error("conversation variable {name} must be of type {expected}")]
    Conversation {
        /// Its name.
        name: String,
        /// The type that the workflow gives it.
        expected: &'static str,
    },
    /// The user's name is too long.
    #[error("user must have at most {USER_CHARS_MAX} characters")]
    User,
    /// Well said, and not possible yet.
    #[error("{0}")]
    NotSupported(String),
    /// A value over the bound.
    #[error("{name} has {size} bytes as JSON, more than run.value_bytes_max ({max} bytes)")]
    ValueTooLarge {
        /// Which value.
        name: String,
        /// Its size.
        size: usize,
        /// The bound.
        max: usize,
    },
    /// The idempotency key belongs to another request.
    #[error("this Idempotency-Key was used before, with another request")]
    KeyTaken,
    /// The shard has too much to do.
    #[error("too many facts wait to be applied (scheduler.inbox_max); try again in a moment")]
    Busy,
    /// A value that was stored a moment ago is gone.
    #[error("the store lost a value of this submission; try again")]
    BlobGone,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Which workflow to run.
#[derive(Debug, Clone)]
pub enum WorkflowSource {
    /// The published version of an app.
    App(Arc<App>),
    /// The text of a workflow file.
    Text(String),
}

/// A request under an idempotency key.
#[derive(Debug, Clone)]
pub struct Idempotency {
    /// SHA-256 of who asks and the key.
    pub key_hash: String,
    /// SHA-256 of what is asked.
    pub request_hash: String,
}

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The workflow.
    pub workflow: WorkflowSource,
    /// Inputs of the start node. They go through its form, as on Dify; a caller who gives the system variables exactly
    /// is a host of its own, and its inputs are taken exactly, too.
    pub inputs: JsonMap,
    /// The files of the request, as Dify's `files`.
    pub files: Vec<Json>,
    /// System variables.
    pub sys: SystemValues,
    /// Values of conversation variables.
    pub conversation: JsonMap,
    /// Who asks.
    pub user: String,
    /// Run options.
    pub options: JsonMap,
    /// So that repeating it makes no second run.
    pub idempotency: Option<Idempotency>,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Submitted {
    /// The run.
    pub run: RunId,
    /// False when it was there before.
    pub is_new: bool,
    /// Where it stands.
    pub status: RunStatus,
    /// Its workflow.
    pub known: Arc<Known>,
    /// What its author may want to look at; for a workflow that came as text.
    pub warnings: Vec<Diagnostic>,
}

/// Creates runs.
pub struct Submitter {
    store: Arc<dyn Runs>,
    config: Arc<Config>,
    graphs: Arc<Graphs>,
    // Read once: more shards are taken into use by starting the schedulers anew.
    meta: OnceCell<Meta>,
}

impl Submitter {
    /// For this store, under these settings.
    pub fn new(store: Arc<dyn Runs>, config: Arc<Config>, graphs: Arc<Graphs>) -> Self {
        Self { store, config, graphs, meta: OnceCell::new() }
    }

    /// Creates the run, or finds the one that the same request created before. When this returns well, the run will
    /// be executed, whatever happens to this process.
    ///
    /// # Errors
    /// See [`SubmitError`]; nothing was created then, except perhaps when the store did not answer. Under an
    /// idempotency key it is safe to ask again.
    pub async fn submit(&self, submission: Submission) -> Result<Submitted, SubmitError> {
        let (known, warnings) = self.workflow(&submission.workflow).await?;
        let graph = &known.graph;
        let user = user(&submission.user)?;
        let options = options::resolve(&self.config, &known.options, &submission.options)?;
        let inputs = inputs::of_run(graph, &submission)?;
        let conversation = inputs::of_conversation(graph, &submission.conversation)?;
        let files = files::of_request(&graph.features, &submission.files)?;

        let mut run = RunId::generate(self.some_shard().await?);
        if let Some(key) = &submission.idempotency {
            match self.store.reserve(&key.key_hash, &key.request_hash, run).await? {
                Reserved::Ours => {}
                Reserved::Other => return Err(SubmitError::KeyTaken),
                Reserved::Same(earlier) => {
                    if let Some(status) = self.status(earlier).await? {
                        return Ok(Submitted { run: earlier, is_new: false, status, known, warnings });
                    }
                    // Whoever reserved the key died before the run was there: it is created now, under its id.
                    run = earlier;
                }
            }
        }

        let created_at = self.store.time().await?;
        let about = sys::About { run, user: &user, created_at, source: &submission.workflow, files };
        let sys = sys::values(graph, submission.sys, about);
        let mut apart = Apart {
            submitter: self,
            shard: run.shard(),
            inline_bytes_max: options.inline_bytes_max,
            blobs: Vec::new(),
        };
        let head = RunHead {
            graph: graph.hash.clone(),
            app: submission.workflow.app_id(),
            user,
            inputs: apart.at_rest(inputs).await?,
            sys: apart.at_rest(sys).await?,
            conversation: apart.at_rest(conversation).await?,
            conversation_id: None,
            commands: Vec::new(),
            options,
            created_at,
        };
        let new = NewRun {
            id: run,
            graph: (graph.hash.to_string(), known.document.clone()),
            fields: wire::state::head_fields(&head, graph),
            start: wire::fact::start_body(&head),
            blobs: apart.blobs,
            created_at,
        };
        let is_new = match self.store.create_run(&new).await? {
            Created::Created => true,
            Created::Exists => false,
            Created::Busy => return Err(SubmitError::Busy),
            Created::BlobMissing => return Err(SubmitError::BlobGone),
        };
        tracing::info!(run = %run, app = head.app.as_deref().unwrap_or(""), is_new, "run submitted");
        Ok(Submitted { run, is_new, status: RunStatus::Scheduled, known, warnings })
    }

    async fn workflow(&self, source: &WorkflowSource) -> Result<(Arc<Known>, Vec<Diagnostic>), SubmitError> {
        match source {
            WorkflowSource::App(app) => {
                let known = self.graphs.of_document(&app.version, &app.document)?;
                Ok((known, Vec::new()))
            }
            WorkflowSource::Text(text) => Ok(import(&self.graphs, text.clone().into_bytes()).await?),
        }
    }

    async fn some_shard(&self) -> Result<ShardId, StoreError> {
        let meta = self.meta.get_or_try_init(|| self.store.meta()).await?;
        let random = uuid::Uuid::new_v4().as_u128() % u128::from(meta.shards.max(1));
        Ok(ShardId(u16::try_from(random).unwrap_or(0)))
    }

    async fn status(&self, run: RunId) -> Result<Option<RunStatus>, StoreError> {
        let Some(fields) = self.store.run_fields(run).await? else { return Ok(None) };
        Ok(Some(fields.get("status").and_then(|s| RunStatus::from_name(s)).unwrap_or(RunStatus::Scheduled)))
    }
}

/// Imports a workflow file on a thread where it may take its time.
///
/// # Errors
/// As [`Graphs::import`].
pub async fn import(
    graphs: &Arc<Graphs>,
    text: Vec<u8>,
) -> Result<(Arc<Known>, Vec<Diagnostic>), GraphError> {
    let graphs = graphs.clone();
    match tokio::task::spawn_blocking(move || graphs.import(&text)).await {
        Ok(imported) => imported,
        Err(broken) => {
            Err(GraphError::Unreadable { hash: "of the request".into(), reason: broken.to_string() })
        }
    }
}

impl WorkflowSource {
    fn app_id(&self) -> Option<String> {
        match self {
            Self::App(app) => Some(app.id.clone()),
            Self::Text(_) => None,
        }
    }
}

fn user(given: &str) -> Result<String, SubmitError> {
    if given.chars().count() > USER_CHARS_MAX {
        return Err(SubmitError::User);
    }
    Ok(given.replace('\0', ""))
}

/// Puts large values apart, on the shard of their run.
struct Apart<'a> {
    submitter: &'a Submitter,
    shard: ShardId,
    inline_bytes_max: usize,
    blobs: Vec<(BlobId, u64)>,
}

impl Apart<'_> {
    async fn at_rest(&mut self, values: Vec<(String, Segment)>) -> Result<NamedValues, SubmitError> {
        let mut stored = NamedValues::with_capacity(values.len());
        for (name, segment) in values {
            let text = blob_text(&segment.value);
            let max = self.submitter.config.run.value_bytes_max;
            if text.len() > max {
                return Err(SubmitError::ValueTooLarge { name, size: text.len(), max });
            }
            if text.len() <= self.inline_bytes_max {
                stored.push((name, Stored::Inline(segment)));
                continue;
            }
            let blob = BlobRef::to(BlobId::generate(), &segment, &text);
            self.submitter.store.put_blob(self.shard, &blob.id, &text).await?;
            self.blobs.push((blob.id.clone(), blob.size));
            stored.push((name, Stored::Blob(blob)));
        }
        Ok(stored)
    }
}

/// The error for a key that is not among the known ones.
fn unknown_option(key: &str, origin: &'static str, known: &[&str]) -> SubmitError {
    let known: Vec<String> = known.iter().map(|k| (*k).to_string()).collect();
    SubmitError::UnknownOption { key: key.into(), origin, nearest: nearest(key, known.iter()) }
}
