//! The changes that a step returns: which parts of the state have to be written, which events are emitted, and what
//! happens next. The state itself has changed already. The commit writes each touched part once, from the state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{BlobId, EntryId, ExecutionId, FramePath, NodeId, RunId};
use tidemill_base::value::{JsonMap, Stored};
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::Phase;

use crate::fact::{ParentAnswered, ParentAsked, Timer};
use crate::order::entries::Entries;
use crate::order::touched::Touched;
use crate::state::cost::Price;
use crate::state::pause::Pause;
use crate::state::run::{PendingEnd, RunStatus};

/// A job to queue.
#[derive(Debug, Clone, PartialEq)]
pub struct JobOrder {
    /// The name of the queue.
    pub queue: Arc<str>,
    /// The id that the entry gets.
    pub entry: EntryId,
    pub frame: FramePath,
    pub node: NodeIx,
    pub execution: ExecutionId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The time of the step that queues it.
    pub queued_at: Timestamp,
    /// Deliveries of this attempt under an earlier entry. The new ones are counted on from there.
    pub delivered: u32,
    /// The variables that the node's configuration mentions, as (node, name, value). Missing variables are left out.
    pub inputs: Vec<(String, String, Stored)>,
    /// Whether an answer of the run shows what the node streams.
    pub streams: bool,
    /// The phase to evaluate, if the node is a container.
    pub phase: Option<Phase>,
    /// The working time that is left to the run, in milliseconds, or `None` for about the whole.
    pub left_ms: Option<u64>,
    /// The end of the node, if the job is only for the hooks after it.
    pub ended: Option<Box<PendingEnd>>,
}

/// A paid model call.
#[derive(Debug, Clone, PartialEq)]
pub struct ChargeEntry {
    /// The time when the call was counted.
    pub at: Timestamp,
    /// The provider, as the workflow names it.
    pub provider: String,
    pub model: String,
    /// Input tokens.
    pub prompt_tokens: u64,
    /// Output tokens.
    pub completion_tokens: u64,
    pub total_tokens: u64,
    /// The price, if known.
    pub price: Option<Price>,
}

/// An order for a sub-workflow run, from which a scheduler creates it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallOrder {
    /// The id of the run.
    pub run: RunId,
    /// The app, by its id or its name.
    pub app: String,
    /// The frame of the node that calls.
    pub frame: FramePath,
    pub node: NodeIx,
    /// The input of the run.
    pub given: Stored,
}

/// Changes that concern other runs: callers and sub-workflow runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Calls {
    /// Sub-workflow runs to create.
    pub ordered: Vec<CallOrder>,
    /// Sub-workflow runs whose result no node needs any more. They are stopped, or never created.
    pub dropped: Vec<RunId>,
    /// Facts for the caller of this run, or for its sub-workflow runs.
    pub facts: Vec<RunFact>,
}

/// A fact for another run on the same shard.
#[derive(Debug, Clone, PartialEq)]
pub enum RunFact {
    /// For the caller: change a list of messages.
    ParentAsked(RunId, Box<ParentAsked>),
    /// For the sub-workflow run: the result of that.
    ParentAnswered(RunId, Box<ParentAnswered>),
}

/// A job to take back: no worker may begin it or continue it.
#[derive(Debug, Clone, PartialEq)]
pub struct CancelledJob {
    pub queue: Arc<str>,
    pub entry: EntryId,
    pub execution: ExecutionId,
}

/// Changes of messages, `rt` and history.
#[derive(Debug, Default, PartialEq)]
pub struct MessageChanges {
    /// Lists of messages by name, each with the index of the first message to write.
    pub lists: BTreeMap<String, u32>,
    /// Changed fields of `rt`.
    pub runtime: BTreeSet<String>,
    /// New records of the history.
    pub recorded: Vec<JsonMap>,
}

impl MessageChanges {
    fn append(&mut self, later: Self) {
        for (name, first) in later.lists {
            // Messages that an earlier step of the commit has added still have to be written.
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
    /// Set the timer for this time.
    Set(Timestamp, Timer),
    /// Clear the timer: it has fired or is not needed.
    Clear(Timer),
}

/// A piece of streamed text that is held until its turn comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The key of the stream: its selector, joined by dots.
    pub stream: String,
    /// The attempt that produced the text.
    pub attempt: u32,
    /// The delivery that produced the text.
    pub delivery: u32,
    /// When its worker began.
    pub began: Timestamp,
    pub text: String,
}

/// The changes of one step, or of several steps of a run in one commit.
#[derive(Debug, Default)]
pub struct Changes {
    /// The status of the run before it changed, if it changed.
    pub status_from: Option<RunStatus>,
    /// Nodes whose state changed.
    pub nodes: Touched<(FramePath, NodeIx)>,
    /// Variables that were written or removed, as (frame, node, name).
    pub variables: Touched<(FramePath, NodeId, String)>,
    /// Frames below the root that were opened, changed or closed.
    pub frames: Touched<FramePath>,
    /// Frames that were opened. One that also closes in the same commit was never stored.
    pub opened: Touched<FramePath>,
    /// Containers that were opened or have ended.
    pub containers: Touched<(FramePath, NodeIx)>,
    /// Results of closed frames that were added or used up, as (frame, container, number).
    pub collected: Touched<(FramePath, NodeIx, u32)>,
    /// All results of closed frames are used up.
    pub collected_cleared: bool,
    /// Outputs of response nodes below the root that were added or dropped.
    pub nested: Touched<Arc<str>>,
    /// Pauses that were opened or have ended.
    pub pauses: BTreeMap<Arc<str>, Pause>,
    /// The clock of the run has moved.
    pub clock: bool,
    /// Commands came into effect or were lifted.
    pub control: bool,
    /// New fields of the ledger.
    pub ledger: Vec<(String, String)>,
    /// The model calls among these. Calls of sub-workflow runs are counted there.
    pub charges: Vec<ChargeEntry>,
    /// Conversation variables to store beyond the run.
    pub conversation: BTreeMap<String, Stored>,
    /// Streams that changed.
    pub streams: Touched<String>,
    /// The response cursor or the order of finished responses changed.
    pub response: bool,
    /// Held chunks to store.
    pub held: Vec<Held>,
    /// No stored chunk is held any more.
    pub held_cleared: bool,
    /// Entries of the event stream, each with one or more events.
    pub entries: Entries,
    /// Jobs to queue.
    pub jobs: Vec<JobOrder>,
    /// Jobs to take back.
    pub cancelled: Vec<CancelledJob>,
    /// Timers to set and to clear, in order.
    pub timers: Vec<TimerChange>,
    /// Changes that concern other runs; `None` for nearly all steps.
    pub calls: Option<Box<Calls>>,
    /// Changes of messages, `rt` and history; `None` for nearly all steps.
    pub messages: Option<Box<MessageChanges>>,
    /// Blobs to store: id and JSON text.
    pub blobs: Vec<(BlobId, String)>,
    /// The step stopped at its limit and left ready nodes: a `continue` fact is due.
    pub continue_due: bool,
}

impl Changes {
    /// True when there is nothing to write, to emit or to do.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
            && self.variables.is_empty()
            && self.entries.is_empty()
            && self.jobs.is_empty()
            && !self.clock
            && !self.has_seldom()
    }

    /// True when there are other changes than nodes, variables, events, jobs and the clock.
    pub fn has_seldom(&self) -> bool {
        self.status_from.is_some()
            || !self.frames.is_empty()
            || !self.containers.is_empty()
            || !self.collected.is_empty()
            || self.collected_cleared
            || !self.nested.is_empty()
            || !self.pauses.is_empty()
            || self.control
            || !self.ledger.is_empty()
            || !self.conversation.is_empty()
            || !self.streams.is_empty()
            || self.response
            || !self.held.is_empty()
            || self.held_cleared
            || !self.cancelled.is_empty()
            || !self.timers.is_empty()
            || self.calls.is_some()
            || self.messages.is_some()
            || !self.blobs.is_empty()
            || self.continue_due
    }

    /// True when every field is empty, also those that [`Self::is_empty`] does not look at.
    pub(crate) fn is_cleared(&self) -> bool {
        self.is_empty()
            && self.opened.is_empty()
            && self.charges.is_empty()
            && self.entries.events().is_empty()
    }

    /// Empties all fields and keeps their buffers for the next step.
    pub fn clear(&mut self) {
        // Names all fields, so that a new one cannot be forgotten.
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
            clock,
            control,
            ledger,
            charges,
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
            messages,
            blobs,
            continue_due,
        } = self;
        (*status_from, *calls, *messages) = (None, None, None);
        for flag in [collected_cleared, clock, control, response, held_cleared, continue_due] {
            *flag = false;
        }
        nodes.clear();
        variables.clear();
        frames.clear();
        opened.clear();
        containers.clear();
        collected.clear();
        nested.clear();
        // Clearing a tree takes time even when it is empty.
        if !pauses.is_empty() {
            pauses.clear();
        }
        ledger.clear();
        charges.clear();
        if !conversation.is_empty() {
            conversation.clear();
        }
        streams.clear();
        held.clear();
        entries.clear();
        jobs.clear();
        cancelled.clear();
        timers.clear();
        blobs.clear();
    }

    /// Adds the changes of a later step of the same run in the same commit.
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
        self.clock |= later.clock;
        self.control |= later.control;
        self.ledger.extend(later.ledger);
        self.charges.extend(later.charges);
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
            calls.facts.extend(later.facts);
        }
        if let Some(later) = later.messages {
            self.messages.get_or_insert_default().append(*later);
        }
        self.blobs.extend(later.blobs);
        self.continue_due |= later.continue_due;
    }
}
