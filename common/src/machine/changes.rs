//! All that a step can order. The state itself has moved already; these say which parts of it must be written, what
//! must be told, and what must happen next. Whoever commits them writes each touched part once, from the state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::clock::Timestamp;
use crate::graph::{EdgeIx, NodeIx};
use crate::ids::{BlobId, EntryId, ExecutionId, FramePath, RunId};
use crate::nodes::{PauseRequest, Phase, Usage, Wasted};
use crate::objects::Effects;
use crate::value::{JsonMap, Selector, Stored};

use super::body::Price;
use super::entries::Entries;
use super::fact::{NamedValues, ParentAnswered, ParentAsked, Timer};
use super::pause::Pause;
use super::run::{Ended, RunStatus};
use super::touched::Touched;

/// What a run's execution of one node left for the record.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record {
    /// What the node was given.
    pub inputs: NamedValues,
    /// What it did.
    pub process_data: NamedValues,
    /// What it made.
    pub outputs: NamedValues,
    /// Tokens, prices and such.
    pub metadata: JsonMap,
    /// The handle it left by; empty means `source`.
    pub handle: String,
    /// What its model calls cost.
    pub usage: Option<Usage>,
    /// What was paid for a reply that is no part of that, since it was of no use.
    pub wasted: Option<Box<Wasted>>,
    /// The failure's text, empty for none.
    pub error: String,
    /// The failure's class.
    pub error_type: String,
    /// Whether another try could help, and after how many milliseconds at least.
    pub retry_hint: Option<u64>,
    /// Whether the failure may pass; said only of nodes that ask it (`passing_only`).
    pub passing: bool,
    /// Variables it wrote beside its outputs: (node, name, value). Applied with its success.
    pub updates: Vec<(String, String, Stored)>,
    /// What it waits for, instead of an end.
    pub pause: Option<Box<PauseRequest>>,
    /// What it changes of what the run keeps beside its variables. Applied with its end, and not told with it.
    pub effects: Option<Box<Effects>>,
    /// Of a container: how long each of its frames was open. Part of the metadata; apart from them because an iteration
    /// may have ten thousand.
    pub durations: Option<Durations>,
    /// Of a loop: its variables after each round, by the round's number (Dify: `loop_variable_map`).
    pub rounds: Vec<(u32, NamedValues)>,
}

/// How long the frames of a container were open.
#[derive(Debug, Clone, PartialEq)]
pub struct Durations {
    /// The name under which metadata tell them (Dify: `iteration_duration_map`, `loop_duration_map`).
    pub name: &'static str,
    /// Seconds, by the number of the item or round.
    pub seconds: Vec<(u32, f64)>,
}

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
    Blob(crate::value::BlobRef, u64),
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

/// A job to enqueue.
#[derive(Debug, Clone, PartialEq)]
pub struct JobOrder {
    /// The queue's name.
    pub queue: Arc<str>,
    /// The id its entry gets.
    pub entry: EntryId,
    /// The frame.
    pub frame: FramePath,
    /// The node.
    pub node: NodeIx,
    /// Its execution id.
    pub execution: ExecutionId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// Deliveries of this attempt under an earlier entry that was lost; the new ones count on from there.
    pub delivered: u32,
    /// The variables its configuration mentions, as (node, name, value); what is missing in the pool is missing here.
    pub inputs: Vec<(String, String, Stored)>,
    /// Whether anybody reads what it streams.
    pub streams: bool,
    /// Of a container: the part of it that is to be evaluated.
    pub phase: Option<Phase>,
    /// The end that the node has come to, when only its hooks are to be told.
    pub ended: Option<Box<Ended>>,
}

/// A model call that was paid for.
#[derive(Debug, Clone, PartialEq)]
pub struct Spending {
    /// When it was counted.
    pub at: Timestamp,
    /// The provider as the workflow names it.
    pub provider: String,
    /// The model.
    pub model: String,
    /// Tokens in.
    pub prompt_tokens: u64,
    /// Tokens out.
    pub completion_tokens: u64,
    /// All tokens.
    pub total_tokens: u64,
    /// Its price, when one is known.
    pub price: Option<Price>,
}

/// A run to call: ordered by a node, made by whoever has the apps.
#[derive(Debug, Clone, PartialEq)]
pub struct CallOrder {
    /// The run that is to be made.
    pub run: RunId,
    /// The app, by its id or its name.
    pub app: String,
    /// The frame of the node that calls.
    pub frame: FramePath,
    /// The node.
    pub node: NodeIx,
    /// What it is given.
    pub given: Stored,
}

/// What a step orders of the runs that this one calls.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Calls {
    /// Runs to be made.
    pub ordered: Vec<CallOrder>,
    /// Runs that nobody waits for any more: they are stopped, or never made.
    pub dropped: Vec<RunId>,
    /// What is said to the run that has called this one, or to one that this has called.
    pub told: Vec<Told>,
}

/// A fact for another run on the same shard.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// It is asked to change a list of messages of its own.
    Asked(RunId, Box<ParentAsked>),
    /// What came of that.
    Answered(RunId, Box<ParentAnswered>),
}

/// A job that nobody is to run, or go on running.
#[derive(Debug, Clone, PartialEq)]
pub struct CancelledJob {
    /// The queue it lies in.
    pub queue: Arc<str>,
    /// Its entry.
    pub entry: EntryId,
    /// Its execution.
    pub execution: ExecutionId,
}

/// What has changed of what a run keeps beside its variables.
#[derive(Debug, Default, PartialEq)]
pub struct ObjectChanges {
    /// Lists of messages, each with the place of its first message that is to be written.
    pub lists: BTreeMap<String, u32>,
    /// Fields of `rt`.
    pub runtime: BTreeSet<String>,
    /// New records of the history.
    pub recorded: Vec<JsonMap>,
}

impl ObjectChanges {
    fn append(&mut self, later: Self) {
        for (name, first) in later.lists {
            // What an earlier step has added is still to be written.
            let known = self.lists.entry(name).or_insert(first);
            *known = first.min(*known);
        }
        self.runtime.extend(later.runtime);
        self.recorded.extend(later.recorded);
    }
}

/// A timer to set or to clear.
#[derive(Debug, Clone, PartialEq)]
pub enum TimerChange {
    /// Wake at this moment.
    Set(Timestamp, Timer),
    /// No longer needed, or done.
    Clear(Timer),
}

/// A piece of streamed text whose turn has not come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The stream's key: its selector, joined by dots.
    pub stream: String,
    /// The attempt that made it.
    pub attempt: u32,
    /// The delivery that made it.
    pub delivery: u32,
    /// The text.
    pub text: String,
}

/// What a step orders.
#[derive(Debug, Default)]
pub struct Changes {
    /// The run's status moved, from what.
    pub status_from: Option<RunStatus>,
    /// Nodes whose state moved.
    pub nodes: Touched<(FramePath, NodeIx)>,
    /// Variables that were written or removed, as (frame, node, name).
    pub variables: Touched<(FramePath, String, String)>,
    /// Frames below the root that were opened, changed or closed.
    pub frames: Touched<FramePath>,
    /// Those of them that were opened: of one that is closed within the same commit nothing was ever written.
    pub opened: Touched<FramePath>,
    /// Containers that were opened or have ended.
    pub containers: Touched<(FramePath, NodeIx)>,
    /// What closed frames left, or was used up, as (frame, container, number).
    pub collected: Touched<(FramePath, NodeIx, u32)>,
    /// All that closed frames left is used up.
    pub collected_cleared: bool,
    /// Outputs of response nodes below the root that were kept or dropped.
    pub nested: Touched<Arc<str>>,
    /// Pauses that were opened or have ended.
    pub pauses: BTreeMap<Arc<str>, Pause>,
    /// Commands came into effect or were lifted.
    pub control: bool,
    /// What model calls cost: fields of the ledger.
    pub ledger: Vec<(String, String)>,
    /// The model calls among those: what called runs have spent is counted with them.
    pub spent: Vec<Spending>,
    /// Conversation variables that were written: to be kept beyond the run.
    pub conversation: BTreeMap<String, Stored>,
    /// Streams that moved.
    pub streams: Touched<String>,
    /// The response cursor or the order of finished responses moved.
    pub response: bool,
    /// Chunks to keep.
    pub held: Vec<Held>,
    /// All kept chunks are told or void.
    pub held_cleared: bool,
    /// Entries of the event stream, each of one event or more.
    pub entries: Entries,
    /// Jobs to enqueue.
    pub jobs: Vec<JobOrder>,
    /// Jobs to take back.
    pub cancelled: Vec<CancelledJob>,
    /// Timers.
    pub timers: Vec<TimerChange>,
    /// Runs to call, or to stop; nothing for nearly all runs.
    pub calls: Option<Box<Calls>>,
    /// What the run keeps beside its variables; nothing for nearly all runs.
    pub objects: Option<Box<ObjectChanges>>,
    /// Large values to store: name, type's JSON text.
    pub blobs: Vec<(BlobId, String)>,
    /// Something is ready that this step did not reach: a `continue` fact is due.
    pub go_on: bool,
}

impl Changes {
    /// True when there is nothing to write, to tell or to do.
    pub fn is_empty(&self) -> bool {
        self.status_from.is_none()
            && self.nodes.is_empty()
            && self.variables.is_empty()
            && self.frames.is_empty()
            && self.containers.is_empty()
            && self.collected.is_empty()
            && !self.collected_cleared
            && self.nested.is_empty()
            && self.pauses.is_empty()
            && !self.control
            && self.ledger.is_empty()
            && self.conversation.is_empty()
            && self.streams.is_empty()
            && !self.response
            && self.held.is_empty()
            && !self.held_cleared
            && self.entries.is_empty()
            && self.jobs.is_empty()
            && self.cancelled.is_empty()
            && self.timers.is_empty()
            && self.calls.is_none()
            && self.objects.is_none()
            && self.blobs.is_empty()
            && !self.go_on
    }

    /// True when nothing is left of what was there before: also of what means nothing by itself.
    pub(super) fn is_cleared(&self) -> bool {
        self.is_empty() && self.opened.is_empty() && self.spent.is_empty() && self.entries.events().is_empty()
    }

    /// Forgets everything; the room is kept for the next step.
    pub fn clear(&mut self) {
        // Each by its name, so that none can be forgotten.
        let Self {
            status_from,
            nodes,
            variables,
            frames,
            opened,
            containers,
            collected,
            collected_cleared,
            nested,
            pauses,
            control,
            ledger,
            spent,
            conversation,
            streams,
            response,
            held,
            held_cleared,
            entries,
            jobs,
            cancelled,
            timers,
            calls,
            objects,
            blobs,
            go_on,
        } = self;
        (*status_from, *calls, *objects) = (None, None, None);
        for flag in [collected_cleared, control, response, held_cleared, go_on] {
            *flag = false;
        }
        nodes.clear();
        variables.clear();
        frames.clear();
        opened.clear();
        containers.clear();
        collected.clear();
        nested.clear();
        pauses.clear();
        ledger.clear();
        spent.clear();
        conversation.clear();
        streams.clear();
        held.clear();
        entries.clear();
        jobs.clear();
        cancelled.clear();
        timers.clear();
        blobs.clear();
    }

    /// Adds what a later step of the same run ordered within the same commit.
    pub fn append(&mut self, later: Self) {
        self.status_from = self.status_from.or(later.status_from);
        self.nodes.append(later.nodes);
        self.variables.append(later.variables);
        self.frames.append(later.frames);
        self.opened.append(later.opened);
        self.containers.append(later.containers);
        if later.collected_cleared {
            self.collected.clear();
            self.collected_cleared = true;
        }
        self.collected.append(later.collected);
        self.nested.append(later.nested);
        self.pauses.extend(later.pauses);
        self.control |= later.control;
        self.ledger.extend(later.ledger);
        self.spent.extend(later.spent);
        self.conversation.extend(later.conversation);
        self.streams.append(later.streams);
        self.response |= later.response;
        if later.held_cleared {
            self.held.clear();
            self.held_cleared = true;
        }
        self.held.extend(later.held);
        self.entries.append(later.entries);
        self.jobs.extend(later.jobs);
        self.cancelled.extend(later.cancelled);
        self.timers.extend(later.timers);
        if let Some(later) = later.calls {
            let calls = self.calls.get_or_insert_default();
            calls.ordered.extend(later.ordered);
            calls.dropped.extend(later.dropped);
            calls.told.extend(later.told);
        }
        if let Some(later) = later.objects {
            self.objects.get_or_insert_default().append(*later);
        }
        self.blobs.extend(later.blobs);
        self.go_on |= later.go_on;
    }
}
