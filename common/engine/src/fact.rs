//! The facts that the engine applies: everything that can happen to a run.

use std::sync::Arc;

use serde_json::Value as Json;

use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{EntryId, ExecutionId, FramePath, NodeId, RunId};
use tidemill_base::value::{JsonMap, Selector, Stored};
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::messages::MessageChange;

use crate::state::NamedValues;
use crate::state::record::Record;
use crate::state::run::{RunHead, RunState};
use crate::state::step_event::StepEvent;
use crate::state::transitions::FactKind;
use tidemill_workflow::nodes::{PauseRequest, Usage};

/// An event that has happened, as an entry of a shard's inbox.
#[derive(Debug, Clone)]
pub enum Fact {
    /// The run was submitted.
    Start(Box<RunHead>),
    /// The run was submitted, and its state was created from that submission: it has its head already.
    Begin,
    /// A worker has begun an attempt and is still executing it.
    JobStarted(JobStarted),
    /// A piece of streamed text.
    JobChunk(JobChunk),
    /// An entry was recorded in the job's journal, or the job emits events.
    JobStepped(JobStepped),
    /// Something happened to a node that runs inside the job.
    Child(Box<ChildFact>),
    /// A job waits for a time, an answer or another run, and no worker holds it.
    JobParked(JobParked),
    /// A job orders a sub-workflow run, and its worker continues meanwhile.
    JobCalled(JobCalled),
    /// A worker brought a result.
    JobSucceeded(JobDone),
    /// A worker brought a failure.
    JobFailed(JobDone),
    /// The job of an execution has vanished: it is not queued, and no worker holds it.
    JobLost(JobLost),
    /// A step of this run panicked, or brought its owner down several times. The run fails, and its shard continues.
    Defect(Arc<str>),
    /// A timer is due.
    TimerFired(Timer),
    /// The timer of the run's time is due ([`Timer::RunDeadline`]), and some of its jobs are with workers.
    RunDeadline(Vec<LastSign>),
    /// An earlier step stopped at its limit and left nodes ready.
    Continue,
    /// A command: end the run.
    Stop(Stop),
    /// A command: begin nothing new.
    Pause(PauseCommand),
    /// A command: lift the pause commands and continue.
    Resume,
    /// A command: set variables.
    Update(UpdateVariables),
    /// A pause was answered or cancelled.
    Answer(Answer),
    /// The API key that pays for the run has spent its budget. The run fails with this reason.
    OverBudget(Arc<str>),
    /// A sub-workflow run of this run has ended, or cannot be created.
    CallEnded(CallEnded),
    /// A sub-workflow run of this run wants to change a list of messages of this run.
    ParentAsked(Box<ParentAsked>),
    /// The caller of this run has answered what this run asked of it.
    ParentAnswered(Box<ParentAnswered>),
    /// The run begins with the state of an exported run.
    Import(Box<RunState>),
}

impl Fact {
    /// Returns the kind of the fact, as the table of statuses names it.
    pub const fn kind(&self) -> FactKind {
        match self {
            Self::Start(_) | Self::Begin => FactKind::Start,
            Self::Import(_) => FactKind::Import,
            Self::JobStarted(_) => FactKind::JobStarted,
            Self::JobChunk(_) => FactKind::JobChunk,
            Self::JobStepped(_) => FactKind::JobStepped,
            Self::Child(_) => FactKind::Child,
            Self::JobParked(_) => FactKind::JobParked,
            Self::JobCalled(_) => FactKind::JobCalled,
            Self::CallEnded(_) => FactKind::CallEnded,
            Self::ParentAsked(_) => FactKind::ParentAsked,
            Self::ParentAnswered(_) => FactKind::ParentAnswered,
            Self::JobSucceeded(_) => FactKind::JobSucceeded,
            Self::JobFailed(_) => FactKind::JobFailed,
            Self::JobLost(_) => FactKind::JobLost,
            Self::Continue => FactKind::Continue,
            Self::TimerFired(Timer::Retry { .. }) => FactKind::RetryDue,
            Self::TimerFired(Timer::Queue { .. }) => FactKind::QueueTimeout,
            Self::TimerFired(Timer::Execution { .. }) => FactKind::ExecutionTimeout,
            Self::TimerFired(Timer::PauseExpires { .. }) => FactKind::PauseExpires,
            Self::TimerFired(Timer::PauseLimit { .. }) => FactKind::PauseLimit,
            Self::TimerFired(Timer::RunDeadline) | Self::RunDeadline(_) => FactKind::RunDeadline,
            Self::Answer(_) => FactKind::Answer,
            Self::Pause(_) => FactKind::Pause,
            Self::Resume => FactKind::Resume,
            Self::Update(_) => FactKind::Update,
            Self::OverBudget(_) => FactKind::OverBudget,
            Self::Stop(_) => FactKind::Stop,
            Self::Defect(_) => FactKind::Defect,
        }
    }
}

/// Names the attempt that a worker reports on, and the delivery by which the worker holds the job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRef {
    pub frame: FramePath,
    pub node: NodeIx,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The entry of the job. A job that was lost and queued again has a new entry; the old one is ignored.
    pub entry: EntryId,
    /// The number of the delivery that reports.
    pub delivery: u32,
    /// The last sign of life of the worker that lost the job before, if the reporting one knows it.
    pub lost_at: Option<Timestamp>,
}

/// See [`Fact::JobStarted`].
#[derive(Debug, Clone)]
pub struct JobStarted {
    pub job: JobRef,
    /// When the attempt began.
    pub at: Timestamp,
}

/// See [`Fact::JobChunk`].
#[derive(Debug, Clone)]
pub struct JobChunk {
    pub job: JobRef,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// The node's text that this is a piece of.
    pub selector: Selector,
    /// Bytes of the text before this piece.
    pub offset: u64,
    pub text: String,
}

/// See [`Fact::JobStepped`].
#[derive(Debug, Clone)]
pub struct JobStepped {
    pub job: JobRef,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// Its events, in order.
    pub events: Vec<(StepEvent, JsonMap)>,
    pub charge: Option<Box<Charge>>,
}

/// See [`Fact::Child`].
#[derive(Debug, Clone)]
pub struct ChildFact {
    /// The job of the parent, which the child runs in.
    pub job: JobRef,
    /// When the try began.
    pub started_at: Timestamp,
    pub child: NodeIx,
    /// The try, from 1. Tries are counted over all deliveries of the job.
    pub number: u32,
    pub what: ChildEvent,
}

/// An event of a child node. `Retry` and `Ended` are recorded in the job's journal in the same write as this fact.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildEvent {
    /// A try began.
    Started,
    /// A piece of streamed text.
    Chunk {
        /// The child's text that this is a piece of.
        selector: Selector,
        /// Bytes of the text before this piece.
        offset: u64,
        text: String,
    },
    /// A journal entry of the child was recorded, or it emits events.
    Step {
        /// Its events, in order.
        events: Vec<(StepEvent, JsonMap)>,
        charge: Option<Box<Charge>>,
    },
    /// The try has failed, and another follows.
    Retry { at: Timestamp, record: Box<Record> },
    /// It has ended.
    Ended {
        at: Timestamp,
        end: ChildEnd,
        record: Box<Record>,
        /// The number of bytes that were streamed of each text.
        streamed: Vec<(Selector, u64)>,
    },
}

/// The outcome of a child node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildEnd {
    Succeeded,
    /// It failed, and its parent fails with it.
    Failed,
    /// It failed, and its parent continues with default values in place of its outputs.
    Replaced,
}

impl ChildEnd {
    /// All outcomes.
    pub const ALL: [Self; 3] = [Self::Succeeded, Self::Failed, Self::Replaced];
    /// The name of the outcome on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Replaced => "replaced",
        }
    }
}

/// The cost of one model call within a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Charge {
    /// The journal entry and its try, such as `llm:2/1`. With the execution it names the ledger entry, so the call is
    /// counted once.
    pub key: String,
    /// Tokens and price.
    pub usage: Usage,
    /// The provider as the workflow names it, and the model.
    pub model: (String, String),
    /// The sub-workflow run that spent this, if one did. The ledger of that run has the single model calls.
    pub run: Option<RunId>,
}

/// See [`Fact::JobParked`]. A parked job keeps its execution, attempt and journal, and is queued again later.
#[derive(Debug, Clone)]
pub struct JobParked {
    pub job: JobRef,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// When the worker let go of it. An older worker does not report it.
    pub parked_at: Option<Timestamp>,
    /// How long the job waits, in milliseconds from the moment that this fact is applied.
    pub wait_ms: u64,
    /// The reason of the wait, as a text for people.
    pub reason: String,
    /// True when a child node waits. The parent itself has not begun then.
    pub is_childs: bool,
    /// The sub-workflow run whose end the job waits for, if any.
    pub call: Option<Box<Call>>,
    /// The question, if the job waits for an answer.
    pub pause: Option<Box<JobQuestion>>,
}

/// See [`Fact::JobCalled`]. The worker follows the run by reading it, so its end wakes nothing.
#[derive(Debug, Clone)]
pub struct JobCalled {
    pub job: JobRef,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// True when a child node calls. The parent itself has not begun then.
    pub is_childs: bool,
    pub call: Box<Call>,
}

/// A question that a job asks a person in one of its journal entries.
#[derive(Debug, Clone, PartialEq)]
pub struct JobQuestion {
    /// The id of the pause, derived from the execution and the journal entry ([`crate::state::pause::id_in_job`]).
    pub pause: Arc<str>,
    /// The key of the journal entry.
    pub step: Arc<str>,
    pub request: PauseRequest,
}

/// A sub-workflow run that a node orders, or has ordered.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The run. Its id is derived from the journal entry and its try ([`tidemill_base::ids::RunId::called_by`]).
    pub run: RunId,
    /// The app, by its id or its name.
    pub app: String,
    /// The run's input: an object with `inputs` and perhaps `files`. `None` when the worker knows that the run was
    /// ordered before.
    pub given: Option<Stored>,
}

/// See [`Fact::CallEnded`].
#[derive(Debug, Clone, PartialEq)]
pub struct CallEnded {
    /// The frame of the node that waits for the run.
    pub frame: FramePath,
    pub node: NodeIx,
    /// The sub-workflow run that has ended.
    pub run: RunId,
}

/// See [`Fact::ParentAsked`].
#[derive(Debug, Clone, PartialEq)]
pub struct ParentAsked {
    /// The frame of the node that called the sub-workflow run.
    pub frame: FramePath,
    /// The node that called it.
    pub node: NodeId,
    /// The sub-workflow run that asks.
    pub child: RunId,
    /// The execution that asks; it belongs to the sub-workflow run, as do `child_frame` and `child_node`.
    pub execution: ExecutionId,
    pub child_frame: FramePath,
    pub child_node: NodeId,
    /// The wanted change.
    pub change: MessageChange,
}

/// See [`Fact::ParentAnswered`].
#[derive(Debug, Clone, PartialEq)]
pub struct ParentAnswered {
    /// The frame of the node that asked.
    pub frame: FramePath,
    pub node: NodeId,
    /// The outputs of that node, or the type and the text of the error.
    pub answer: Result<NamedValues, (String, String)>,
}

/// See [`Fact::JobSucceeded`] and [`Fact::JobFailed`].
#[derive(Debug, Clone)]
pub struct JobDone {
    pub job: JobRef,
    /// When the attempt began.
    pub started_at: Timestamp,
    pub finished_at: Timestamp,
    /// The result of the attempt: outputs, failure, cost.
    pub record: Box<Record>,
    /// The number of bytes that this holder streamed of each text.
    pub streamed: Vec<(Selector, u64)>,
}

/// See [`Fact::JobLost`]. The owner of the shard looks for such jobs from time to time, and creates this fact.
#[derive(Debug, Clone, PartialEq)]
pub struct JobLost {
    pub frame: FramePath,
    pub node: NodeIx,
    /// The entry of the job that has vanished.
    pub entry: EntryId,
}

/// The last sign of life of the worker that holds a job. See [`Fact::RunDeadline`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastSign {
    /// The entry of the job.
    pub entry: EntryId,
    pub at: Timestamp,
}

/// The purpose of a timer. Its text form is the member of the set of timers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A failed node is due for its next attempt, or a parked job for the same one.
    Retry {
        frame: FramePath,
        node: NodeIx,
        /// The attempt that begins then: the next one, or the present one of a parked job.
        attempt: u32,
    },
    /// A job has waited too long for a worker.
    Queue {
        frame: FramePath,
        node: NodeIx,
        /// The attempt that waits.
        attempt: u32,
    },
    /// An attempt runs longer than its limit, and its worker has not ended it.
    Execution {
        frame: FramePath,
        node: NodeIx,
        /// The attempt that runs.
        attempt: u32,
    },
    /// A pause was not answered in time. The node continues without an answer.
    PauseExpires { pause: Arc<str> },
    /// The time that a run may wait for forms has passed (`human_input_timeout_s`). The run is stopped.
    PauseLimit { pause: Arc<str> },
    /// The time limit of the run's work, or the run's deadline, has passed.
    RunDeadline,
}

/// See [`Fact::Stop`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// The reason, for the record. Dify's default is `User requested abort`.
    pub reason: Arc<str>,
}

/// See [`Fact::Pause`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseCommand {
    /// Dify's default is `User requested pause`.
    pub reason: Arc<str>,
}

/// See [`Fact::Update`].
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateVariables {
    /// (node, name, value); the node may also be `conversation` and the like.
    pub updates: Vec<(String, String, Stored)>,
    /// The command's key, for the record.
    pub key: Option<String>,
}

/// See [`Fact::Answer`].
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The pause that is answered.
    pub pause: Arc<str>,
    pub content: AnswerContent,
}

/// The content of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerContent {
    /// The answer to a form.
    Form {
        action: String,
        /// The values of the form's fields.
        inputs: JsonMap,
    },
    /// The answer to any other kind of pause.
    Input(Json),
    /// The pause is cancelled: no answer will come.
    Cancel,
}
