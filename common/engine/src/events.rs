//! What is told of a run: its events, under graphon's names where graphon has them, and what a step tells within a node.
//! What is ordered beside them stands in [`super::changes`].

use std::sync::Arc;

use super::fact::NamedValues;
use super::pause::Pause;
use super::records::Record;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{ExecutionId, FramePath, RunId};
use tidemill_base::value::{JsonMap, Selector, Stored};
use tidemill_workflow::graph::{EdgeIx, NodeIx};

/// The outputs of a run. Answers of several nodes are one text, each part of which may lie apart.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// One value.
    One(Stored),
    /// Texts, one after the other.
    Joined(Vec<Stored>),
}

/// The text of a chunk.
#[derive(Debug, Clone, PartialEq)]
pub enum ChunkText {
    /// Here.
    Inline(String),
    /// The markdown of a blob, or of what the chunk's selector names in it, from this byte on; put in by whoever tells
    /// it.
    Blob(tidemill_base::value::BlobRef, u64),
}

/// Something that is told of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Counts the run's events from 1.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    pub kind: EventKind,
}

/// Which execution an event is about.
#[derive(Debug, Clone, PartialEq)]
pub struct About {
    /// Its execution id.
    pub execution: ExecutionId,
    /// Its frame.
    pub frame: FramePath,
    /// Its node.
    pub node: NodeIx,
}

/// What is told; the names are graphon's.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// The run began, or went on after a pause.
    GraphRunStarted {
        /// It went on.
        resumed: bool,
        /// The run that called it, when it begins.
        caller: Option<RunId>,
    },
    /// The run waits; nothing of it is under way.
    GraphRunPaused {
        /// Reasons of pause commands.
        commands: Vec<Arc<str>>,
        /// Nodes that wait for an answer.
        pauses: Vec<Pause>,
        /// Its outputs so far.
        outputs: Vec<(String, Output)>,
    },
    /// Variables were set from outside.
    GraphRunVariablesUpdated {
        /// Which, as (node, name).
        selectors: Vec<(String, String)>,
        /// The command's key.
        key: Option<String>,
    },
    /// The run ended well.
    GraphRunSucceeded {
        /// Its outputs.
        outputs: Vec<(String, Output)>,
    },
    /// The run ended well but for failures that the graph handled or a retry mended.
    GraphRunPartialSucceeded {
        /// How many attempts failed.
        exceptions: u64,
        /// Its outputs.
        outputs: Vec<(String, Output)>,
    },
    /// The run failed.
    GraphRunFailed {
        /// Why.
        error: String,
        /// How many attempts failed.
        exceptions: u64,
    },
    /// The run was stopped.
    GraphRunAborted {
        /// Why, with Dify's `Aborted: ` in front.
        reason: String,
        /// What there was.
        outputs: Vec<(String, Output)>,
    },
    /// An edge will not be taken. (Which edges are taken follows from the handle of a node's result.)
    GraphEdgeSkipped(EdgeIx),
    /// A node began.
    NodeRunStarted(About),
    /// Text for the reader, in the one order.
    NodeRunStreamChunk {
        /// Whose.
        about: About,
        /// Which text.
        selector: Selector,
        /// The text.
        chunk: ChunkText,
        /// Whether nothing of this text follows.
        last: bool,
    },
    /// Text that was shown is withdrawn, because another worker produces it anew.
    NodeRunStreamReplaced {
        /// Whose.
        about: About,
        /// Which text.
        selector: Selector,
        /// What stands instead.
        text: String,
    },
    /// A node ended well.
    NodeRunSucceeded(NodeEnd),
    /// A node failed, and with it the run or its frame.
    NodeRunFailed(NodeEnd),
    /// A node failed, and its error strategy goes on.
    NodeRunException(NodeEnd),
    /// A node waits for an answer.
    NodeRunPauseRequested {
        /// Whose.
        about: About,
        /// What it asks.
        pause: Pause,
    },
    /// A form was answered.
    NodeRunHumanInputFormFilled {
        /// Whose.
        about: About,
        /// The form's text with the fields filled in.
        rendered_content: String,
        /// The chosen action.
        action: String,
        /// Its title.
        action_text: String,
        /// The values of the fields.
        submitted: JsonMap,
    },
    /// Nobody answered a form in time.
    NodeRunHumanInputFormTimeout {
        /// Whose.
        about: About,
        /// When its time was over.
        expired_at: Timestamp,
    },
    /// A node wrote a variable beside its outputs.
    NodeRunVariableUpdated {
        /// Which node did.
        about: About,
        /// The variable: node and name.
        variable: (String, String),
        /// Its new value.
        value: Stored,
    },
    /// A container knows what it repeats.
    NodeRunBodyStarted {
        /// Which.
        about: About,
        /// What it was given.
        inputs: NamedValues,
        /// Items in all, or the most rounds.
        count: u32,
    },
    /// An item is begun, or a further round.
    NodeRunBodyNext {
        /// Of which container.
        about: About,
        /// Its number, from 0.
        index: u32,
        /// Of a loop: its outputs so far.
        outputs: NamedValues,
    },
    /// A container is through; its own end follows.
    NodeRunBodyEnded {
        /// How.
        end: NodeEnd,
        /// Items, or the most rounds; 0 when nothing was begun.
        steps: u32,
        /// Why a loop ended: `loop_break`, `loop_completed` or `error`.
        reason: Option<&'static str>,
    },
    /// Something within a running node.
    NodeStep {
        /// Whose.
        about: About,
        /// What.
        what: StepEvent,
        /// All that is told of it.
        data: JsonMap,
    },
    /// A node failed and will be tried again.
    NodeRunRetry {
        /// The failed attempt.
        end: NodeEnd,
        /// Which retry follows, from 1.
        index: u32,
    },
}

macro_rules! step_events {
    ($($(#[$doc:meta])* $event:ident $name:literal;)*) => {
        /// What is told within a node while it runs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum StepEvent { $($(#[$doc])* $event,)* }

        impl StepEvent {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$event,)*];
            /// The type of the event that it becomes.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$event => $name,)* }
            }
            /// The one of a name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$event),)* _ => None }
            }
        }
    };
}

step_events! {
    /// A line of an agent's log, or a newer form of one with the same id (Dify).
    AgentLog "node_run_agent_log";
    /// A tool is called.
    ToolCallStarted "tool_call_started";
    /// A tool has answered.
    ToolCallCompleted "tool_call_completed";
    /// A tool has failed.
    ToolCallFailed "tool_call_failed";
    /// A piece of what a model thinks (Dify).
    ReasoningChunk "node_run_reasoning_chunk";
    /// The passages that a model was given (Dify).
    RetrieverResource "node_run_retriever_resource";
    /// A workflow is called.
    WorkflowCalled "workflow_called";
    /// A message was added to a list of the run.
    ConversationMessageAdded "conversation_message_added";
    /// What is visible of a list of messages has changed.
    ConversationUpdated "conversation_updated";
    /// Somebody is asked, or told, something.
    UserInteractionRequested "user_interaction_requested";
    /// Somebody has answered that.
    UserInteractionResponded "user_interaction_responded";
    /// What follows from the answer was done.
    UserInteractionProcessed "user_interaction_processed";
    /// Nobody has answered, or what follows could not be done.
    UserInteractionFailed "user_interaction_failed";
    /// A person is asked to reply in a model's place.
    HumanRelayRequested "human_relay_requested";
    /// That person has replied.
    HumanRelayResponded "human_relay_responded";
    /// The reply stands as the model's.
    HumanRelayProcessed "human_relay_processed";
    /// Nobody has replied.
    HumanRelayFailed "human_relay_failed";
    /// Most of what a list of messages may hold in tokens is used.
    TokenUsageWarning "token_usage_warning";
    /// A list of messages holds more tokens than it may.
    TokenLimitExceeded "token_limit_exceeded";
    /// A list of messages should be shortened.
    ContextCompressionRequested "context_compression_requested";
    /// What a model said was cut off by a stop.
    LlmStreamAborted "llm_stream_aborted";
    /// What a model said broke off.
    LlmStreamError "llm_stream_error";
    /// A step takes shape.
    StepInit "step_init";
    /// A step begins with this input.
    StepInput "step_input";
    /// A step has ended with this output.
    StepOutput "step_output";
    /// A step has failed.
    StepError "step_error";
    /// A step was called off.
    StepCancel "step_cancel";
    /// A step waits until somebody lets it begin.
    StepWaitingForStart "step_waiting_for_start";
    /// A step waits for values that are missing.
    StepWaitingForParam "step_waiting_for_param";
    /// Text of a step for the user.
    TextAdd "text_add";
    /// Structured output of a step for the user.
    StepData "step_data";
    /// An event that the workflow's author has defined.
    NodeCustomEvent "node_custom_event";
}

/// How an execution, or one attempt of it, ended.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeEnd {
    /// Which.
    pub about: About,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// The rest.
    pub record: Box<Record>,
}
