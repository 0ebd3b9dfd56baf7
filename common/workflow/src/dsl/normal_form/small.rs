//! Rewrites of a few lines each, which need no file of their own.
//!
//! | Rewrite | What it does |
//! | --- | --- |
//! | [`null_edges`] | makes absent or null edges an empty list: some editors write `edges: null` |
//! | [`edge_keys`] | renames `source_node_id`, `target_node_id` and `source_handle` of an edge |
//! | [`edge_handle`] | sets the default handle of an edge without one |
//! | [`node_version`] | turns `version: 2` into `version: "2"`, since versions are compared as text |
//! | [`assigner_version`] | sets an assigner that has `items` to version 2, whatever its `version` says, as Dify does |
//! | [`structured_output`] | renames `structured_output_enabled` to `structured_output_switch_on` |
//! | [`retry_seconds`] | turns `retry_interval_seconds` into `retry_interval`, in milliseconds |
//!
//! Where the old and the new name are both present, the new one wins.

use serde_json::{Value as Json, json};

use crate::kinds::SOURCE_HANDLE;
use tidemill_base::value::JsonMap;

/// Nodes that are absent stay absent: Dify refuses such a graph.
pub(super) fn null_edges(graph: &mut JsonMap) {
    let edges = graph.entry("edges").or_insert(Json::Null);
    if edges.is_null() {
        *edges = Json::Array(Vec::new());
    }
}

pub(super) fn edge_keys(edge: &mut JsonMap) {
    let names =
        [("source_node_id", "source"), ("target_node_id", "target"), ("source_handle", "sourceHandle")];
    for (theirs, ours) in names {
        // A handle that is null in this spelling is none.
        if let Some(value) = edge.shift_remove(theirs).filter(|value| !value.is_null()) {
            edge.entry(ours).or_insert(value);
        }
    }
}

/// A null handle stays: Dify drops such an edge.
pub(super) fn edge_handle(edge: &mut JsonMap) {
    edge.entry("sourceHandle").or_insert_with(|| SOURCE_HANDLE.into());
}

pub(super) fn node_version(data: &mut JsonMap) {
    if let Some(version @ Json::Number(_)) = data.get_mut("version") {
        *version = Json::String(version.to_string());
    }
}

pub(super) fn assigner_version(data: &mut JsonMap) {
    let is_assigner = data.get("type").and_then(Json::as_str) == Some("assigner");
    if is_assigner && data.contains_key("items") {
        data.insert("version".into(), "2".into());
    }
}

pub(super) fn structured_output(data: &mut JsonMap) {
    if let Some(old) = data.shift_remove("structured_output_enabled") {
        data.entry("structured_output_switch_on").or_insert(old);
    }
}

pub(super) fn retry_seconds(data: &mut JsonMap) {
    let Some(config) = data.get_mut("retry_config").and_then(Json::as_object_mut) else { return };
    let Some(seconds) = config.get("retry_interval_seconds").and_then(Json::as_f64).filter(|s| *s >= 0.0)
    else {
        return;
    };
    config.shift_remove("retry_interval_seconds");
    // The cast saturates.
    let ms = (seconds * 1000.0).round() as u64;
    config.entry("retry_interval").or_insert(json!(ms));
}
