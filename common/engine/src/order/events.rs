//! The events of a run, with graphon's names where graphon has them.

use std::sync::Arc;

use crate::state::NamedValues;
use crate::state::pause::Pause;
use crate::state::record::Record;
use crate::state::step_event::StepEvent;
use crate::state::warnings::{Noted, Warnings};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{ExecutionId, FramePath, RunId};
use tidemill_base::value::{JsonMap, Selector, Stored};
use tidemill_workflow::graph::{EdgeIx, NodeIx};

/// One output of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// One value.
    One(Stored),
    /// The texts of several answers, to be joined. Each may be a blob.
    Joined(Vec<Stored>),
}

/// The text of a chunk.
#[derive(Debug, Clone, PartialEq)]
pub enum ChunkText {
    /// The text itself.
    Inline(String),
    /// The markdown of a blob, or of the part of it that the chunk's selector names, from this byte on. It is loaded
    /// when the event is sent.
    Blob(tidemill_base::value::BlobRef, u64),
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The number of the event in the run, from 1.
    pub seq: u64,
    pub at: Timestamp,
    pub kind: EventKind,
}

/// The execution that an event is about.
#[derive(Debug, Clone, PartialEq)]
pub struct About {
    pub execution: ExecutionId,
    pub frame: FramePath,
    pub node: NodeIx,
}

/// The kind of an event, with its content. The names are graphon's.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// The run began, or continued after a pause.
    GraphRunStarted {
        /// True when the run continued.
        resumed: bool,
        /// The caller, when a sub-workflow run begins.
        caller: Option<RunId>,
    },
    /// The run is paused.
    GraphRunPaused {
        /// Reasons of pause commands.
        commands: Vec<Arc<str>>,
        /// Pending pauses.
        pauses: Vec<Pause>,
        /// The outputs so far.
        outputs: Vec<(String, Output)>,
    },
    /// A client has set variables.
    GraphRunVariablesUpdated {
        /// The variables, as (node, name).
        selectors: Vec<(String, String)>,
        /// The key of the command.
        key: Option<String>,
    },
    /// The run succeeded.
    GraphRunSucceeded { outputs: Vec<(String, Output)>, warnings: Warnings },
    /// The run succeeded, with failures that were handled or followed by a successful retry.
    GraphRunPartialSucceeded {
        /// The number of failed attempts.
        exceptions: u64,
        outputs: Vec<(String, Output)>,
        warnings: Warnings,
    },
    /// The run failed.
    GraphRunFailed {
        error: String,
        /// The number of failed attempts.
        exceptions: u64,
        warnings: Warnings,
    },
    /// The run was stopped.
    GraphRunAborted {
        /// The reason, with Dify's prefix `Aborted: `.
        reason: String,
        /// The outputs so far.
        outputs: Vec<(String, Output)>,
        warnings: Warnings,
    },
    /// The run has a new warning.
    RunWarning(Box<Noted>),
    /// An edge is skipped. (The handle of a node's result tells which edges are taken.)
    GraphEdgeSkipped(EdgeIx),
    /// A node began.
    NodeRunStarted {
        about: About,
        /// The node that it follows, if several edges lead to it; with one edge the graph says it.
        after: Option<NodeIx>,
    },
    /// Text of an answer, in response order, or of a child node while it is made.
    NodeRunStreamChunk {
        about: About,
        selector: Selector,
        chunk: ChunkText,
        /// True for the last chunk of this text.
        last: bool,
        shown: ShownIn,
    },
    /// Text that was sent is withdrawn, because another attempt or delivery produces it again.
    NodeRunStreamReplaced {
        about: About,
        selector: Selector,
        /// The new text, which replaces it.
        text: String,
        shown: ShownIn,
    },
    /// A node succeeded.
    NodeRunSucceeded(NodeEnd),
    /// A node failed, and with it the run or its frame.
    NodeRunFailed(NodeEnd),
    /// A node failed, and its error strategy continues.
    NodeRunException(NodeEnd),
    /// A node waits for an answer.
    NodeRunPauseRequested { about: About, pause: Pause },
    /// A form was answered.
    NodeRunHumanInputFormFilled {
        about: About,
        /// The text of the form, with the fields filled in.
        rendered_content: String,
        /// The chosen action.
        action: String,
        /// The title of the action.
        action_text: String,
        /// The values of the fields.
        submitted: JsonMap,
    },
    /// A form was not answered in time.
    NodeRunHumanInputFormTimeout { about: About, expired_at: Timestamp },
    /// A node wrote a variable that is not one of its outputs.
    NodeRunVariableUpdated {
        about: About,
        /// The variable, as (node, name).
        variable: (String, String),
        /// Its new value.
        value: Stored,
    },
    /// A container has opened: its list or its number of rounds is known.
    NodeRunBodyStarted {
        about: About,
        inputs: NamedValues,
        /// The number of items, or the most rounds.
        count: u32,
    },
    /// An item has begun, or a loop continues with a next round.
    NodeRunBodyNext {
        about: About,
        /// The number of the item or round, from 0.
        index: u32,
        /// The outputs of a loop so far.
        outputs: NamedValues,
    },
    /// A container has closed its last frame. Its own end follows.
    NodeRunBodyEnded {
        end: NodeEnd,
        /// The number of items, or the most rounds; 0 when no frame was opened.
        steps: u32,
        /// The reason of a loop's end: `loop_break`, `loop_completed`, `max_iterations` or `error`.
        reason: Option<&'static str>,
    },
    /// An event within a running node.
    NodeStep {
        about: About,
        what: StepEvent,
        /// The content of the event.
        data: JsonMap,
    },
    /// A node failed and will be tried again.
    NodeRunRetry {
        /// The failed attempt.
        end: NodeEnd,
        /// The number of the retry that follows, from 1.
        index: u32,
    },
}

/// The place where a streamed text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownIn {
    /// In an answer, where its template has the text.
    Answer,
    /// Only at its node, while it is made. No answer contains these chunks.
    Node,
}

/// The end of an execution, or of one attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeEnd {
    pub about: About,
    pub started_at: Timestamp,
    pub finished_at: Timestamp,
    pub record: Box<Record>,
}
