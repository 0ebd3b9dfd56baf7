//! Events as the event API tells them: graphon's fields in full, with what the stored form leaves out.

use serde_json::{Value as Json, json};

use super::event::{EventRecord, kind};
use crate::graph::Graph;
use crate::ids::RunId;
use crate::value::JsonMap;

/// The envelope of an event: `{"type", "data", "id", "run_id", "seq", "ts"}`. Blobs must have been put in before.
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

fn data(record: &EventRecord, graph: &Graph) -> Json {
    let stored = &record.data;
    let copy = |key: &str, default: Json| stored.get(key).cloned().unwrap_or(default);
    match record.kind.as_str() {
        kind::GRAPH_RUN_STARTED => json!({"reason": copy("reason", "initial".into())}),
        kind::NODE_RUN_STARTED => {
            let mut data = about(stored, graph);
            data.insert("predecessor_node_id".into(), Json::Null);
            data.insert("start_at".into(), copy("start_at", json!(record.ts as f64 / 1000.0)));
            data.insert("extras".into(), json!({}));
            Json::Object(data)
        }
        kind::NODE_RUN_STREAM_CHUNK => {
            let mut data = about(stored, graph);
            data.insert("selector".into(), copy("selector", json!([])));
            data.insert("chunk".into(), copy("chunk", "".into()));
            data.insert("is_final".into(), copy("is_final", false.into()));
            Json::Object(data)
        }
        kind::NODE_RUN_SUCCEEDED
        | kind::NODE_RUN_FAILED
        | kind::NODE_RUN_EXCEPTION
        | kind::NODE_RUN_RETRY => node_end(record, graph),
        _ => Json::Object(stored.clone()),
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
    data.insert("in_iteration_id".into(), Json::Null);
    data.insert("in_loop_id".into(), Json::Null);
    if let Some(frame) = stored.get("frame") {
        data.insert("frame".into(), frame.clone());
    }
    data
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
    }
    data.insert(
        "node_run_result".into(),
        json!({
            "status": status,
            "inputs": copy("inputs", json!({})),
            "process_data": copy("process_data", json!({})),
            "outputs": copy("outputs", json!({})),
            "metadata": copy("metadata", json!({})),
            "llm_usage": copy("usage", Json::Null),
            "edge_source_handle": copy("handle", "source".into()),
            "error": copy("error", "".into()),
            "error_type": copy("error_type", "".into()),
            "retry_index": copy("retry_index", 0.into()),
        }),
    );
    Json::Object(data)
}
