//! A submission as the surfaces of the API hand it over, and the answer to it.

use std::sync::Arc;

use serde_json::Value as Json;
use tidemill_common::dsl::Diagnostic;
use tidemill_common::ids::RunId;
use tidemill_common::machine::budget::Budget;
use tidemill_common::machine::run::{Caller, RunStatus};
use tidemill_common::store::{App, FromSchedule, WaitingCall};
use tidemill_common::value::JsonMap;

use super::SystemValues;
use crate::workflows::Workflow;

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
    pub workflow: Arc<Workflow>,
    /// The conversation it belongs to.
    pub conversation_id: Option<String>,
    /// What its author may want to look at; for a workflow that came as text.
    pub warnings: Vec<Diagnostic>,
}

impl WorkflowSource {
    pub(super) fn app_id(&self) -> Option<String> {
        match self {
            Self::App(app) => Some(app.id.clone()),
            Self::Text(_) => None,
        }
    }
}
