//! The submission that the surfaces of the API pass on, and its result.

use std::sync::Arc;

use serde_json::Value as Json;
use tidemill_common::dsl::Diagnostic;
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::options::budget::Budget;
use tidemill_common::machine::state::run::{Caller, RunStatus};
use tidemill_common::store::{App, Durability, FromSchedule, Labels, WaitingCall};
use tidemill_common::value::JsonMap;

use super::SystemValues;
use super::host::HostField;
use crate::workflows::{Seals, Workflow};

/// The workflow to run.
#[derive(Debug, Clone)]
pub enum WorkflowSource {
    /// The published version of an app.
    App(Arc<App>),
    /// The text of a workflow file.
    Text(String),
    /// A file of Tidemill itself.
    BuiltIn(Arc<Workflow>),
}

/// A request under an idempotency key.
#[derive(Debug, Clone)]
pub struct Idempotency {
    /// SHA-256 of the client's name and its key.
    pub key_hash: String,
    /// SHA-256 of the request.
    pub request_hash: String,
}

/// A run to create.
#[derive(Debug, Clone)]
pub struct Submission {
    pub workflow: WorkflowSource,
    /// Inputs of the node that the run begins at. Those of a start node go through its form, as on Dify. With
    /// [`SystemValues::Exactly`] the client is the host of the run, and the inputs are taken unchanged, too.
    pub inputs: JsonMap,
    /// The files of the request, as Dify's `files`.
    pub files: Vec<Json>,
    pub sys: SystemValues,
    /// Values of conversation variables.
    pub conversation: JsonMap,
    /// The conversation of the run; empty for a new one. Its stored values fill in what `conversation` leaves out.
    pub conversation_id: Option<String>,
    /// If the conversation does not exist or belongs to another user, a new one begins, as on Dify.
    pub only_known_conversation: bool,
    /// The user's message in a chat: `sys.query`.
    pub query: String,
    /// A new conversation is not named after the query.
    pub is_nameless: bool,
    /// Earlier turns, oldest first, of a conversation that is not stored here: objects with `query`, `answer` and
    /// optionally `files`.
    pub memory: Vec<Json>,
    /// Commands that wait for a node: objects with `after`, `command` and the fields of the command.
    pub commands: Vec<Json>,
    /// The number of workflows above this one in a chain of calls.
    pub call_depth: u64,
    /// The id of the API key that pays for the run.
    pub key: Option<String>,
    /// The user's name, as the client gives it.
    pub user: String,
    /// What the host of the run says about it: system variables, and fields of the run's hash.
    pub host: Vec<HostField>,
    pub options: JsonMap,
    /// Labels by which the run is found again.
    pub labels: Labels,
    /// Makes a repeated request find the first run.
    pub idempotency: Option<Idempotency>,
    /// The id of the node to begin at, where the workflow has several such nodes; the first one by default.
    pub root: Option<String>,
    /// The id of the run; a new one by default.
    pub run: Option<RunId>,
    /// The schedule and the time that start the run; its id is derived from them.
    pub schedule: Option<FromSchedule>,
    /// The order of another run that calls this one as a sub-workflow; the order gives the id.
    pub called: Option<CalledBy>,
    /// Files are already stored under `run`.
    pub has_files: bool,
    /// What must have happened to the run before it is acknowledged; `scheduler.durability` by default.
    pub durability: Option<Durability>,
    /// The request is the operator's, who may hand files of any run to this one.
    pub is_of_operator: bool,
    /// Whether the text of a workflow may have sealed secrets.
    pub seals: Seals,
}

/// The caller of a sub-workflow run.
#[derive(Debug, Clone)]
pub struct CalledBy {
    pub call: WaitingCall,
    /// The node that waits for the end of the run.
    pub caller: Caller,
    /// The rest of the caller's budget.
    pub budget: Option<Box<Budget>>,
}

impl Submission {
    /// A run of a workflow with inputs; all else is the default.
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
            is_of_operator: false,
            seals: Seals::Allowed,
            key: None,
            user: String::new(),
            host: Vec::new(),
            options: JsonMap::new(),
            labels: Labels::new(),
            idempotency: None,
            root: None,
            run: None,
            schedule: None,
            called: None,
            has_files: false,
            durability: None,
        }
    }
}

/// The result of a submission.
#[derive(Debug, Clone)]
pub struct Submitted {
    pub run: RunId,
    /// False when an earlier request created the run.
    pub is_new: bool,
    pub status: RunStatus,
    pub workflow: Arc<Workflow>,
    pub conversation_id: Option<String>,
    /// Warnings about a workflow that came as text.
    pub warnings: Vec<Diagnostic>,
}

impl WorkflowSource {
    pub(super) fn app_id(&self) -> Option<String> {
        match self {
            Self::App(app) => Some(app.id.clone()),
            Self::Text(_) | Self::BuiltIn(_) => None,
        }
    }
}
