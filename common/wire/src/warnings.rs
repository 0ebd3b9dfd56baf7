//! Warnings of a run, as its last event and the API show them, and as the state keeps them.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use tidemill_base::value::JsonMap;
use tidemill_engine::state::control::{DeadEnd, Dropped, Warnings};
use tidemill_workflow::graph::Graph;
use tidemill_workflow::nodes::FAIL_BRANCH_HANDLE;

/// The code of a branch that led nowhere.
pub const BRANCH_WITHOUT_EDGE: &str = "run.branch_without_edge";
/// The code of an operation on a conversation variable that was not applied.
pub const OPERATION_DROPPED: &str = "run.operation_dropped";

const DEAD_ENDS: &str = "dead_ends";
const DROPPED: &str = "dropped";

/// Returns the warnings for clients.
pub fn shown(warnings: &Warnings, graph: &Graph) -> Vec<Json> {
    let dead_ends = warnings.dead_ends.iter().map(|end| dead_end(end, graph));
    dead_ends.chain(warnings.dropped.iter().map(|one| dropped(one, graph))).collect()
}

/// A node's title, and the words that name it in a message.
fn names(id: &str, graph: &Graph) -> (String, String) {
    let title = graph.find(id).map_or("", |ix| graph.node(ix).title.as_str()).to_string();
    let name =
        if title.is_empty() || title == id { format!("node {id}") } else { format!("node {id} ({title})") };
    (title, name)
}

fn dead_end(end: &DeadEnd, graph: &Graph) -> Json {
    let DeadEnd { node: id, handle } = end;
    let (title, name) = names(id.as_str(), graph);
    let message = if &**handle == FAIL_BRANCH_HANDLE {
        format!("{name} failed, and no edge has the handle {handle}, so nothing followed the failure")
    } else {
        format!("{name} chose the branch {handle}, and no edge has this handle, so nothing followed")
    };
    json!({
        "code": BRANCH_WITHOUT_EDGE, "node_id": id, "node_title": title, "handle": &**handle, "message": message,
    })
}

fn dropped(one: &Dropped, graph: &Graph) -> Json {
    let Dropped { node: id, variable, operation } = one;
    let (title, name) = names(id.as_str(), graph);
    let message = if operation.is_empty() {
        format!(
            "operations of items of {name} on the large conversation variable {variable} were not applied, because the \
             run ended before or the job for it failed; the variable has the value that the last of these items saw"
        )
    } else {
        format!(
            "an item of {name} applied {operation} to the conversation variable {variable}, but when the item ended, \
             the variable had a value that the operation does not fit, so it was left out"
        )
    };
    json!({
        "code": OPERATION_DROPPED, "node_id": id, "node_title": title, "variable": &**variable,
        "operation": &**operation, "message": message,
    })
}

/// Adds the warnings to a map of the state.
pub(crate) fn store(warnings: &Warnings, map: &mut JsonMap) {
    if !warnings.dead_ends.is_empty() {
        let pairs = warnings.dead_ends.iter().map(|end| json!([end.node.as_str(), &*end.handle]));
        map.insert(DEAD_ENDS.into(), pairs.collect());
    }
    if !warnings.dropped.is_empty() {
        let of = |one: &Dropped| json!([one.node.as_str(), &*one.variable, &*one.operation]);
        map.insert(DROPPED.into(), warnings.dropped.iter().map(of).collect());
    }
}

/// Reads the warnings from a map of the state. What cannot be read is left out: a warning must not end a run.
pub(crate) fn read(map: &JsonMap) -> Warnings {
    let items = |key: &str| map.get(key).and_then(Json::as_array).into_iter().flatten();
    let text = |item: &Json, at: usize| item.get(at)?.as_str().map(Arc::<str>::from);
    let dead_end = |item: &Json| Some(DeadEnd { node: (&*text(item, 0)?).into(), handle: text(item, 1)? });
    let dropped = |item: &Json| {
        Some(Dropped { node: (&*text(item, 0)?).into(), variable: text(item, 1)?, operation: text(item, 2)? })
    };
    Warnings {
        dead_ends: items(DEAD_ENDS).filter_map(dead_end).collect(),
        dropped: items(DROPPED).filter_map(dropped).collect(),
    }
}
