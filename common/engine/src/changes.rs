//! All that a step can order. The state itself has moved already; these say which parts of it must be written, what
//! must be told, and what must happen next. Whoever commits them writes each touched part once, from the state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{BlobId, EntryId, ExecutionId, FramePath, NodeId, RunId};
use tidemill_base::value::{JsonMap, Stored};
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::Phase;

use super::body::Price;
use super::entries::Entries;
use super::fact::{ParentAnswered, ParentAsked, Timer};
use super::pause::Pause;
use super::run::{Ended, RunStatus};
use super::touched::Touched;

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
    pub variables: Touched<(FramePath, NodeId, String)>,
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
        self.nodes.is_empty()
            && self.variables.is_empty()
            && self.entries.is_empty()
            && self.jobs.is_empty()
            && !self.has_seldom()
    }

    /// True when there is anything but nodes, variables, events and jobs.
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
            || self.objects.is_some()
            || !self.blobs.is_empty()
            || self.go_on
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
        // A tree looks for its leaves even when it has none.
        if !pauses.is_empty() {
            pauses.clear();
        }
        ledger.clear();
        spent.clear();
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
