//! All that can happen to a run.

use std::sync::Arc;

use serde_json::Value as Json;

use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{EntryId, ExecutionId, FramePath, NodeId, RunId};
use tidemill_base::value::{JsonMap, Selector, Stored};
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::objects::MessageChange;

use super::events::StepEvent;
use super::records::Record;
use super::run::{RunHead, RunState};
use tidemill_workflow::nodes::{PauseRequest, Usage};

/// One thing that happened, as an entry of the inbox says it.
#[derive(Debug, Clone)]
pub enum Fact {
    /// The run was submitted.
    Start(Box<RunHead>),
    /// The same, of a run that was made of what was submitted: its head says it.
    Begin,
    /// A worker has begun an attempt and is still at it.
    JobStarted(JobStarted),
    /// A piece of streamed text.
    JobChunk(JobChunk),
    /// A step of a job was done, or tells something.
    JobStepped(JobStepped),
    /// Something happened to a node that runs inside the job.
    Child(Box<ChildFact>),
    /// A job waits for a time to come, in nobody's hands.
    JobParked(JobParked),
    /// A worker brought a result.
    JobSucceeded(JobDone),
    /// A worker brought a failure.
    JobFailed(JobDone),
    /// The job of an execution is neither queued nor held by anybody.
    JobLost(JobLost),
    /// A step of this run panicked, or brought its owner down again and again: the run ends, the shard goes on.
    Defect(Arc<str>),
    /// A time has come.
    TimerFired(Timer),
    /// A bounded step left something ready.
    Continue,
    /// Somebody wants the run to end.
    Stop(Stop),
    /// Somebody wants that nothing new begins.
    Pause(PauseCommand),
    /// Somebody wants the run to go on.
    Resume,
    /// Somebody sets variables.
    Update(UpdateVariables),
    /// Somebody has answered what a node waits for.
    Answer(Answer),
    /// Whoever pays for the run has spent too much: it ends, for this reason.
    OverBudget(Arc<str>),
    /// A run that this one has called is over, or will never be.
    CallEnded(CallEnded),
    /// A run that this one has called wants to change a list of messages of this one.
    ParentAsked(Box<ParentAsked>),
    /// The run that has called this one has dealt with what was asked of it.
    ParentAnswered(Box<ParentAnswered>),
    /// The run goes on where another one stood when it was exported.
    Import(Box<RunState>),
}

/// Which attempt of which node a worker speaks of, and by which delivery it holds the job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRef {
    /// The frame.
    pub frame: FramePath,
    /// The node.
    pub node: NodeIx,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The entry of the job: one that was lost and enqueued again has another, and the old one counts no more.
    pub entry: EntryId,
    /// Which delivery of it speaks.
    pub delivery: u32,
}

/// See [`Fact::JobStarted`].
#[derive(Debug, Clone)]
pub struct JobStarted {
    /// Which job.
    pub job: JobRef,
    /// When the attempt began.
    pub at: Timestamp,
}

/// See [`Fact::JobChunk`].
#[derive(Debug, Clone)]
pub struct JobChunk {
    /// Which job.
    pub job: JobRef,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// Which of the node's texts.
    pub selector: Selector,
    /// Bytes of the text before this piece.
    pub offset: u64,
    /// The piece.
    pub text: String,
}

/// See [`Fact::JobStepped`].
#[derive(Debug, Clone)]
pub struct JobStepped {
    /// Which job.
    pub job: JobRef,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// What it tells, in order.
    pub events: Vec<(StepEvent, JsonMap)>,
    /// What it cost.
    pub charge: Option<Box<Charge>>,
}

/// See [`Fact::Child`].
#[derive(Debug, Clone)]
pub struct ChildFact {
    /// The job that it runs in: that of its parent.
    pub job: JobRef,
    /// When the try began.
    pub started_at: Timestamp,
    /// Which node.
    pub child: NodeIx,
    /// Which try of it, from 1. Tries are counted over all deliveries of the job.
    pub number: u32,
    /// What happened.
    pub what: ChildEvent,
}

/// What happens to a node inside another. A try that has failed and an end are recorded in the job's journal, with the
/// fact that tells of it.
#[derive(Debug, Clone, PartialEq)]
pub enum ChildEvent {
    /// A try began.
    Started,
    /// A piece of streamed text.
    Chunk {
        /// Which of its texts.
        selector: Selector,
        /// Bytes of the text before this piece.
        offset: u64,
        /// The piece.
        text: String,
    },
    /// A step of it was done, or tells something.
    Step {
        /// What it tells, in order.
        events: Vec<(StepEvent, JsonMap)>,
        /// What it cost.
        charge: Option<Box<Charge>>,
    },
    /// The try has failed, and another one follows.
    Retry {
        /// When.
        at: Timestamp,
        /// What it left.
        record: Box<Record>,
    },
    /// It has ended.
    Ended {
        /// When.
        at: Timestamp,
        /// How.
        end: ChildEnd,
        /// What it left.
        record: Box<Record>,
        /// How many bytes of which text were streamed.
        streamed: Vec<(Selector, u64)>,
    },
}

/// How a node inside another ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildEnd {
    /// Well.
    Succeeded,
    /// It failed, and its parent fails with it.
    Failed,
    /// It failed, and its parent goes on with default values in place of its outputs.
    Replaced,
}

impl ChildEnd {
    /// Every end.
    pub const ALL: [Self; 3] = [Self::Succeeded, Self::Failed, Self::Replaced];
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Replaced => "replaced",
        }
    }
}

/// What one model call within a job cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Charge {
    /// The step and its try: `llm:2/1`. With the execution it names the entry of the ledger, so that it is there once.
    pub key: String,
    /// Tokens and price.
    pub usage: Usage,
    /// The provider as the workflow names it, and the model.
    pub model: (String, String),
    /// The run that spent it, when that was called: its own ledger has its model calls one by one.
    pub run: Option<RunId>,
}

/// See [`Fact::JobParked`]. It keeps execution, attempt and journal, and is handed out again when its time has come.
#[derive(Debug, Clone)]
pub struct JobParked {
    /// Which job.
    pub job: JobRef,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// How long it waits, in milliseconds from when this is applied.
    pub wait_ms: u64,
    /// What for, in words for people.
    pub reason: String,
    /// Whether something waits that runs inside the node, which itself has not begun then.
    pub is_childs: bool,
    /// The run whose end it waits for, if it is one.
    pub call: Option<Box<Call>>,
    /// What somebody is asked, if it waits for an answer.
    pub pause: Option<Box<Asked>>,
}

/// What a job asks somebody within one of its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The pause; its id follows from the execution and the step ([`super::pause::id_in_job`]).
    pub pause: Arc<str>,
    /// The step.
    pub step: Arc<str>,
    /// What is asked.
    pub request: PauseRequest,
}

/// A workflow that a node calls: the run that is to be made, or that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The run; its id follows from the step and its try ([`tidemill_base::ids::RunId::called_by`]).
    pub run: RunId,
    /// The app, by its id or its name.
    pub app: String,
    /// What the run is given: an object with `inputs` and perhaps `files`. None when the worker has seen that it is ordered.
    pub given: Option<Stored>,
}

/// See [`Fact::CallEnded`].
#[derive(Debug, Clone, PartialEq)]
pub struct CallEnded {
    /// The frame of the node that waits for it.
    pub frame: FramePath,
    /// That node.
    pub node: NodeIx,
    /// The run that was called.
    pub run: RunId,
}

/// See [`Fact::ParentAsked`].
#[derive(Debug, Clone, PartialEq)]
pub struct ParentAsked {
    /// The frame of the node that has called the run that asks.
    pub frame: FramePath,
    /// That node.
    pub node: NodeId,
    /// The run that asks.
    pub child: RunId,
    /// The execution that does.
    pub execution: ExecutionId,
    /// Its frame.
    pub child_frame: FramePath,
    /// Its node.
    pub child_node: NodeId,
    /// What is to change.
    pub change: MessageChange,
}

/// See [`Fact::ParentAnswered`].
#[derive(Debug, Clone, PartialEq)]
pub struct ParentAnswered {
    /// The frame of the node that has asked.
    pub frame: FramePath,
    /// The node.
    pub node: NodeId,
    /// The outputs that it makes of it; or the type and the text of the error.
    pub answer: Result<NamedValues, (String, String)>,
}

/// See [`Fact::JobSucceeded`] and [`Fact::JobFailed`].
#[derive(Debug, Clone)]
pub struct JobDone {
    /// Which job.
    pub job: JobRef,
    /// When the attempt began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// What it brought.
    pub record: Box<Record>,
    /// How many bytes of which text this holder streamed.
    pub streamed: Vec<(Selector, u64)>,
}

/// See [`Fact::JobLost`]. Made by the shard's owner, who looks for such executions from time to time.
#[derive(Debug, Clone, PartialEq)]
pub struct JobLost {
    /// The frame.
    pub frame: FramePath,
    /// The node.
    pub node: NodeIx,
    /// The entry that is gone.
    pub entry: EntryId,
}

/// What a timer is for. Its text form is the member of the timers set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A failed node is to be tried again.
    Retry {
        /// The frame.
        frame: FramePath,
        /// The node.
        node: NodeIx,
        /// The attempt that is to begin.
        attempt: u32,
    },
    /// A job has waited too long for a worker.
    Queue {
        /// The frame.
        frame: FramePath,
        /// The node.
        node: NodeIx,
        /// The attempt that waits.
        attempt: u32,
    },
    /// An attempt runs for longer than it may, and its worker has not ended it.
    Execution {
        /// The frame.
        frame: FramePath,
        /// The node.
        node: NodeIx,
        /// The attempt that runs.
        attempt: u32,
    },
    /// Nobody has answered in time; the node goes on without.
    PauseExpires {
        /// The pause.
        pause: Arc<str>,
    },
    /// The longest time that any run may wait for a form is over; the run ends.
    PauseLimit {
        /// The pause.
        pause: Arc<str>,
    },
    /// The run's time is over.
    RunDeadline,
}

/// See [`Fact::Stop`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Why, for the record; Dify's default is `User requested abort`.
    pub reason: Arc<str>,
}

/// See [`Fact::Pause`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseCommand {
    /// Why; Dify's default is `User requested pause`.
    pub reason: Arc<str>,
}

/// See [`Fact::Update`].
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateVariables {
    /// Node (or `conversation`, …), name, value.
    pub updates: Vec<(String, String, Stored)>,
    /// The command's key, for the record.
    pub key: Option<String>,
}

/// See [`Fact::Answer`].
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The pause that is answered.
    pub pause: Arc<str>,
    /// What was said.
    pub said: Said,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// That of a form.
    Form {
        /// The chosen action.
        action: String,
        /// The values of its fields.
        inputs: JsonMap,
    },
    /// That of everything else.
    Input(Json),
    /// Nobody will answer: what was asked is called off.
    Cancel,
}

/// Text of one stored value, for facts that carry several.
pub type NamedValues = Vec<(String, Stored)>;
