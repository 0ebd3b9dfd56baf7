//! Events as the event API sends them: all fields of graphon's form, including those that the stored form
//! leaves out.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};

use super::entry::StoredEvent;
use super::event::{EventRecord, IN_ANSWER, kind};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{EntryId, FramePath, RunId};
use tidemill_base::value::JsonMap;
use tidemill_engine::state::step_event::StepEvent;
use tidemill_workflow::graph::{Child, ChildKind, Graph};
use tidemill_workflow::nodes::{NodeData, NodeKind};

/// The envelope of an event: `{"type", "data", "id", "run_id", "seq", "ts"}`. The caller must have loaded
/// blobs before.
pub fn envelope(record: &EventRecord, run: &RunId, graph: &Graph) -> Json {
    json!({
        "type": record.kind,
        "data": data(record, graph),
        "id": record.entry.to_string(),
        "run_id": run.to_string(),
        "seq": record.seq,
        "ts": record.ts,
    })
}

/// Writes the envelope of an answer's text chunk from its stored text alone. Returns `false` and writes
/// nothing for any other event.
pub fn write_envelope(
    to: &mut Vec<u8>,
    event: &StoredEvent,
    entry: EntryId,
    run: &RunId,
    graph: &Graph,
) -> bool {
    let Some(chunk) = event.chunk() else { return false };
    let node = graph.find(&chunk.node_id).map(|ix| graph.node(ix));
    let around = chunk.frame.as_deref().map(|frame| Around::of_frame(frame, graph)).unwrap_or_default();
    let envelope = ChunkEnvelope {
        kind: &event.kind,
        data: ChunkData {
            id: chunk.id,
            node_id: &chunk.node_id,
            node_type: node.map_or("", |n| n.kind.wire()),
            node_title: node.map_or("", |n| n.title.as_str()),
            node_version: node.map_or("1", |n| n.version.as_str()),
            in_iteration_id: around.iteration.as_ref().map(|(id, _)| id.as_str()),
            in_loop_id: around.round.as_ref().map(|(id, _)| id.as_str()),
            frame: chunk.frame.as_deref(),
            selector: chunk.selector,
            chunk: chunk.chunk,
            is_final: chunk.is_final,
            in_answer: chunk.in_answer,
        },
        id: entry,
        run_id: run,
        seq: event.seq,
        ts: event.ts,
    };
    let begin = to.len();
    let is_written = serde_json::to_writer(&mut *to, &envelope).is_ok();
    if !is_written {
        to.truncate(begin);
    }
    is_written
}

#[derive(Serialize)]
struct ChunkEnvelope<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    data: ChunkData<'a>,
    id: EntryId,
    run_id: &'a RunId,
    seq: u64,
    ts: i64,
}

#[derive(Serialize)]
struct ChunkData<'a> {
    id: Option<&'a RawValue>,
    node_id: &'a str,
    node_type: &'a str,
    node_title: &'a str,
    node_version: &'a str,
    in_iteration_id: Option<&'a str>,
    in_loop_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frame: Option<&'a str>,
    #[serde(serialize_with = "or_empty")]
    selector: Option<&'a RawValue>,
    chunk: &'a RawValue,
    is_final: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_answer: Option<bool>,
}

/// The list as stored, or an empty one.
fn or_empty<S: serde::Serializer>(list: &Option<&RawValue>, s: S) -> Result<S::Ok, S::Error> {
    match list {
        Some(list) => list.serialize(s),
        None => [(); 0].serialize(s),
    }
}

fn data(record: &EventRecord, graph: &Graph) -> Json {
    let stored = &record.data;
    let copy = |key: &str, default: Json| stored.get(key).cloned().unwrap_or(default);
    match record.kind.as_str() {
        kind::GRAPH_RUN_STARTED => {
            let mut data = JsonMap::from_iter([("reason".into(), copy("reason", "initial".into()))]);
            data.extend(stored.get("caller_run_id").map(|id| ("caller_run_id".into(), id.clone())));
            Json::Object(data)
        }
        kind::NODE_RUN_STARTED => {
            let mut data = about(stored, graph);
            data.insert("predecessor_node_id".into(), predecessor(stored, graph));
            data.insert("start_at".into(), copy("start_at", json!(record.ts as f64 / 1000.0)));
            data.insert("extras".into(), json!({}));
            add_provider(&mut data, stored, graph);
            inside(&mut data, stored, graph);
            Json::Object(data)
        }
        kind::NODE_RUN_STREAM_CHUNK => {
            let mut data = about(stored, graph);
            data.insert("selector".into(), copy("selector", json!([])));
            data.insert("chunk".into(), copy("chunk", "".into()));
            data.insert("is_final".into(), copy("is_final", false.into()));
            data.extend(stored.get(IN_ANSWER).map(|it| (IN_ANSWER.to_owned(), it.clone())));
            Json::Object(data)
        }
        kind::NODE_RUN_SUCCEEDED
        | kind::NODE_RUN_FAILED
        | kind::NODE_RUN_EXCEPTION
        | kind::NODE_RUN_RETRY => node_end(record, graph),
        kind::NODE_RUN_ITERATION_STARTED
        | kind::NODE_RUN_ITERATION_SUCCEEDED
        | kind::NODE_RUN_ITERATION_FAILED
        | kind::NODE_RUN_LOOP_STARTED
        | kind::NODE_RUN_LOOP_SUCCEEDED
        | kind::NODE_RUN_LOOP_FAILED => of_container(record, graph),
        kind::NODE_RUN_ITERATION_NEXT => {
            let mut data = about(stored, graph);
            data.insert("index".into(), copy("index", 0.into()));
            data.insert("pre_iteration_output".into(), Json::Null);
            Json::Object(data)
        }
        kind::NODE_RUN_LOOP_NEXT
        | kind::NODE_RUN_PAUSE_REQUESTED
        | kind::NODE_RUN_HUMAN_INPUT_FORM_FILLED
        | kind::NODE_RUN_HUMAN_INPUT_FORM_TIMEOUT
        | kind::NODE_RUN_STREAM_REPLACED
        | kind::NODE_RUN_VARIABLE_UPDATED => of_node(record, graph),
        step if StepEvent::from_name(step).is_some() => {
            let mut data = about(stored, graph);
            if let Some(Json::Object(told)) = stored.get("data") {
                told.iter().for_each(|(key, value)| {
                    data.entry(key.clone()).or_insert_with(|| value.clone());
                });
            }
            Json::Object(data)
        }
        kind::GRAPH_RUN_PAUSED => {
            let mut data = stored.clone();
            let pauses = data.get_mut("pauses").and_then(Json::as_array_mut);
            pauses.into_iter().flatten().for_each(in_seconds);
            Json::Object(data)
        }
        _ => Json::Object(stored.clone()),
    }
}

/// Converts the times of a pause to Unix seconds, as in the rest of the API; null when it never expires.
fn in_seconds(pause: &mut Json) {
    for key in ["opened_at", "expires_at"] {
        let micros = pause[key].as_str().and_then(|text| text.parse().ok());
        let seconds = micros.map(|micros| Timestamp::from_micros(micros).seconds_f64());
        pause[key] = seconds.map_or(Json::Null, Json::from);
    }
}

fn about(stored: &JsonMap, graph: &Graph) -> JsonMap {
    let id = stored.get("node_id").and_then(Json::as_str).unwrap_or("");
    let node = graph.find(id).map(|ix| graph.node(ix));
    let mut data = JsonMap::new();
    data.insert("id".into(), stored.get("id").cloned().unwrap_or(Json::Null));
    data.insert("node_id".into(), id.into());
    data.insert("node_type".into(), node.map_or("", |n| n.kind.wire()).into());
    data.insert("node_title".into(), node.map_or("", |n| n.title.as_str()).into());
    data.insert("node_version".into(), node.map_or("1", |n| n.version.as_str()).into());
    let around = Around::of(stored, graph);
    let id = |place: &Option<(String, u32)>| place.as_ref().map_or(Json::Null, |(id, _)| id.as_str().into());
    data.insert("in_iteration_id".into(), id(&around.iteration));
    data.insert("in_loop_id".into(), id(&around.round));
    if let Some(frame) = stored.get("frame") {
        data.insert("frame".into(), frame.clone());
    }
    data
}

/// The child node that an event is about, if it is one.
fn child_of<'g>(stored: &JsonMap, graph: &'g Graph) -> Option<&'g Child> {
    let id = stored.get("node_id").and_then(Json::as_str)?;
    graph.find(id).and_then(|ix| graph.node(ix).child.as_deref())
}

/// The node that an event's node followed. The event names it if several edges lead to the node.
fn predecessor(stored: &JsonMap, graph: &Graph) -> Json {
    let only = || {
        let id = stored.get("node_id").and_then(Json::as_str)?;
        let [edge] = graph.node(graph.find(id)?).ins[..] else { return None };
        Some(graph.node(graph.edge(edge).source).id.as_str().into())
    };
    stored.get("after").cloned().or_else(only).unwrap_or_default()
}

/// Adds the provider of a tool, or the strategy of an agent.
fn add_provider(data: &mut JsonMap, stored: &JsonMap, graph: &Graph) {
    let id = stored.get("node_id").and_then(Json::as_str).unwrap_or_default();
    let Some(node) = graph.find(id).map(|ix| graph.node(ix)) else { return };
    if let NodeData::Tool(tool) = &node.data {
        data.insert("provider_type".into(), tool.provider_type.name().into());
        data.insert("provider_id".into(), tool.provider_id.as_str().into());
    }
    if let NodeData::Agent(agent) = &node.data {
        data.insert("agent_strategy".into(), json!({"name": agent.strategy_name(), "icon": null}));
    }
}

/// Adds the parent and the purpose of a child node.
fn inside(data: &mut JsonMap, stored: &JsonMap, graph: &Graph) {
    match child_of(stored, graph) {
        Some(child) => data.extend(of_child(child, graph)),
        None => _ = data.insert("is_virtual".into(), false.into()),
    }
}

/// The fields of a child node: its parent and its purpose.
pub fn of_child(child: &Child, graph: &Graph) -> JsonMap {
    let mut data = JsonMap::from_iter([("is_virtual".to_owned(), true.into())]);
    data.insert("parent_node_id".into(), graph.node(child.of).id.as_str().into());
    let extraction = match &child.kind {
        ChildKind::Extraction(extraction) => Some(extraction),
        ChildKind::Virtual | ChildKind::Slot => None,
    };
    let source = extraction.map_or(Json::Null, |it| it.source_name().into());
    data.insert("extraction_source".into(), source);
    let prompt = extraction.map_or(Json::Null, |it| it.prompt.as_str().into());
    data.insert("extraction_prompt".into(), prompt);
    data
}

/// The innermost iteration and loop around a node.
#[derive(Debug, Default)]
pub struct Around {
    /// Iteration and item.
    pub iteration: Option<(String, u32)>,
    /// Loop and round.
    pub round: Option<(String, u32)>,
}

impl Around {
    /// Reads it from the frame that an event names; empty for the root frame.
    pub fn of(stored: &JsonMap, graph: &Graph) -> Self {
        let frame = stored.get("frame").and_then(Json::as_str);
        frame.map(|frame| Self::of_frame(frame, graph)).unwrap_or_default()
    }

    fn of_frame(frame: &str, graph: &Graph) -> Self {
        let mut around = Self::default();
        for path in FramePath::from(frame).outwards() {
            let Some((id, index)) = path.last() else { continue };
            let is_iteration = graph.find(&id).is_some_and(|ix| graph.node(ix).kind == NodeKind::Iteration);
            let place = if is_iteration { &mut around.iteration } else { &mut around.round };
            place.get_or_insert_with(|| (id.into_owned(), index));
        }
        around
    }

    /// Writes Dify's metadata: `iteration_id`, `iteration_index`, `loop_id`, `loop_index`.
    pub fn write(&self, metadata: &mut JsonMap) {
        for (place, id_key, index_key) in
            [(&self.iteration, "iteration_id", "iteration_index"), (&self.round, "loop_id", "loop_index")]
        {
            if let Some((id, index)) = place {
                metadata.insert(id_key.into(), id.as_str().into());
                metadata.insert(index_key.into(), (*index).into());
            }
        }
    }
}

/// Metadata of a node's end, with the containers around it.
fn metadata(stored: &JsonMap, graph: &Graph) -> Json {
    let mut metadata = match stored.get("metadata") {
        Some(Json::Object(map)) => map.clone(),
        _ => JsonMap::new(),
    };
    Around::of(stored, graph).write(&mut metadata);
    Json::Object(metadata)
}

/// An event of a container: node, times and all stored fields.
fn of_container(record: &EventRecord, graph: &Graph) -> Json {
    let stored = &record.data;
    let mut data = about(stored, graph);
    data.insert(
        "start_at".into(),
        stored.get("start_at").cloned().unwrap_or_else(|| json!(record.ts as f64 / 1000.0)),
    );
    for (key, value) in stored {
        data.entry(key.clone()).or_insert_with(|| value.clone());
    }
    for (key, default) in [("inputs", json!({})), ("outputs", json!({})), ("metadata", json!({}))] {
        data.entry(key).or_insert(default);
    }
    Json::Object(data)
}

/// An event of a node with its stored fields only.
fn of_node(record: &EventRecord, graph: &Graph) -> Json {
    let mut data = about(&record.data, graph);
    for (key, value) in &record.data {
        data.entry(key.clone()).or_insert_with(|| value.clone());
    }
    if let Some(pause) = data.get_mut("pause") {
        in_seconds(pause);
    }
    Json::Object(data)
}

fn node_end(record: &EventRecord, graph: &Graph) -> Json {
    let stored = &record.data;
    let copy = |key: &str, default: Json| stored.get(key).cloned().unwrap_or(default);
    let status = match record.kind.as_str() {
        kind::NODE_RUN_SUCCEEDED => "succeeded",
        kind::NODE_RUN_EXCEPTION => "exception",
        kind::NODE_RUN_RETRY => "retry",
        _ => "failed",
    };
    let mut data = about(stored, graph);
    data.insert("start_at".into(), copy("start_at", Json::Null));
    data.insert("finished_at".into(), copy("finished_at", Json::Null));
    if record.kind != kind::NODE_RUN_SUCCEEDED {
        data.insert("error".into(), copy("error", "".into()));
    }
    if record.kind == kind::NODE_RUN_RETRY {
        data.insert("retry_index".into(), copy("retry_index", 1.into()));
        if child_of(stored, graph).is_some() {
            inside(&mut data, stored, graph);
        }
    }
    data.insert(
        "node_run_result".into(),
        json!({
            "status": status,
            "inputs": copy("inputs", json!({})),
            "process_data": copy("process_data", json!({})),
            "outputs": copy("outputs", json!({})),
            "metadata": metadata(stored, graph),
            "llm_usage": copy("usage", Json::Null),
            "edge_source_handle": copy("handle", "source".into()),
            "error": copy("error", "".into()),
            "error_type": copy("error_type", "".into()),
            "retry_index": copy("retry_index", 0.into()),
        }),
    );
    if let Some(wasted) = stored.get("wasted") {
        data["node_run_result"]["wasted"] = wasted.clone();
    }
    if let Some(worker) = stored.get("worker") {
        data["node_run_result"]["worker"] = worker.clone();
    }
    Json::Object(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EventEntry;

    const WORKFLOW: &str = "
kind: app
version: 0.6.0
app: {mode: workflow, name: Pieces}
workflow:
  graph:
    nodes:
    - {id: start, data: {type: start, title: 'Be\"gin', variables: []}}
    - {id: each, data: {type: iteration, title: Each, iterator_selector: [start, list], output_selector: [start, list], start_node_id: eachstart}}
    - {id: eachstart, parentId: each, data: {type: iteration-start, title: '', isInIteration: true, iteration_id: each}}
    - {id: end, data: {type: end, title: Finish, outputs: []}}
    edges:
    - {id: e1, source: start, target: each}
    - {id: e2, source: each, target: end}
";

    fn graph() -> Graph {
        let imported = tidemill_workflow::graph::import(WORKFLOW.as_bytes());
        imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics))
    }

    #[test]
    fn a_text_chunk_has_the_same_envelope_either_way() {
        let (graph, run) = (graph(), RunId::new(1, 2, tidemill_base::ids::ShardId(3)));
        for (text, is_written) in [
            (
                r#"{"seq":3,"ts":17,"id":"e","node_id":"start","selector":["start","a"],"chunk":"b \"é\u0001\\n\n"}"#,
                true,
            ),
            (
                r#"{"seq":3,"ts":17,"id":"e","node_id":"start","selector":["start","a"],"chunk":"","is_final":true}"#,
                true,
            ),
            (
                r#"{"seq":3,"ts":17,"id":"e","node_id":"eachstart","frame":"each#2","selector":["start","a"],"chunk":"b"}"#,
                true,
            ),
            (r#"{"seq":3,"ts":17,"node_id":"gone","chunk":"b"}"#, true),
            (
                r#"{"seq":3,"ts":17,"id":"e","node_id":"start","selector":["start","a"],"chunk":"b","in_answer":false}"#,
                true,
            ),
            (
                r#"{"seq":3,"ts":17,"id":"e","node_id":"start","selector":[],"chunk":{"$":"blob"},"from":7}"#,
                false,
            ),
            (r#"{"seq":3,"ts":17,"id":"e","node_id":"start","selector":[]}"#, false),
        ] {
            let fields = [(kind::NODE_RUN_STREAM_CHUNK.to_string(), text.replace('\n', ""))];
            let entry = EventEntry::read(EntryId::new(5, 6), fields).unwrap();
            let mut written = Vec::new();
            for (event, _) in entry.events() {
                assert_eq!(write_envelope(&mut written, event, entry.id, &run, &graph), is_written, "{text}");
            }
            let expected = envelope(&entry.records().unwrap()[0], &run, &graph).to_string();
            let written = String::from_utf8(written).unwrap();
            assert_eq!(written, if is_written { expected } else { String::new() });
        }
    }
}
