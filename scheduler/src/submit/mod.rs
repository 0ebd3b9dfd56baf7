//! From a request to a scheduled run, for both surfaces of the API: workflow, options, inputs, system variables, run
//! id, head, and the one call that creates it. Read [`Submitter::submit`]; the rest are its words.

pub mod apart;
mod clock;
pub mod commands;
pub(crate) mod conversation;
pub(crate) mod files;
mod import;
mod inputs;
mod memory;
pub(crate) mod naming;
mod options;
mod sys;
mod talk;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::Value as Json;
use tidemill_common::config::{Config, nearest};
use tidemill_common::crash::{self, Place};
use tidemill_common::dsl::Diagnostic;
use tidemill_common::failure::EngineErrorType;
use tidemill_common::graph::{Graph, NodeIx};
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::machine::budget::Budget;
use tidemill_common::machine::run::{Caller, RunHead, RunStatus};
use tidemill_common::nodes::ExecutionType;
use tidemill_common::store::{
    App, Created, FromSchedule, Meta, NewRun, Reserved, Runs, StoreError, WaitingCall, scheduled_run,
};
use tidemill_common::value::JsonMap;
use tidemill_common::wire;
use tokio::sync::OnceCell;

use self::apart::Apart;
use self::clock::StoreClock;
use crate::api::graphs::{GraphError, Graphs, Known};
use crate::budgets::Budgets;
use crate::turns::{SettleError, Turns};

pub use import::Retry;
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
    /// A conversation that belongs to another app or user.
    #[error("conversation_id names a conversation of another app or user")]
    ForeignConversation,
    /// A turn that does not fit.
    #[error("memory[{0}] must be an object with the texts query and answer, and perhaps a list of files")]
    Memory(usize),
    /// A command that does not fit.
    #[error("{place} {reason}")]
    Command {
        /// Where in the request.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// A node that no run can begin at.
    #[error("root {0:?} is no node of the workflow that a run can begin at")]
    Root(String),
    /// The time of a schedule, or a called run, that another scheduler has dealt with.
    #[error("another scheduler has dealt with it")]
    Passed,
    /// An id that no conversation can have.
    #[error("conversation_id must have at most 64 characters: letters, digits, and - _ .")]
    ConversationId,
    /// Workflows that call workflows, too deep. Dify's text.
    #[error("Max workflow call depth {0} reached.")]
    CallDepth(u64),
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
    /// The key that pays has spent all it may.
    #[error("{class}: {0}", class = EngineErrorType::BudgetExceeded)]
    OverBudget(String),
    /// The idempotency key belongs to another request.
    #[error("this Idempotency-Key was used before, with another request")]
    KeyTaken,
    /// The shard has too much to do.
    #[error("too many facts wait to be applied (scheduler.inbox_max); try again in a moment")]
    Busy,
    /// The workers are behind.
    #[error("too many jobs wait for a worker (scheduler.queue_max); try again in a moment")]
    QueueFull,
    /// A value that was stored a moment ago is gone.
    #[error("the store lost a value of this submission; try again")]
    BlobGone,
    /// A snapshot that cannot be taken up.
    #[error("{0}")]
    Snapshot(String),
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
    /// Inputs of the node that it begins at. Those of a start node go through its form, as on Dify; a caller who gives the system variables exactly
    /// is a host of its own, and its inputs are taken exactly, too.
    pub inputs: JsonMap,
    /// The files of the request, as Dify's `files`.
    pub files: Vec<Json>,
    /// System variables.
    pub sys: SystemValues,
    /// Values of conversation variables.
    pub conversation: JsonMap,
    /// The conversation it belongs to; empty for a new one. What it remembers is taken where `conversation` says
    /// nothing.
    pub conversation_id: Option<String>,
    /// A conversation that is not there, or somebody else's, is not gone on with: a new one begins (Dify).
    pub only_known_conversation: bool,
    /// What is asked, of a chat; its `sys.query`.
    pub query: String,
    /// A conversation that begins is not named after what is asked.
    pub is_nameless: bool,
    /// The turns of the conversation before it, where it does not keep them itself, oldest first: objects with `query`, `answer` and perhaps `files`.
    pub memory: Vec<Json>,
    /// Commands that wait for nodes: objects with `after`, `command` and what belongs to it.
    pub commands: Vec<Json>,
    /// How many workflows deep it is called by others.
    pub call_depth: u64,
    /// The API key that pays for it, by its id.
    pub key: Option<String>,
    /// Who asks.
    pub user: String,
    /// Run options.
    pub options: JsonMap,
    /// So that repeating it makes no second run.
    pub idempotency: Option<Idempotency>,
    /// The node that it begins at, of several that could; the first of them unless it is said.
    pub root: Option<String>,
    /// The id that it gets; a new one unless it is said.
    pub run: Option<RunId>,
    /// The time of a schedule that it belongs to, from which its id follows.
    pub schedule: Option<FromSchedule>,
    /// The node of another run that calls it, and the order that it is made of; its id is the order's.
    pub called: Option<CalledBy>,
    /// Files were kept for it already, under `run`.
    pub has_files: bool,
}

/// See [`Submission::called`].
#[derive(Debug, Clone)]
pub struct CalledBy {
    /// The order.
    pub call: WaitingCall,
    /// The node that waits for its end.
    pub caller: Caller,
    /// What the caller has left to spend.
    pub budget: Option<Box<Budget>>,
}

impl Submission {
    /// A run of a workflow with inputs, and nothing else said.
    pub fn of(workflow: WorkflowSource, sys: SystemValues, inputs: JsonMap) -> Self {
        Self {
            workflow,
            inputs,
            files: Vec::new(),
            sys,
            conversation: JsonMap::new(),
            conversation_id: None,
            only_known_conversation: false,
            query: String::new(),
            is_nameless: false,
            memory: Vec::new(),
            commands: Vec::new(),
            call_depth: 0,
            key: None,
            user: String::new(),
            options: JsonMap::new(),
            idempotency: None,
            root: None,
            run: None,
            schedule: None,
            called: None,
            has_files: false,
        }
    }
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
    /// The conversation it belongs to.
    pub conversation_id: Option<String>,
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
    clock: StoreClock,
    turns: Turns,
    /// What keys may spend.
    pub budgets: Budgets,
}

impl Submitter {
    /// For this store, under these settings.
    pub fn new(store: Arc<dyn Runs>, config: Arc<Config>, graphs: Arc<Graphs>) -> Self {
        let turns = Turns::new(store.clone(), graphs.clone(), config.clone());
        let budgets = Budgets::new(store.clone());
        Self { budgets, store, config, graphs, meta: OnceCell::new(), clock: StoreClock::default(), turns }
    }

    /// Creates the run, or finds the one that the same request created before. When this returns well, the run will
    /// be executed, whatever happens to this process.
    ///
    /// # Errors
    /// See [`SubmitError`]; nothing was created then, except perhaps when the store did not answer. Under an
    /// idempotency key it is safe to ask again.
    pub async fn submit(&self, submission: Submission) -> Result<Submitted, SubmitError> {
        let (known, warnings) = self.workflow(&submission.workflow).await?;
        let user = user(&submission.user)?;
        let mut options = options::resolve(&self.config, &known.options, &submission.options)?;
        let known = match options.choices.as_deref() {
            Some(choices) if choices.summary_before || choices.facts_after => {
                self.graphs.with_steps_around(&known, choices)?
            }
            Some(_) | None => known,
        };
        let graph = &known.graph;
        if let Some(left) = submission.called.as_ref().and_then(|by| by.budget.clone()) {
            let own = options.budget.take().map(|own| *own).unwrap_or_default();
            options.budget = Some(Box::new(own.tighter(*left)));
        }
        let root = root(graph, submission.root.as_deref())?;
        let inputs = inputs::of_run(graph, root, &submission)?;
        let files = files::of_request(&graph.features, &submission.files)?;
        // So that what does not fit is refused before a key is reserved.
        inputs::of_conversation(graph, &submission.conversation)?;
        let history = memory::history(&submission.memory)?;
        commands::read_breakpoints(submission.commands.clone(), graph)?;
        if let Some(reason) = submission.key.as_deref().and_then(|key| self.budgets.exceeded(key)) {
            return Err(SubmitError::OverBudget(reason));
        }
        let depth_max = self.config.run.call_depth_max;
        if submission.call_depth > depth_max {
            return Err(SubmitError::CallDepth(depth_max));
        }

        let named = submission.called.as_ref().map(|by| by.call.run).or(submission.run);
        let mut run = match (&submission.schedule, named) {
            (Some(from), _) => scheduled_run(&from.trigger, from.at, *self.meta().await?),
            (None, Some(run)) => run,
            (None, None) => RunId::generate(self.place(submission.conversation_id.as_deref()).await?),
        };
        if let Some(key) = &submission.idempotency {
            match self.store.reserve(&key.key_hash, &key.request_hash, run).await? {
                Reserved::Ours => crash::pass(Place::KeyReserved),
                Reserved::Other => return Err(SubmitError::KeyTaken),
                Reserved::Same(earlier) => {
                    if let Some(status) = self.status(earlier).await? {
                        return Ok(Submitted {
                            run: earlier,
                            is_new: false,
                            status: status.0,
                            known,
                            conversation_id: status.1,
                            warnings,
                        });
                    }
                    // Whoever reserved the key died before the run was there: it is created now, under its id.
                    run = earlier;
                }
            }
        }

        let new_id = |id: &String| if id.is_empty() { conversation::new_id(run) } else { id.clone() };
        let conversation_id = submission.conversation_id.as_ref().map(new_id);
        let created_at = self.clock.now(&*self.store).await?;
        let talk =
            self.talk(graph, &submission, run, conversation_id.as_deref(), &inputs, created_at).await?;
        let conversation_id = talk.as_ref().map(|talk| talk.id.clone()).or(conversation_id);
        let history = history.map_or_else(
            || memory::history(talk.as_ref().map(|talk| talk.turns.as_slice()).unwrap_or_default()),
            |given| Ok(Some(given)),
        )?;
        let about = sys::About {
            run,
            user: &user,
            // A run that is late stands for its own time.
            at: submission.schedule.as_ref().map_or(created_at, |from| from.at),
            source: &submission.workflow,
            files,
            conversation_id: conversation_id.as_deref(),
            query: &submission.query,
            dialogue: talk.as_ref().map_or(1, |talk| talk.dialogue),
        };
        let sys = sys::values(graph, submission.sys, about);
        let given = &submission.conversation;
        let (conversation, has_messages) = match &conversation_id {
            Some(id) => conversation::variables(&*self.store, run.shard(), id, graph, given).await?,
            None => (inputs::of_conversation(graph, given)?, false),
        };
        let takes_messages = conversation_id.clone().filter(|_| has_messages && talk.is_some());
        let value_bytes_max = self.config.run.value_bytes_max;
        let mut apart =
            Apart::new(self.store.clone(), run.shard(), options.inline_bytes_max, value_bytes_max);
        let head = RunHead {
            graph: graph.hash.clone(),
            app: submission.workflow.app_id(),
            root: (root != graph.root).then(|| graph.node(root).id.clone()),
            user,
            inputs: apart.named(inputs).await?,
            sys: apart.named(sys).await?,
            conversation: apart.named(conversation).await?,
            leaves_turn: talk.is_some(),
            takes_messages: takes_messages.is_some(),
            history: match history {
                Some(turns) => Some(apart.value(memory::NAME, turns).await?),
                None => None,
            },
            conversation_id,
            caller: submission.called.as_ref().map(|by| Box::new(by.caller.clone())),
            call_depth: submission.call_depth,
            key: submission.key,
            commands: commands::breakpoints(submission.commands, graph, &mut apart).await?,
            options,
            created_at,
        };
        let new = NewRun {
            id: run,
            graph: (graph.hash.to_string(), known.document.clone()),
            fields: wire::state::head_fields(&head, graph),
            kind: wire::fact::kind::START,
            start: wire::fact::start_body(&head),
            queues: graph.queues(),
            blobs: apart.into_blobs(),
            created_at,
            schedule: submission.schedule,
            called: submission.called.map(|by| by.call),
            has_files: submission.has_files,
            takes_messages,
        };
        let is_new = match self.store.create_run(&new).await? {
            Created::Created => true,
            Created::Exists => false,
            Created::Passed => return Err(SubmitError::Passed),
            Created::Busy => return Err(SubmitError::Busy),
            Created::QueueFull => return Err(SubmitError::QueueFull),
            Created::BlobMissing => return Err(SubmitError::BlobGone),
        };
        crash::pass(Place::RunCreated);
        tracing::info!(run = %run, app = head.app.as_deref().unwrap_or(""), is_new, "run submitted");
        let conversation_id = head.conversation_id;
        Ok(Submitted { run, is_new, status: RunStatus::Scheduled, known, conversation_id, warnings })
    }

    async fn workflow(&self, source: &WorkflowSource) -> Result<(Arc<Known>, Vec<Diagnostic>), SubmitError> {
        match source {
            WorkflowSource::App(app) => {
                let known = self.graphs.of_document(&app.version, &app.document)?;
                self.graphs.check_moderation(&known.graph)?;
                Ok((known, Vec::new()))
            }
            WorkflowSource::Text(text) => Ok(import(&self.graphs, text.clone().into_bytes()).await?),
        }
    }

    /// Where a run of this conversation lives; an empty id is that of a new one.
    async fn place(&self, conversation: Option<&str>) -> Result<ShardId, SubmitError> {
        match conversation {
            None | Some("") => Ok(self.some_shard().await?),
            Some(id) => {
                conversation::check(id)?;
                Ok(conversation::shard_of(id, *self.meta().await?))
            }
        }
    }

    /// Where a conversation lives.
    ///
    /// # Errors
    /// An id that no conversation can have; the store's.
    pub async fn shard_of_conversation(&self, id: &str) -> Result<ShardId, SubmitError> {
        self.place(Some(id)).await
    }

    /// Settles the turn of a run, if it has ended and nobody has.
    ///
    /// # Errors
    /// As [`Turns::settle`].
    pub async fn settle_turn(&self, run: RunId) -> Result<(), SettleError> {
        self.turns.settle(run).await
    }

    async fn meta(&self) -> Result<&Meta, StoreError> {
        self.meta.get_or_try_init(|| self.store.meta()).await
    }

    /// A shard for a run that belongs to none.
    ///
    /// # Errors
    /// The store's.
    pub async fn some_shard(&self) -> Result<ShardId, StoreError> {
        let meta = self.meta().await?;
        let random = uuid::Uuid::new_v4().as_u128() % u128::from(meta.shards.max(1));
        Ok(ShardId(u16::try_from(random).unwrap_or(0)))
    }

    /// Status and conversation of a run that is there.
    async fn status(&self, run: RunId) -> Result<Option<(RunStatus, Option<String>)>, StoreError> {
        let Some(fields) = self.store.run_fields(run).await? else { return Ok(None) };
        let status = fields.get("status").and_then(|s| RunStatus::from_name(s));
        Ok(Some((status.unwrap_or(RunStatus::Scheduled), fields.get("conversation_id").cloned())))
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

/// The node that a run begins at.
fn root(graph: &Graph, given: Option<&str>) -> Result<NodeIx, SubmitError> {
    let Some(given) = given else { return Ok(graph.root) };
    let found = graph.find(given).filter(|at| {
        let node = graph.node(*at);
        node.kind.spec().execution == ExecutionType::Root && node.parent.is_none()
    });
    found.ok_or_else(|| SubmitError::Root(given.to_string()))
}

fn user(given: &str) -> Result<String, SubmitError> {
    if given.chars().count() > USER_CHARS_MAX {
        return Err(SubmitError::User);
    }
    Ok(given.replace('\0', ""))
}

/// The error for a key that is not among the known ones.
fn unknown_option(key: &str, origin: &'static str, known: &[&str]) -> SubmitError {
    let known: Vec<String> = known.iter().map(|k| (*k).to_string()).collect();
    SubmitError::UnknownOption { key: key.into(), origin, nearest: nearest(key, known.iter()) }
}
