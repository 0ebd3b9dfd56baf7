//! Warnings of a run, as its last event and the API show them; and dead ends as the state keeps them.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use tidemill_engine::state::control::DeadEnd;
use tidemill_workflow::graph::Graph;
use tidemill_workflow::nodes::FAIL_BRANCH_HANDLE;

/// The code of a branch that led nowhere.
pub const BRANCH_WITHOUT_EDGE: &str = "run.branch_without_edge";

/// Returns the warnings for clients.
pub fn shown(dead_ends: &[DeadEnd], graph: &Graph) -> Vec<Json> {
    dead_ends.iter().map(|end| one(end, graph)).collect()
}

fn one(end: &DeadEnd, graph: &Graph) -> Json {
    let DeadEnd { node: id, handle } = end;
    let title = graph.find(id.as_str()).map_or("", |ix| graph.node(ix).title.as_str());
    let id = id.as_str();
    let name =
        if title.is_empty() || title == id { format!("node {id}") } else { format!("node {id} ({title})") };
    let message = if &**handle == FAIL_BRANCH_HANDLE {
        format!("{name} failed, and no edge has the handle {handle}, so nothing followed the failure")
    } else {
        format!("{name} chose the branch {handle}, and no edge has this handle, so nothing followed")
    };
    json!({
        "code": BRANCH_WITHOUT_EDGE, "node_id": id, "node_title": title, "handle": &**handle, "message": message,
    })
}

/// Writes dead ends into the state.
pub(crate) fn stored(dead_ends: &[DeadEnd]) -> Json {
    dead_ends.iter().map(|end| json!([end.node.as_str(), &*end.handle])).collect()
}

/// Reads dead ends from the state. What cannot be read is left out: a warning must not end a run.
pub(crate) fn read(stored: Option<&Json>) -> Vec<DeadEnd> {
    let items = stored.and_then(Json::as_array).into_iter().flatten();
    let one = |item: &Json| {
        let (node, handle) = (item.get(0)?.as_str()?, item.get(1)?.as_str()?);
        Some(DeadEnd { node: node.into(), handle: Arc::from(handle) })
    };
    items.filter_map(one).collect()
}
