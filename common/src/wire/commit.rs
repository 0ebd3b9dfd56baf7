//! What a commit writes for one run: the touched parts of its state, encoded once, whatever number of facts touched
//! them.

use super::WireError;
use super::event;
use super::job;
use super::state::AtRest;
use super::state::{
    RESPONSE_FIELD, held_json, node_field, node_json, response_json, stream_field, stream_json,
    variable_field, variable_json,
};
use super::value::OutputsJson;
use crate::clock::Timestamp;
use crate::graph::GraphHash;
use crate::ids::{BlobId, EntryId, ExecutionId, RunId};
use crate::machine::changes::{CancelledJob, Changes, EventKind, TimerChange};
use crate::machine::fact::Timer;
use crate::machine::run::{RunState, RunStatus};

/// A job's entry to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobEntry {
    /// The queue.
    pub queue: String,
    /// The entry's id.
    pub entry: EntryId,
    /// The run.
    pub run: RunId,
    /// The field `job`.
    pub body: String,
}

/// A job's entry to take back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeBack {
    /// The queue.
    pub queue: String,
    /// The entry.
    pub entry: EntryId,
    /// Whose holder is told to stop.
    pub execution: ExecutionId,
}

/// What a run leaves to its conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationWrite {
    /// The conversation.
    pub id: String,
    /// Fields of its hash: `v:<name>` and the stored JSON of the variable.
    pub fields: Vec<(String, String)>,
}

/// All that a commit writes for one run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunWrite {
    /// The run.
    pub run: RunId,
    /// Its graph.
    pub graph: GraphHash,
    /// When it was submitted, for the index.
    pub created_at: Timestamp,
    /// Fields of the run hash.
    pub fields: Vec<(&'static str, String)>,
    /// Fields of the state hash; none for one to delete.
    pub state: Vec<(String, Option<String>)>,
    /// Fields of the hash of what closed frames left; none for one to delete.
    pub collected: Vec<(String, Option<String>)>,
    /// Fields of the pauses hash: pause id and its JSON.
    pub pauses: Vec<(String, String)>,
    /// What it leaves to its conversation.
    pub conversation: Option<ConversationWrite>,
    /// Delete the list of held chunks first.
    pub held_cleared: bool,
    /// Then append these to it.
    pub held: Vec<String>,
    /// Entries of the event stream.
    pub entries: Vec<Vec<(&'static str, String)>>,
    /// The status moved: from, to.
    pub status: Option<(RunStatus, RunStatus)>,
    /// When the run ended.
    pub ended_at: Option<Timestamp>,
    /// Jobs to add.
    pub jobs: Vec<JobEntry>,
    /// Jobs to take back.
    pub taken_back: Vec<TakeBack>,
    /// Timers to set (due, member) and members to clear.
    pub timers_set: Vec<(Timestamp, String)>,
    /// Timers to clear.
    pub timers_cleared: Vec<String>,
    /// Blobs to store: name and content.
    pub blobs: Vec<(BlobId, String)>,
    /// A `continue` fact is due.
    pub go_on: bool,
}

impl RunWrite {
    /// Encodes what a run's steps of one commit have ordered.
    pub fn new(run: &RunState, changes: Changes) -> Self {
        let graph = &run.graph;
        let mut state = Vec::with_capacity(changes.nodes.len() + changes.variables.len() + 2);
        for (frame, node) in &changes.nodes {
            if let Some(node_state) = run.node(frame, *node) {
                state.push((node_field(frame, graph.node(*node).id.as_str()), Some(node_json(node_state))));
            }
        }
        for (frame, node, name) in &changes.variables {
            state.push((variable_field(frame, node, name), variable_json(run, frame, node, name)));
        }
        for key in &changes.streams {
            state.push((stream_field(key), run.response.streams.get(key).map(stream_json)));
        }
        if changes.response {
            state.push((RESPONSE_FIELD.to_string(), Some(response_json(run))));
        }
        let mut timers_set = Vec::new();
        let mut timers_cleared = Vec::new();
        for change in &changes.timers {
            match change {
                TimerChange::Set(due, timer) => timers_set.push((*due, timer_member(run, timer))),
                TimerChange::Clear(timer) => timers_cleared.push(timer_member(run, timer)),
            }
        }
        // A timer that is set and cleared within one commit never was.
        timers_set.retain(|(_, member)| !timers_cleared.contains(member));
        let fields = run_fields(run, &changes);
        Self {
            run: run.id,
            graph: graph.hash.clone(),
            created_at: run.head.created_at,
            fields,
            state,
            collected: Vec::new(),
            pauses: Vec::new(),
            conversation: None,
            held_cleared: changes.held_cleared,
            held: changes.held.iter().map(held_json).collect(),
            entries: changes
                .entries
                .iter()
                .map(|entry| entry.iter().map(|e| event::encode(e, graph)).collect())
                .collect(),
            status: changes.status_from.map(|from| (from, run.status)),
            ended_at: run.status.is_over().then_some(run.finished_at).flatten(),
            jobs: changes
                .jobs
                .iter()
                // A job ordered and taken back within one commit never was.
                .filter(|order| !changes.cancelled.iter().any(|c| c.entry == order.entry))
                .map(|order| JobEntry {
                    queue: order.queue.to_string(),
                    entry: order.entry,
                    run: run.id,
                    body: job::body(order, graph, &run.head.options),
                })
                .collect(),
            taken_back: changes
                .cancelled
                .iter()
                .filter(|c| !changes.jobs.iter().any(|order| c.entry == order.entry))
                .map(|CancelledJob { queue, entry, execution }| TakeBack {
                    queue: queue.to_string(),
                    entry: *entry,
                    execution: *execution,
                })
                .collect(),
            timers_set,
            timers_cleared,
            blobs: changes.blobs,
            go_on: changes.go_on && !run.status.is_over(),
        }
    }

    /// Ends a run whose state or workflow cannot be read, so that nobody waits for it for ever.
    ///
    /// # Errors
    /// Not even its status can be read.
    pub fn unreadable(run: RunId, rest: &AtRest, reason: &str, now: Timestamp) -> Result<Self, WireError> {
        let field = |name: &str| rest.run.get(name).map_or("", String::as_str);
        let unknown = || WireError::Unknown { what: "a run's status", kind: field("status").to_string() };
        let from = RunStatus::from_name(field("status")).ok_or_else(unknown)?;
        let error = format!("{}: {reason}", crate::failure::EngineErrorType::Engine);
        let told = serde_json::json!({"seq": rest.seq + 1, "ts": now.millis(), "error": error});
        Ok(Self {
            run,
            graph: GraphHash(field("version").into()),
            created_at: Timestamp::from_micros(field("created_at").parse().unwrap_or(0)),
            fields: vec![
                ("status", RunStatus::Failed.name().to_string()),
                ("finished_at", now.micros().to_string()),
                ("error", error.clone()),
            ],
            state: Vec::new(),
            collected: Vec::new(),
            pauses: Vec::new(),
            conversation: None,
            held_cleared: false,
            held: Vec::new(),
            entries: vec![vec![(event::kind::GRAPH_RUN_FAILED, told.to_string())]],
            status: Some((from, RunStatus::Failed)),
            ended_at: Some(now),
            jobs: Vec::new(),
            taken_back: Vec::new(),
            timers_set: Vec::new(),
            timers_cleared: vec![format!("{run} deadline")],
            blobs: Vec::new(),
            go_on: false,
        })
    }

    /// About how many bytes it sends.
    pub fn size(&self) -> usize {
        let state: usize = self.state.iter().map(|(k, v)| k.len() + v.as_ref().map_or(0, String::len)).sum();
        let events: usize = self.entries.iter().flatten().map(|(k, v)| k.len() + v.len()).sum();
        let jobs: usize = self.jobs.iter().map(|j| j.body.len() + 80).sum();
        let blobs: usize = self.blobs.iter().map(|(_, text)| text.len()).sum();
        let collected: usize =
            self.collected.iter().map(|(k, v)| k.len() + v.as_ref().map_or(0, String::len)).sum();
        let kept = self.conversation.iter().flat_map(|write| &write.fields);
        let pauses: usize = self.pauses.iter().chain(kept).map(|(k, v)| k.len() + v.len()).sum();
        state + collected + pauses + events + jobs + blobs + 128
    }
}

fn run_fields(run: &RunState, changes: &Changes) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    if changes.status_from.is_none() {
        return fields;
    }
    fields.push(("status", run.status.name().to_string()));
    if let Some(at) = run.started_at {
        fields.push(("started_at", at.micros().to_string()));
    }
    if !run.status.is_over() {
        return fields;
    }
    if let Some(at) = run.finished_at {
        fields.push(("finished_at", at.micros().to_string()));
    }
    if let Some(error) = &run.error {
        fields.push(("error", error.to_string()));
    }
    fields.push(("steps", run.root_steps().to_string()));
    fields.push(("tokens", run.tokens().to_string()));
    fields.push(("exceptions", run.exceptions().to_string()));
    // The outputs stand in the last event; they are taken from there, so that both say the same.
    let outputs = changes.entries.iter().flatten().rev().find_map(|e| match &e.kind {
        EventKind::GraphRunSucceeded { outputs }
        | EventKind::GraphRunPartialSucceeded { outputs, .. }
        | EventKind::GraphRunAborted { outputs, .. } => Some(outputs),
        EventKind::GraphRunStarted
        | EventKind::GraphRunFailed { .. }
        | EventKind::GraphEdgeSkipped(_)
        | EventKind::NodeRunStarted(_)
        | EventKind::NodeRunStreamChunk { .. }
        | EventKind::NodeRunStreamReplaced { .. }
        | EventKind::NodeRunSucceeded(_)
        | EventKind::NodeRunFailed(_)
        | EventKind::NodeRunException(_)
        | EventKind::NodeRunRetry { .. } => None,
    });
    if let Some(outputs) = outputs {
        fields.push(("outputs", serde_json::to_string(&OutputsJson(outputs)).unwrap_or_default()));
    }
    fields
}

/// The member of the timers set: `<run> deadline` or `<run> retry <attempt> <frame>/<node>`.
pub fn timer_member(run: &RunState, timer: &Timer) -> String {
    match timer {
        Timer::RunDeadline => format!("{} deadline", run.id),
        Timer::Retry { frame, node, attempt } => {
            format!("{} retry {attempt} {frame}/{}", run.id, run.graph.node(*node).id)
        }
    }
}

/// The run that a member of the timers set is about.
pub fn timer_run(member: &str) -> Option<RunId> {
    member.split(' ').next()?.parse().ok()
}

/// Reads a member of the timers set as a timer of this run.
pub fn timer_from_member(run: &RunState, member: &str) -> Option<Timer> {
    let mut words = member.splitn(4, ' ');
    words.next()?;
    match words.next()? {
        "deadline" => Some(Timer::RunDeadline),
        "retry" => {
            let attempt = words.next()?.parse().ok()?;
            let place = words.next()?;
            // The node's id may hold a slash; a frame path of the root is empty.
            let (frame, node) = run.frames.keys().find_map(|path| {
                let node = place.strip_prefix(path.as_str())?.strip_prefix('/')?;
                Some((path.clone(), run.graph.find(node)?))
            })?;
            Some(Timer::Retry { frame, node, attempt })
        }
        _ => None,
    }
}
