//! The writes of a commit for one run. Each touched part of the state is encoded once, no matter how many
//! facts touched it.

use std::mem::take;
use std::sync::Arc;

use serde_json::Value as Json;

use super::calls::{caller_of, calls, to_caller};
use super::conversation;
use super::event;
use super::hide;
use super::job;
use super::notices;
use super::state::AtRest;
use super::state::{
    RESPONSE_FIELD, container_field, held_json, put_node_field, put_variable_field, response_json,
    stream_field, stream_json, variable_text, write_node,
};
use super::timers::timers;
use super::{ENDS_ARE_KEPT, WireError};
use crate::codec::pairs::{EventTexts, Pairs};
use crate::codec::text::{ObjectText, named_text};
use crate::codec::value::OutputsJson;
use crate::state::frames;
use crate::state::messages;
use crate::state::messages::MessagesWrite;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{BlobId, EntryId, ExecutionId, FramePath, RunId};
use tidemill_engine::order::changes::{CancelledJob, Changes, ChargeEntry, JobOrder};
use tidemill_engine::order::entries::Entries;
use tidemill_engine::order::events::EventKind;
use tidemill_engine::state::pause::Pause;
use tidemill_engine::state::run::{RunState, RunStatus};
use tidemill_workflow::graph::{DEFAULT_QUEUE, Graph, GraphHash};

pub use super::calls::CallsWrite;
pub use super::conversation::ConversationWrite;
pub use super::notices::NoticeWrite;

/// A job entry to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEntry {
    pub queue: Arc<str>,
    pub entry: EntryId,
    pub run: RunId,
    /// The value of the field `job`.
    pub body: String,
}

/// A job entry to take back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeBack {
    pub queue: String,
    pub entry: EntryId,
    /// The execution that its worker must stop.
    pub execution: ExecutionId,
}

/// Model calls of a run, counted by its commit.
#[derive(Debug, Clone, PartialEq)]
pub struct ChargeWrite {
    /// The id of the API key that pays; `None` for the admin key.
    pub key: Option<String>,
    pub calls: Vec<ChargeEntry>,
}

/// Estimated bytes of a state field with its name, for allocation.
const STATE_BYTES: usize = 128;

/// Everything that a commit writes for one run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunWrite {
    pub run: RunId,
    pub graph: GraphHash,
    /// Submission time, for the index.
    pub created_at: Timestamp,
    /// Fields of the run hash.
    pub fields: Vec<(&'static str, String)>,
    /// Fields of the state hash; `None` deletes the field.
    pub state: Pairs,
    /// Delete first all results left by closed frames.
    pub collected_cleared: bool,
    /// Fields of the hash with the results of closed frames; `None` deletes the field.
    pub collected: Pairs,
    /// Fields of the pauses hash: pause id and JSON.
    pub pauses: Vec<(String, String)>,
    /// Fields of the ledger: the cost of each model call.
    pub ledger: Vec<(String, String)>,
    /// Paid model calls, and the key that pays.
    pub charges: Option<Box<ChargeWrite>>,
    /// The run may have a ledger.
    pub has_ledger: bool,
    /// The run has ended, and its messages become a turn of its conversation.
    pub leaves_turn: bool,
    /// The order to notify the webhook of its app.
    pub notice: Option<Box<NoticeWrite>>,
    /// Changes for its conversation.
    pub conversation: Option<Box<ConversationWrite>>,
    /// Delete the list of held chunks first.
    pub held_cleared: bool,
    /// Held chunks to append after that.
    pub held: Vec<String>,
    /// Entries of the event stream.
    pub entries: EventTexts,
    /// The number of the run's last event, these included. The event stream has at most as many entries.
    pub seq: u64,
    /// The status change: from, to.
    pub status: Option<(RunStatus, RunStatus)>,
    /// Set when the run ends.
    pub ended_at: Option<Timestamp>,
    /// Sub-workflow runs, and the caller.
    pub calls: Option<Box<CallsWrite>>,
    /// Messages, runtime values and history.
    pub messages: Option<Box<MessagesWrite>>,
    pub jobs: Vec<JobEntry>,
    pub taken_back: Vec<TakeBack>,
    /// Timers to set: due time, member.
    pub timers_set: Vec<(Timestamp, String)>,
    /// Timers to clear, by member.
    pub timers_cleared: Vec<String>,
    /// Blobs to store: name and content.
    pub blobs: Vec<(BlobId, String)>,
    /// Whether a `continue` fact must follow.
    pub continue_due: bool,
}

impl RunWrite {
    /// Encodes the changes of one commit. Takes parts out of `changes`; afterwards only
    /// [clear](Changes::clear) them.
    ///
    /// Rare parts are written by a separate function, so that the code for the common parts stays in the
    /// instruction cache when many runs are written one after another.
    pub fn new(run: &RunState, changes: &mut Changes) -> Self {
        let graph = &run.graph;
        let names = changes.nodes.len() + changes.variables.len() + 3;
        let mut state = Pairs::with_capacity(names, names * STATE_BYTES);
        // A frame that was opened and closed within this commit is never written.
        let never_was = |frame: &FramePath| changes.opened.contains(frame) && !run.frames.contains_key(frame);
        if changes.clock || changes.control {
            let control = Some(|text: &mut String| frames::write_control(text, &run.control, run.clock));
            state.write(|name| name.push_str(frames::CONTROL_FIELD), control);
        }
        let mut has_end = false;
        for (frame, node) in changes.nodes.iter().filter(|(frame, _)| !never_was(frame)) {
            let spec = graph.node(*node);
            let node = run.node(frame, *node).map(|state| {
                has_end |= state.ended.is_some();
                |text: &mut String| {
                    ObjectText::behind(text, |object| write_node(object, state, &spec.settings.queue));
                }
            });
            state.write(|name| put_node_field(name, frame, &spec.quoted.in_key), node);
        }
        for (frame, node, name) in changes.variables.iter().filter(|(frame, _, _)| !never_was(frame)) {
            let value = variable_text(run, frame, node.as_str(), name)
                .map(|value| |text: &mut String| value.put(text));
            state.write(|field| put_variable_field(field, frame, node.as_str(), name), value);
        }
        let mut write = Self {
            state,
            created_at: run.head.created_at,
            has_ledger: run.tokens() > 0 || run.control.wasted.is_some(),
            entries: event_texts(&changes.entries, graph),
            seq: run.seq,
            jobs: jobs(run, changes),
            ..Self::nothing(run.id, graph.hash.clone())
        };
        if has_end || changes.has_seldom() || run.status.is_over() {
            write.add_seldom(run, changes, has_end);
        }
        if !graph.hidden.are_none() {
            hide::secrets(&mut write, &graph.hidden);
        }
        write
    }

    /// An empty write for a run.
    pub fn nothing(run: RunId, graph: GraphHash) -> Self {
        Self {
            run,
            graph,
            created_at: Timestamp::default(),
            fields: Vec::new(),
            state: Pairs::default(),
            collected_cleared: false,
            collected: Pairs::default(),
            pauses: Vec::new(),
            ledger: Vec::new(),
            charges: None,
            has_ledger: false,
            leaves_turn: false,
            notice: None,
            conversation: None,
            held_cleared: false,
            held: Vec::new(),
            entries: EventTexts::default(),
            seq: 0,
            status: None,
            ended_at: None,
            calls: None,
            messages: None,
            jobs: Vec::new(),
            taken_back: Vec::new(),
            timers_set: Vec::new(),
            timers_cleared: Vec::new(),
            blobs: Vec::new(),
            continue_due: false,
        }
    }

    /// Adds the rare parts. `has_end`: a node's end is kept in its state until its hooks have run.
    #[inline(never)]
    fn add_seldom(&mut self, run: &RunState, changes: &mut Changes, has_end: bool) {
        let graph = &run.graph;
        let never_was = |frame: &FramePath| changes.opened.contains(frame) && !run.frames.contains_key(frame);
        for frame in changes.frames.iter().filter(|frame| !never_was(frame)) {
            let open = run.frames.get(frame).map(frames::frame_json);
            self.state.add(&frames::frame_field(frame), open.as_deref());
        }
        for key in &changes.streams {
            let stream = run.response.streams.get(key).map(stream_json);
            self.state.add(&stream_field(key), stream.as_deref());
        }
        if changes.response {
            self.state.add(RESPONSE_FIELD, Some(&response_json(run)));
        }
        write_open(run, changes, &mut self.state);
        (self.timers_set, self.timers_cleared) = timers(run, &changes.timers);
        self.fields = run_fields(run, changes);
        if has_end {
            self.fields.push(("v", ENDS_ARE_KEPT.to_string()));
        }
        self.messages = messages::write(run, changes, &mut self.state, &mut self.fields);
        self.conversation = conversation::left(run, changes);
        self.calls = calls(run, changes);
        self.collected_cleared = changes.collected_cleared;
        self.collected = collected(run, changes);
        let pause = |pause: &Pause| (pause.id.to_string(), frames::pause_json(pause, graph).to_string());
        self.pauses = changes.pauses.values().map(pause).collect();
        self.ledger = take(&mut changes.ledger);
        self.charges = charges(run, take(&mut changes.charges));
        self.leaves_turn = run.head.leaves_turn && run.status.is_over() && changes.status_from.is_some();
        self.notice = notices::notice(run, changes);
        self.held_cleared = changes.held_cleared;
        self.held = changes.held.iter().map(held_json).collect();
        self.status = changes.status_from.map(|from| (from, run.status));
        self.ended_at = run.status.is_over().then_some(run.finished_at).flatten();
        let is_wanted =
            |cancelled: &&CancelledJob| !changes.jobs.iter().any(|order| cancelled.entry == order.entry);
        let taken_back = changes.cancelled.iter().filter(is_wanted);
        self.taken_back = taken_back
            .map(|CancelledJob { queue, entry, execution }| TakeBack {
                queue: queue.to_string(),
                entry: *entry,
                execution: *execution,
            })
            .collect();
        self.blobs = take(&mut changes.blobs);
        self.continue_due = changes.continue_due && !run.status.is_over();
    }

    /// Ends a run whose state or workflow cannot be read, so that clients do not wait forever.
    ///
    /// # Errors
    /// Not even its status can be read.
    pub fn unreadable(run: RunId, rest: &AtRest, reason: &str, now: Timestamp) -> Result<Self, WireError> {
        let field = |name: &str| rest.run.get(name).map_or("", String::as_str);
        let unknown = || WireError::Unknown { what: "a run's status", kind: field("status").to_string() };
        let from = RunStatus::from_name(field("status")).ok_or_else(unknown)?;
        let error = format!("{}: {reason}", tidemill_base::failure::EngineErrorType::Engine);
        let event = serde_json::json!({"seq": rest.seq + 1, "ts": now.millis(), "error": error});
        Ok(Self {
            created_at: Timestamp::from_micros(field("created_at").parse().unwrap_or(0)),
            fields: vec![
                ("status", RunStatus::Failed.name().to_string()),
                ("finished_at", now.micros().to_string()),
                ("error", error.clone()),
            ],
            has_ledger: true,
            entries: [[(event::kind::GRAPH_RUN_FAILED, event.to_string())]].into_iter().collect(),
            seq: rest.seq + 1,
            status: Some((from, RunStatus::Failed)),
            ended_at: Some(now),
            calls: caller_of(rest).map(|caller| to_caller(run, &caller)),
            messages: unreadable_messages(rest),
            notice: notices::unreadable(rest, now),
            taken_back: jobs_of(run, rest),
            timers_cleared: vec![format!("{run} deadline")],
            ..Self::nothing(run, GraphHash(field("version").into()))
        })
    }

    /// Estimated bytes that it sends.
    pub fn size(&self) -> usize {
        let jobs: usize = self.jobs.iter().map(|j| j.body.len() + 80).sum();
        let blobs: usize = self.blobs.iter().map(|(_, text)| text.len()).sum();
        let kept = self.conversation.iter().flat_map(|write| &write.fields);
        let pauses: usize =
            self.pauses.iter().chain(&self.ledger).chain(kept).map(|(k, v)| k.len() + v.len()).sum();
        let orders = self.calls.iter().flat_map(|calls| &calls.ordered);
        let facts =
            self.calls.iter().flat_map(|calls| &calls.parent_facts).map(|(_, _, body)| body.len() + 128);
        let orders = orders.map(|(_, order)| order.len() + 128).sum::<usize>() + facts.sum::<usize>();
        let messages = self.messages.as_ref().map_or(0, |messages| messages.size());
        let pairs = self.state.bytes() + self.collected.bytes() + self.entries.bytes();
        messages + pairs + pauses + jobs + blobs + orders + 128
    }
}

/// Sets the time to live on the messages and other parts of an unreadable run.
fn unreadable_messages(rest: &AtRest) -> Option<Box<MessagesWrite>> {
    let expire = messages::parts(rest.run.get(messages::OBJECTS_FIELD)?).map(str::to_string).collect();
    Some(Box::new(MessagesWrite { expire, ..MessagesWrite::default() }))
}

fn charges(run: &RunState, calls: Vec<ChargeEntry>) -> Option<Box<ChargeWrite>> {
    (!calls.is_empty()).then(|| Box::new(ChargeWrite { key: run.head.key.clone(), calls }))
}

/// The jobs of a run, as far as its state can be read without the workflow.
fn jobs_of(run: RunId, rest: &AtRest) -> Vec<TakeBack> {
    let of_node = |(field, text): &(String, String)| {
        let (frame, node) = super::state::node_of_field(field)?;
        let state: Json = serde_json::from_str(text).ok()?;
        let entry = state.get("job")?.as_str()?.parse().ok()?;
        let queue = state.get("queue").and_then(Json::as_str).unwrap_or(DEFAULT_QUEUE).to_string();
        Some(TakeBack { queue, entry, execution: ExecutionId::derive(&run, &frame, &node) })
    };
    rest.state.iter().filter_map(of_node).collect()
}

/// The jobs to enqueue. A job ordered and taken back within one commit is left out.
fn jobs(run: &RunState, changes: &Changes) -> Vec<JobEntry> {
    let is_wanted = |order: &&JobOrder| !changes.cancelled.iter().any(|c| c.entry == order.entry);
    let mut jobs = Vec::with_capacity(changes.jobs.len());
    jobs.extend(changes.jobs.iter().filter(is_wanted).map(|order| JobEntry {
        queue: order.queue.clone(),
        entry: order.entry,
        run: run.id,
        body: job::body(order, &run.graph, &run.head),
    }));
    jobs
}

/// Writes the open parts of a run other than nodes and variables.
fn write_open(run: &RunState, changes: &Changes, state: &mut Pairs) {
    let graph = &run.graph;
    for key in &changes.containers {
        let field = container_field(&key.0, graph.node(key.1).id.as_str());
        state.add(&field, run.containers.get(key).map(frames::container_json).as_deref());
    }
    for key in &changes.nested {
        state.add(&format!("r:{key}"), run.nested.get(key).map(named_text).as_deref());
    }
}

fn event_texts(entries: &Entries, graph: &Graph) -> EventTexts {
    let events = entries.events().len();
    let mut texts = EventTexts::with_capacity(events, events * event::BYTES);
    for entry in entries.iter() {
        entry.iter().for_each(|event| texts.add(|text| event::put(text, event, graph)));
        texts.close();
    }
    texts
}

fn collected(run: &RunState, changes: &Changes) -> Pairs {
    let mut pairs = Pairs::default();
    for (frame, node, index) in &changes.collected {
        let container = run.containers.get(&(frame.clone(), *node));
        let left = container.and_then(|container| container.collected.get(index)).map(frames::collected_json);
        pairs.add(&frames::collected_field(frame, &run.graph.node(*node).id, *index), left.as_deref());
    }
    pairs
}

fn spent_fields(run: &RunState, fields: &mut Vec<(&'static str, String)>) {
    fields.push(("tokens", run.tokens().to_string()));
    if run.tokens() > 0
        && let Some(price) = run.cost().price
    {
        fields.push(("price", price.amount.fixed()));
        fields.push(("currency", price.currency.to_string()));
    }
    if let Some(wasted) = run.control.wasted.as_ref().filter(|wasted| wasted.tokens > 0) {
        fields.push(("wasted_tokens", wasted.tokens.to_string()));
        if let Some(price) = &wasted.price {
            fields.push(("wasted_price", price.amount.fixed()));
            fields.push(("wasted_currency", price.currency.to_string()));
        }
    }
}

fn run_fields(run: &RunState, changes: &Changes) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    if changes.status_from.is_none() {
        if run.status.is_over() {
            // Costs reported after the run ended.
            spent_fields(run, &mut fields);
        }
        return fields;
    }
    fields.push(("status", run.status.name().to_string()));
    if let Some(at) = run.started_at {
        fields.push(("started_at", at.micros().to_string()));
    }
    if let Some(at) = run.control.resumed_at {
        fields.push(("resumed_at", at.micros().to_string()));
    }
    if !run.status.is_over() && run.status != RunStatus::Paused {
        return fields;
    }
    if let Some(at) = run.finished_at {
        fields.push(("finished_at", at.micros().to_string()));
    }
    if let Some(error) = &run.error {
        fields.push(("error", error.to_string()));
    }
    fields.push(("steps", run.root_steps().to_string()));
    spent_fields(run, &mut fields);
    fields.push(("exceptions", run.exceptions().to_string()));
    if !run.control.warnings.is_empty() {
        fields.push(("warnings", run.control.warnings.len().to_string()));
    }
    // The outputs are taken from the last event, so that both agree.
    let outputs = changes.entries.events().iter().rev().find_map(|e| match &e.kind {
        EventKind::GraphRunSucceeded { outputs, .. }
        | EventKind::GraphRunPartialSucceeded { outputs, .. }
        | EventKind::GraphRunPaused { outputs, .. }
        | EventKind::GraphRunAborted { outputs, .. } => Some(outputs),
        EventKind::GraphRunStarted { .. }
        | EventKind::GraphRunVariablesUpdated { .. }
        | EventKind::RunWarning(_)
        | EventKind::NodeRunPauseRequested { .. }
        | EventKind::NodeRunHumanInputFormFilled { .. }
        | EventKind::NodeRunHumanInputFormTimeout { .. }
        | EventKind::NodeRunVariableUpdated { .. }
        | EventKind::NodeRunBodyStarted { .. }
        | EventKind::NodeRunBodyNext { .. }
        | EventKind::NodeRunBodyEnded { .. }
        | EventKind::GraphRunFailed { .. }
        | EventKind::GraphEdgeSkipped(_)
        | EventKind::NodeRunStarted { .. }
        | EventKind::NodeRunStreamChunk { .. }
        | EventKind::NodeRunStreamReplaced { .. }
        | EventKind::NodeRunSucceeded(_)
        | EventKind::NodeRunFailed(_)
        | EventKind::NodeRunException(_)
        | EventKind::NodeRunRetry { .. }
        | EventKind::NodeStep { .. } => None,
    });
    if let Some(outputs) = outputs {
        fields.push(("outputs", serde_json::to_string(&OutputsJson(outputs)).unwrap_or_default()));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_cannot_be_read_gives_its_jobs_up() {
        let run = RunId::new(1, 2, tidemill_base::ids::ShardId(3));
        let field = |field: &str, text: &str| (field.to_string(), text.to_string());
        let rest = AtRest {
            run: [field("status", "running")].into_iter().collect(),
            state: vec![
                field("n:/a", r#"{"status":"queued","job":"17-0"}"#),
                field("n:it#1/b%2Ec", r#"{"status":"running","job":"17-1","queue":"gpu"}"#),
                field("n:/d", r#"{"status":"succeeded"}"#),
                field("n:/e", "no JSON"),
                field("v:/a.x", r#"{"job":"17-2"}"#),
            ],
            ..AtRest::default()
        };
        let write = RunWrite::unreadable(run, &rest, "a test", Timestamp::from_millis(1)).unwrap();
        let of = |queue: &str, entry, frame: &str, node: &str| TakeBack {
            queue: queue.to_string(),
            entry: EntryId::new(17, entry),
            execution: ExecutionId::derive(&run, &FramePath::from(frame), &node.into()),
        };
        assert_eq!(write.taken_back, [of("default", 0, "", "a"), of("gpu", 1, "it#1", "b.c")]);
    }
}
