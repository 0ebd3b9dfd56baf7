//! Events: entries of a run's event stream. An entry has a field an event: its name is the event's type, its value
//! the event's JSON with `seq` and `ts` (Unix milliseconds) in front. What is at its default is left out, also what the
//! graph says (a node's title and type stand in `node_run_started` alone); [`super::expand`] puts it back.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value as Json;

use super::WireError;
use super::record::write_record;
use super::value::{OutputsJson, StoredJson};
use crate::graph::Graph;
use crate::ids::EntryId;
use crate::machine::changes::{About, ChunkText, Event, EventKind, NodeEnd};
use crate::value::{JsonMap, Stored};

/// The types of events, as the entry's fields are named.
pub mod kind {
    /// The run began.
    pub const GRAPH_RUN_STARTED: &str = "graph_run_started";
    /// The run ended well.
    pub const GRAPH_RUN_SUCCEEDED: &str = "graph_run_succeeded";
    /// The run ended well but for handled failures.
    pub const GRAPH_RUN_PARTIAL_SUCCEEDED: &str = "graph_run_partial_succeeded";
    /// The run failed.
    pub const GRAPH_RUN_FAILED: &str = "graph_run_failed";
    /// The run was stopped.
    pub const GRAPH_RUN_ABORTED: &str = "graph_run_aborted";
    /// The run waits.
    pub const GRAPH_RUN_PAUSED: &str = "graph_run_paused";
    /// An edge will not be taken.
    pub const GRAPH_EDGE_SKIPPED: &str = "graph_edge_skipped";
    /// A node began.
    pub const NODE_RUN_STARTED: &str = "node_run_started";
    /// Text.
    pub const NODE_RUN_STREAM_CHUNK: &str = "node_run_stream_chunk";
    /// Text withdrawn.
    pub const NODE_RUN_STREAM_REPLACED: &str = "node_run_stream_replaced";
    /// A node ended well.
    pub const NODE_RUN_SUCCEEDED: &str = "node_run_succeeded";
    /// A node failed.
    pub const NODE_RUN_FAILED: &str = "node_run_failed";
    /// A node failed, and its strategy went on.
    pub const NODE_RUN_EXCEPTION: &str = "node_run_exception";
    /// A node failed and is tried again.
    pub const NODE_RUN_RETRY: &str = "node_run_retry";
    /// Those after which nothing comes.
    pub const TERMINAL: [&str; 4] =
        [GRAPH_RUN_SUCCEEDED, GRAPH_RUN_PARTIAL_SUCCEEDED, GRAPH_RUN_FAILED, GRAPH_RUN_ABORTED];
}

/// The field name and the field value of an event.
pub fn encode(event: &Event, graph: &Graph) -> (&'static str, String) {
    // Strings and numbers only: this cannot fail.
    (type_name(&event.kind), serde_json::to_string(&EventJson { event, graph }).unwrap_or_default())
}

/// The type of an event.
pub fn type_name(event: &EventKind) -> &'static str {
    match event {
        EventKind::GraphRunStarted => kind::GRAPH_RUN_STARTED,
        EventKind::GraphRunSucceeded { .. } => kind::GRAPH_RUN_SUCCEEDED,
        EventKind::GraphRunPartialSucceeded { .. } => kind::GRAPH_RUN_PARTIAL_SUCCEEDED,
        EventKind::GraphRunFailed { .. } => kind::GRAPH_RUN_FAILED,
        EventKind::GraphRunAborted { .. } => kind::GRAPH_RUN_ABORTED,
        EventKind::GraphEdgeSkipped(_) => kind::GRAPH_EDGE_SKIPPED,
        EventKind::NodeRunStarted(_) => kind::NODE_RUN_STARTED,
        EventKind::NodeRunStreamChunk { .. } => kind::NODE_RUN_STREAM_CHUNK,
        EventKind::NodeRunStreamReplaced { .. } => kind::NODE_RUN_STREAM_REPLACED,
        EventKind::NodeRunSucceeded(_) => kind::NODE_RUN_SUCCEEDED,
        EventKind::NodeRunFailed(_) => kind::NODE_RUN_FAILED,
        EventKind::NodeRunException(_) => kind::NODE_RUN_EXCEPTION,
        EventKind::NodeRunRetry { .. } => kind::NODE_RUN_RETRY,
    }
}

struct EventJson<'a> {
    event: &'a Event,
    graph: &'a Graph,
}

impl Serialize for EventJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let (event, graph) = (self.event, self.graph);
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("seq", &event.seq)?;
        map.serialize_entry("ts", &event.at.millis())?;
        match &event.kind {
            EventKind::GraphRunStarted => {}
            EventKind::GraphRunSucceeded { outputs } => {
                map.serialize_entry("outputs", &OutputsJson(outputs))?
            }
            EventKind::GraphRunPartialSucceeded { exceptions, outputs } => {
                map.serialize_entry("exceptions_count", exceptions)?;
                map.serialize_entry("outputs", &OutputsJson(outputs))?;
            }
            EventKind::GraphRunFailed { error, exceptions } => {
                map.serialize_entry("error", error)?;
                map.serialize_entry("exceptions_count", exceptions)?;
            }
            EventKind::GraphRunAborted { reason, outputs } => {
                map.serialize_entry("reason", reason)?;
                map.serialize_entry("outputs", &OutputsJson(outputs))?;
            }
            EventKind::GraphEdgeSkipped(edge) => {
                let edge = graph.edge(*edge);
                map.serialize_entry("edge_id", &edge.id)?;
                map.serialize_entry("source_node_id", &graph.node(edge.source).id)?;
                map.serialize_entry("target_node_id", &graph.node(edge.target).id)?;
                map.serialize_entry("source_handle", &*edge.handle)?;
            }
            EventKind::NodeRunStarted(about) => {
                write_about(&mut map, about, graph)?;
                let node = graph.node(about.node);
                map.serialize_entry("node_type", node.kind.wire())?;
                map.serialize_entry("node_title", &node.title)?;
            }
            EventKind::NodeRunStreamChunk { about, selector, chunk, last } => {
                write_about(&mut map, about, graph)?;
                map.serialize_entry("selector", selector)?;
                match chunk {
                    ChunkText::Inline(text) => map.serialize_entry("chunk", text)?,
                    ChunkText::Blob(blob, from) => {
                        map.serialize_entry("chunk", &StoredJson(&Stored::Blob(blob.clone())))?;
                        map.serialize_entry("from", from)?;
                    }
                }
                if *last {
                    map.serialize_entry("is_final", last)?;
                }
            }
            EventKind::NodeRunStreamReplaced { about, selector, text } => {
                write_about(&mut map, about, graph)?;
                map.serialize_entry("selector", selector)?;
                map.serialize_entry("text", text)?;
            }
            EventKind::NodeRunSucceeded(end)
            | EventKind::NodeRunFailed(end)
            | EventKind::NodeRunException(end) => write_end(&mut map, end, graph)?,
            EventKind::NodeRunRetry { end, index } => {
                write_end(&mut map, end, graph)?;
                map.serialize_entry("retry_index", index)?;
            }
        }
        map.end()
    }
}

fn write_about<M: SerializeMap>(map: &mut M, about: &About, graph: &Graph) -> Result<(), M::Error> {
    map.serialize_entry("id", &about.execution)?;
    map.serialize_entry("node_id", &graph.node(about.node).id)?;
    if !about.frame.is_root() {
        map.serialize_entry("frame", &about.frame)?;
    }
    Ok(())
}

fn write_end<M: SerializeMap>(map: &mut M, end: &NodeEnd, graph: &Graph) -> Result<(), M::Error> {
    write_about(map, &end.about, graph)?;
    map.serialize_entry("start_at", &end.started_at.seconds_f64())?;
    map.serialize_entry("finished_at", &end.finished_at.seconds_f64())?;
    write_record(map, &end.record)
}

/// An event as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRecord {
    /// The entry it stands in.
    pub entry: EntryId,
    /// Whether it is the last of its entry: the one that carries the entry's id as SSE id.
    pub last_of_entry: bool,
    /// Its type.
    pub kind: String,
    /// Counts the run's events from 1.
    pub seq: u64,
    /// Unix milliseconds.
    pub ts: i64,
    /// The rest of its JSON, compact as stored.
    pub data: JsonMap,
}

impl EventRecord {
    /// True for the event after which nothing comes.
    pub fn is_terminal(&self) -> bool {
        kind::TERMINAL.contains(&self.kind.as_str())
    }
}

/// Reads the events of an entry.
///
/// # Errors
/// A value that is not the JSON of an event.
pub fn decode(
    entry: EntryId,
    fields: impl IntoIterator<Item = (String, String)>,
) -> Result<Vec<EventRecord>, WireError> {
    let mut records = Vec::new();
    for (kind, text) in fields {
        let mut data: JsonMap =
            serde_json::from_str(&text).map_err(|e| WireError::malformed("an event", e))?;
        let seq = data.shift_remove("seq").and_then(|v| v.as_u64());
        let ts = data.shift_remove("ts").and_then(|v| v.as_i64());
        let (Some(seq), Some(ts)) = (seq, ts) else {
            return Err(WireError::malformed("an event", "seq or ts is missing"));
        };
        records.push(EventRecord { entry, last_of_entry: false, kind, seq, ts, data });
    }
    if let Some(last) = records.last_mut() {
        last.last_of_entry = true;
    }
    Ok(records)
}

/// The number of the last event of an entry; for whoever goes on counting.
pub fn last_seq(fields: &[(String, String)]) -> Option<u64> {
    let (_, text) = fields.last()?;
    serde_json::from_str::<Json>(text).ok()?.get("seq")?.as_u64()
}
