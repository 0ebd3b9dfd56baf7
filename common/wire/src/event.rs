//! Events: entries of a run's event stream. Each event is a field of its entry: the name is the event's type,
//! the value its JSON, which begins with `seq` and `ts` (Unix milliseconds). Defaults are left out, and so is
//! what the graph knows (only `node_run_started` holds a node's title and type); [`super::expand`] adds it
//! again.

use serde_json::{Value as Json, json};

use super::WireError;
use super::record::{write_completed, write_record};
use crate::codec::text::ObjectText;
use crate::codec::value::{OutputsJson, StoredJson};
use crate::state::frames::pause_json;
use crate::warnings;
use tidemill_base::ids::EntryId;
use tidemill_base::value::{JsonMap, Stored};
use tidemill_engine::order::events::{About, ChunkText, Event, EventKind, NodeEnd, ShownIn};
use tidemill_engine::state::pause::Pause;
use tidemill_engine::state::warnings::Warnings;
use tidemill_workflow::graph::Graph;
use tidemill_workflow::nodes::NodeKind;

/// The types of events: the names of the entry's fields.
pub mod kind {
    /// The run began.
    pub const GRAPH_RUN_STARTED: &str = "graph_run_started";
    /// The run succeeded.
    pub const GRAPH_RUN_SUCCEEDED: &str = "graph_run_succeeded";
    /// The run succeeded; some nodes failed and were handled.
    pub const GRAPH_RUN_PARTIAL_SUCCEEDED: &str = "graph_run_partial_succeeded";
    /// The run failed.
    pub const GRAPH_RUN_FAILED: &str = "graph_run_failed";
    /// The run was stopped.
    pub const GRAPH_RUN_ABORTED: &str = "graph_run_aborted";
    /// The run is paused.
    pub const GRAPH_RUN_PAUSED: &str = "graph_run_paused";
    /// A client set variables.
    pub const GRAPH_RUN_VARIABLES_UPDATED: &str = "graph_run_variables_updated";
    /// The run has a new warning.
    pub const RUN_WARNING: &str = "run_warning";
    /// A node waits for an answer.
    pub const NODE_RUN_PAUSE_REQUESTED: &str = "node_run_pause_requested";
    /// A form was answered.
    pub const NODE_RUN_HUMAN_INPUT_FORM_FILLED: &str = "node_run_human_input_form_filled";
    /// A form was not answered in time.
    pub const NODE_RUN_HUMAN_INPUT_FORM_TIMEOUT: &str = "node_run_human_input_form_timeout";
    /// A node wrote a variable.
    pub const NODE_RUN_VARIABLE_UPDATED: &str = "node_run_variable_updated";
    /// An iteration has its list of items.
    pub const NODE_RUN_ITERATION_STARTED: &str = "node_run_iteration_started";
    /// An item begins.
    pub const NODE_RUN_ITERATION_NEXT: &str = "node_run_iteration_next";
    /// An iteration succeeded.
    pub const NODE_RUN_ITERATION_SUCCEEDED: &str = "node_run_iteration_succeeded";
    /// An iteration failed.
    pub const NODE_RUN_ITERATION_FAILED: &str = "node_run_iteration_failed";
    /// A loop begins.
    pub const NODE_RUN_LOOP_STARTED: &str = "node_run_loop_started";
    /// A next round begins.
    pub const NODE_RUN_LOOP_NEXT: &str = "node_run_loop_next";
    /// A loop succeeded.
    pub const NODE_RUN_LOOP_SUCCEEDED: &str = "node_run_loop_succeeded";
    /// A loop failed.
    pub const NODE_RUN_LOOP_FAILED: &str = "node_run_loop_failed";
    /// An edge will not be taken.
    pub const GRAPH_EDGE_SKIPPED: &str = "graph_edge_skipped";
    /// A node began.
    pub const NODE_RUN_STARTED: &str = "node_run_started";
    /// A piece of text.
    pub const NODE_RUN_STREAM_CHUNK: &str = "node_run_stream_chunk";
    /// Text that was sent is withdrawn.
    pub const NODE_RUN_STREAM_REPLACED: &str = "node_run_stream_replaced";
    /// A node succeeded.
    pub const NODE_RUN_SUCCEEDED: &str = "node_run_succeeded";
    /// A node failed.
    pub const NODE_RUN_FAILED: &str = "node_run_failed";
    /// A node failed, and its error strategy continued the run.
    pub const NODE_RUN_EXCEPTION: &str = "node_run_exception";
    /// A node failed and is tried again.
    pub const NODE_RUN_RETRY: &str = "node_run_retry";
    /// The types that end a run.
    pub const TERMINAL: [&str; 4] =
        [GRAPH_RUN_SUCCEEDED, GRAPH_RUN_PARTIAL_SUCCEEDED, GRAPH_RUN_FAILED, GRAPH_RUN_ABORTED];
}

/// Encodes an event: its field name and value.
pub fn encode(event: &Event, graph: &Graph) -> (&'static str, String) {
    let mut text = String::with_capacity(BYTES);
    (put(&mut text, event, graph), text)
}

/// Estimated bytes of an event.
pub(super) const BYTES: usize = 384;

/// Appends an event's field value to a text; returns the field name.
pub(super) fn put(text: &mut String, event: &Event, graph: &Graph) -> &'static str {
    ObjectText::behind(text, |object| {
        object.number("seq", event.seq);
        object.number("ts", event.at.millis());
        write_kind(object, &event.kind, graph);
    });
    type_name(&event.kind, graph)
}

/// The type of an event.
pub fn type_name(event: &EventKind, graph: &Graph) -> &'static str {
    let of = |about: &About, iteration: &'static str, round: &'static str| {
        if graph.node(about.node).kind == NodeKind::Iteration { iteration } else { round }
    };
    match event {
        EventKind::GraphRunStarted { .. } => kind::GRAPH_RUN_STARTED,
        EventKind::GraphRunPaused { .. } => kind::GRAPH_RUN_PAUSED,
        EventKind::GraphRunVariablesUpdated { .. } => kind::GRAPH_RUN_VARIABLES_UPDATED,
        EventKind::RunWarning(_) => kind::RUN_WARNING,
        EventKind::NodeRunPauseRequested { .. } => kind::NODE_RUN_PAUSE_REQUESTED,
        EventKind::NodeRunHumanInputFormFilled { .. } => kind::NODE_RUN_HUMAN_INPUT_FORM_FILLED,
        EventKind::NodeRunHumanInputFormTimeout { .. } => kind::NODE_RUN_HUMAN_INPUT_FORM_TIMEOUT,
        EventKind::NodeRunVariableUpdated { .. } => kind::NODE_RUN_VARIABLE_UPDATED,
        EventKind::NodeRunBodyStarted { about, .. } => {
            of(about, kind::NODE_RUN_ITERATION_STARTED, kind::NODE_RUN_LOOP_STARTED)
        }
        EventKind::NodeRunBodyNext { about, .. } => {
            of(about, kind::NODE_RUN_ITERATION_NEXT, kind::NODE_RUN_LOOP_NEXT)
        }
        EventKind::NodeRunBodyEnded { end, .. } if end.record.error.is_empty() => {
            of(&end.about, kind::NODE_RUN_ITERATION_SUCCEEDED, kind::NODE_RUN_LOOP_SUCCEEDED)
        }
        EventKind::NodeRunBodyEnded { end, .. } => {
            of(&end.about, kind::NODE_RUN_ITERATION_FAILED, kind::NODE_RUN_LOOP_FAILED)
        }
        EventKind::GraphRunSucceeded { .. } => kind::GRAPH_RUN_SUCCEEDED,
        EventKind::GraphRunPartialSucceeded { .. } => kind::GRAPH_RUN_PARTIAL_SUCCEEDED,
        EventKind::GraphRunFailed { .. } => kind::GRAPH_RUN_FAILED,
        EventKind::GraphRunAborted { .. } => kind::GRAPH_RUN_ABORTED,
        EventKind::GraphEdgeSkipped(_) => kind::GRAPH_EDGE_SKIPPED,
        EventKind::NodeRunStarted { .. } => kind::NODE_RUN_STARTED,
        EventKind::NodeRunStreamChunk { .. } => kind::NODE_RUN_STREAM_CHUNK,
        EventKind::NodeRunStreamReplaced { .. } => kind::NODE_RUN_STREAM_REPLACED,
        EventKind::NodeRunSucceeded(_) => kind::NODE_RUN_SUCCEEDED,
        EventKind::NodeRunFailed(_) => kind::NODE_RUN_FAILED,
        EventKind::NodeRunException(_) => kind::NODE_RUN_EXCEPTION,
        EventKind::NodeRunRetry { .. } => kind::NODE_RUN_RETRY,
        EventKind::NodeStep { what, .. } => what.name(),
    }
}

/// Writes the common types of events. The rare ones are written elsewhere, to keep this code small.
fn write_kind(object: &mut ObjectText, kind: &EventKind, graph: &Graph) {
    match kind {
        EventKind::NodeRunStarted { about, after } => {
            write_about(object, about, graph);
            let node = graph.node(about.node);
            object.word("node_type", node.kind.wire());
            object.json("node_title", &node.quoted.title);
            if let Some(after) = after {
                object.json("after", &graph.node(*after).quoted.id);
            }
        }
        EventKind::NodeRunSucceeded(end)
        | EventKind::NodeRunFailed(end)
        | EventKind::NodeRunException(end) => write_end(object, end, graph),
        EventKind::NodeRunStreamChunk { about, selector, chunk, last, shown } => {
            write_about(object, about, graph);
            object.value("selector", selector);
            match chunk {
                ChunkText::Inline(text) => object.text("chunk", text),
                ChunkText::Blob(blob, from) => {
                    object.stored("chunk", &Stored::Blob(blob.clone()));
                    object.number("from", *from);
                }
            }
            if *last {
                object.value("is_final", last);
            }
            write_shown(object, *shown);
        }
        seldom => write_seldom(object, seldom, graph),
    }
}

#[inline(never)]
fn write_seldom(object: &mut ObjectText, kind: &EventKind, graph: &Graph) {
    match kind {
        EventKind::GraphRunStarted { resumed, caller } => {
            if *resumed {
                object.text("reason", "resumption");
            }
            if let Some(caller) = caller {
                object.text("caller_run_id", &caller.to_string());
            }
        }
        EventKind::GraphRunPaused { commands, pauses, outputs } => {
            let reasons: Vec<Json> = commands
                .iter()
                .map(|message| json!({"TYPE": "scheduled_pause", "message": &**message}))
                .chain(pauses.iter().map(|pause| reason(pause, graph)))
                .collect();
            let pauses: Vec<Json> = pauses.iter().map(|pause| pause_json(pause, graph)).collect();
            object.value("reasons", &reasons);
            object.value("pauses", &pauses);
            object.value("outputs", &OutputsJson(outputs));
        }
        EventKind::GraphRunVariablesUpdated { selectors, key } => {
            object.value("selectors", selectors);
            if let Some(key) = key {
                object.text("key", key);
            }
        }
        EventKind::RunWarning(noted) => {
            for (name, value) in warnings::shown_one(noted, graph) {
                object.foreign(&name, &value);
            }
        }
        EventKind::NodeRunPauseRequested { about, pause } => {
            write_about(object, about, graph);
            object.value("reason", &reason(pause, graph));
            object.value("pause", &pause_json(pause, graph));
        }
        EventKind::NodeRunHumanInputFormFilled {
            about,
            rendered_content,
            action,
            action_text,
            submitted,
        } => {
            write_about(object, about, graph);
            object.text("rendered_content", rendered_content);
            object.text("action_id", action);
            object.text("action_text", action_text);
            object.value("submitted_data", submitted);
        }
        EventKind::NodeRunHumanInputFormTimeout { about, expired_at } => {
            write_about(object, about, graph);
            object.number("expiration_time", expired_at.seconds());
        }
        EventKind::NodeRunVariableUpdated { about, variable: (node, name), value } => {
            write_about(object, about, graph);
            let variable = json!({
                "name": name, "selector": [node, name], "value_type": value.ty().exposed_name(),
                "value": serde_json::to_value(StoredJson(value)).unwrap_or_default(),
            });
            object.value("variable", &variable);
        }
        EventKind::NodeRunBodyStarted { about, inputs, count } => {
            write_about(object, about, graph);
            object.named("inputs", inputs);
            let length = if is_iteration(about, graph) { "iteration_length" } else { "loop_length" };
            object.open("metadata");
            object.number(length, *count);
            object.close();
        }
        EventKind::NodeRunBodyNext { about, index, outputs } => {
            write_about(object, about, graph);
            object.number("index", *index);
            if !is_iteration(about, graph) {
                object.named("pre_loop_output", outputs);
            }
        }
        EventKind::NodeRunBodyEnded { end, steps, reason } => {
            write_times(object, end, graph);
            write_completed(object, &end.record, *reason);
            object.number("steps", *steps);
        }
        EventKind::GraphRunSucceeded { outputs, warnings } => {
            object.value("outputs", &OutputsJson(outputs));
            write_warnings(object, warnings, graph);
        }
        EventKind::GraphRunPartialSucceeded { exceptions, outputs, warnings } => {
            object.number("exceptions_count", *exceptions);
            object.value("outputs", &OutputsJson(outputs));
            write_warnings(object, warnings, graph);
        }
        EventKind::GraphRunFailed { error, exceptions, warnings } => {
            object.text("error", error);
            object.number("exceptions_count", *exceptions);
            write_warnings(object, warnings, graph);
        }
        EventKind::GraphRunAborted { reason, outputs, warnings } => {
            object.text("reason", reason);
            object.value("outputs", &OutputsJson(outputs));
            write_warnings(object, warnings, graph);
        }
        EventKind::GraphEdgeSkipped(edge) => {
            let edge = graph.edge(*edge);
            object.value("edge_id", &edge.id);
            object.text("source_node_id", graph.node(edge.source).id.as_str());
            object.text("target_node_id", graph.node(edge.target).id.as_str());
            object.text("source_handle", &edge.handle);
        }
        EventKind::NodeRunStreamReplaced { about, selector, text, shown } => {
            write_about(object, about, graph);
            object.value("selector", selector);
            object.text("text", text);
            write_shown(object, *shown);
        }
        EventKind::NodeStep { about, data, .. } => {
            write_about(object, about, graph);
            object.value("data", data);
        }
        EventKind::NodeRunRetry { end, index } => {
            write_end(object, end, graph);
            object.number("retry_index", *index);
        }
        // Written by `write_kind`.
        EventKind::NodeRunStarted { .. }
        | EventKind::NodeRunSucceeded(_)
        | EventKind::NodeRunFailed(_)
        | EventKind::NodeRunException(_)
        | EventKind::NodeRunStreamChunk { .. } => {}
    }
}

/// Marks a text that no answer shows.
fn write_shown(object: &mut ObjectText, shown: ShownIn) {
    if shown == ShownIn::Node {
        object.value(IN_ANSWER, &false);
    }
}

fn write_warnings(object: &mut ObjectText, noted: &Warnings, graph: &Graph) {
    if !noted.is_empty() {
        object.value("warnings", &warnings::shown(noted, graph));
    }
}

fn is_iteration(about: &About, graph: &Graph) -> bool {
    graph.node(about.node).kind == NodeKind::Iteration
}

/// The reason of a pause in Dify's form, which allows no other keys.
fn reason(pause: &Pause, graph: &Graph) -> Json {
    let node = graph.node(pause.node);
    json!({
        "TYPE": "hitl_required", "session_id": &*pause.id,
        "node_id": node.id.as_str(), "node_title": node.title,
    })
}

fn write_about(object: &mut ObjectText, about: &About, graph: &Graph) {
    object.execution("id", &about.execution);
    object.json("node_id", &graph.node(about.node).quoted.id);
    if !about.frame.is_root() {
        object.text("frame", about.frame.as_str());
    }
}

fn write_end(object: &mut ObjectText, end: &NodeEnd, graph: &Graph) {
    write_times(object, end, graph);
    write_record(object, &end.record);
}

fn write_times(object: &mut ObjectText, end: &NodeEnd, graph: &Graph) {
    write_about(object, &end.about, graph);
    object.seconds("start_at", end.started_at);
    object.seconds("finished_at", end.finished_at);
}

/// The key that is `false` on chunks which are no part of an answer.
pub(crate) const IN_ANSWER: &str = "in_answer";

/// A parsed event.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRecord {
    /// The id of its entry.
    pub entry: EntryId,
    /// Whether it is the last of its entry, which carries the entry's id as the SSE id.
    pub last_of_entry: bool,
    pub kind: String,
    /// Counts the run's events from 1.
    pub seq: u64,
    /// Unix milliseconds.
    pub ts: i64,
    /// Its other fields, compact as stored.
    pub data: JsonMap,
}

impl EventRecord {
    /// Whether it ends the run.
    pub fn is_terminal(&self) -> bool {
        kind::TERMINAL.contains(&self.kind.as_str())
    }

    /// False for the text of a child node that no answer shows with these chunks.
    pub fn is_in_answer(&self) -> bool {
        self.data.get(IN_ANSWER).is_none_or(|it| it != &Json::Bool(false))
    }
}

/// Reads the events of an entry.
///
/// # Errors
/// A value is not the JSON of an event.
pub fn decode(
    entry: EntryId,
    fields: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<EventRecord>, WireError> {
    let mut records = Vec::new();
    for (kind, text) in fields {
        records.push(record(entry, false, kind, &text)?);
    }
    if let Some(last) = records.last_mut() {
        last.last_of_entry = true;
    }
    Ok(records)
}

/// Parses one event of an entry.
pub(super) fn record(
    entry: EntryId,
    last_of_entry: bool,
    kind: String,
    text: &str,
) -> Result<EventRecord, WireError> {
    let mut data: JsonMap = serde_json::from_str(text).map_err(|e| WireError::malformed("an event", e))?;
    let seq = data.shift_remove("seq").and_then(|v| v.as_u64());
    let ts = data.shift_remove("ts").and_then(|v| v.as_i64());
    let (Some(seq), Some(ts)) = (seq, ts) else {
        return Err(WireError::malformed("an event", "seq or ts is missing"));
    };
    Ok(EventRecord { entry, last_of_entry, kind, seq, ts, data })
}

/// The number of the last event of an entry.
pub fn last_seq(fields: &[(String, String)]) -> Option<u64> {
    let (_, text) = fields.last()?;
    serde_json::from_str::<Json>(text).ok()?.get("seq")?.as_u64()
}
