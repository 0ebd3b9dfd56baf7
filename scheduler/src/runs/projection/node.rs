//! `node_started`, `node_finished` and `node_retry`.

use serde_json::{Value as Json, json};
use tidemill_common::graph::Node;
use tidemill_common::nodes::{NodeData, NodeKind};
use tidemill_common::wire::event::{EventRecord, kind};
use tidemill_common::wire::expand::of_child;

use crate::runs::end_user;
use crate::runs::projection::container::{is_container, is_hidden};
use crate::runs::projection::enclosing::EnclosingContainers;
use crate::runs::projection::{Projection, field, text};

/// The output with the error of a node whose failure was handled.
const ERROR_MESSAGE: &str = "error_message";

impl Projection {
    /// True when Dify sends node events for the node of this event.
    pub(super) fn tells_node(&self, record: &EventRecord) -> bool {
        self.node(record)
            .is_none_or(|node| !is_hidden(node.kind) && (self.shows_containers || !is_container(node.kind)))
    }

    /// The end of a node that waits, for a snapshot.
    pub(super) fn node_paused(&self, record: &EventRecord) -> Json {
        let data = self.node_end(record, "paused");
        self.envelope("node_finished", data)
    }

    pub(super) fn node_started(&mut self, record: &EventRecord) -> Json {
        let index = self.number(text(record, "id"));
        let (node, containers) = (self.node(record), EnclosingContainers::of(record, &self.graph));
        let mut data = json!({
            "id": text(record, "id"),
            "node_id": text(record, "node_id"),
            "node_type": type_name(node),
            "title": title(node),
            "index": index,
            "predecessor_node_id": null,
            "inputs": null,
            "inputs_truncated": false,
            "created_at": record.ts.div_euclid(1000),
            "extras": {},
            "iteration_id": containers.iteration_id(),
            "loop_id": containers.loop_id(),
            "agent_strategy": node.and_then(strategy),
        });
        // Nodes inside others are an extension, so clients of Dify have no frames of them without these fields.
        if let (Some(child), Json::Object(data)) = (node.and_then(|node| node.child.as_deref()), &mut data) {
            data.extend(of_child(child, &self.graph));
        }
        self.envelope("node_started", data)
    }

    pub(super) fn node_finished(&mut self, record: &EventRecord) -> Json {
        let status = match record.kind.as_str() {
            kind::NODE_RUN_SUCCEEDED => "succeeded",
            kind::NODE_RUN_EXCEPTION => "exception",
            _ => "failed",
        };
        let data = self.node_end(record, status);
        self.envelope("node_finished", data)
    }

    pub(super) fn node_retry(&mut self, record: &EventRecord) -> Json {
        let mut data = self.node_end(record, "retry");
        data["retry_index"] = field(record, "retry_index", 1.into());
        self.envelope("node_retry", data)
    }

    /// A line of an agent's log, new or changed.
    pub(super) fn agent_log(&self, record: &EventRecord) -> Json {
        let entry = record.data.get("data").cloned().unwrap_or_else(|| json!({}));
        let data = json!({
            "node_execution_id": entry["node_execution_id"],
            "id": entry["message_id"],
            "label": entry["label"],
            "parent_id": entry["parent_id"],
            "error": end_user::error(entry["error"].clone()),
            "status": entry["status"],
            "data": entry["data"],
            "metadata": entry["metadata"],
            "node_id": text(record, "node_id"),
        });
        self.envelope("agent_log", data)
    }

    fn node_end(&self, record: &EventRecord, status: &str) -> Json {
        let (node, containers) = (self.node(record), EnclosingContainers::of(record, &self.graph));
        let at = |key: &str| record.data.get(key).and_then(Json::as_f64);
        let finished_at = at("finished_at").unwrap_or(record.ts as f64 / 1000.0);
        let started_at = at("start_at").unwrap_or(finished_at);
        let (outputs, files) = self.with_files(outputs(node, record));
        let is_failure = !["succeeded", "paused"].contains(&status);
        json!({
            "id": text(record, "id"),
            "node_id": text(record, "node_id"),
            "node_type": type_name(node),
            "title": title(node),
            "index": self.index.get(text(record, "id")).copied().unwrap_or(0),
            "predecessor_node_id": null,
            "inputs": field(record, "inputs", json!({})),
            "inputs_truncated": false,
            "process_data": field(record, "process_data", json!({})),
            "process_data_truncated": false,
            "outputs": outputs,
            "outputs_truncated": false,
            "status": status,
            "error": if is_failure { end_user::error(field(record, "error", "".into())) } else { Json::Null },
            "elapsed_time": (finished_at - started_at).max(0.0),
            "execution_metadata": containers.added_to(field(record, "metadata", Json::Null)),
            "created_at": started_at.floor() as i64,
            "finished_at": finished_at.floor() as i64,
            "files": files,
            "iteration_id": containers.iteration_id(),
            "loop_id": containers.loop_id(),
        })
    }

    pub(super) fn node(&self, record: &EventRecord) -> Option<&Node> {
        self.graph.find(text(record, "node_id")).map(|ix| self.graph.node(ix))
    }

    /// The number of an execution. A new execution gets the next number.
    fn number(&mut self, execution: &str) -> u64 {
        let next = self.index.len() as u64 + 1;
        *self.index.entry(execution.to_string()).or_insert(next)
    }
}

/// The outputs of a node, as end users see them. For the start node only the user's inputs, because the engine's event has all variables.
fn outputs(node: Option<&Node>, record: &EventRecord) -> Json {
    let mut outputs = field(record, "outputs", json!({}));
    if node.is_some_and(|node| node.kind == NodeKind::Start)
        && let Some(map) = outputs.as_object_mut()
    {
        let inputs = record.data.get("inputs");
        map.retain(|name, _| inputs.is_some_and(|inputs| inputs.get(name).is_some()));
    }
    // A node whose failure was handled puts its error out.
    if record.kind == kind::NODE_RUN_EXCEPTION
        && let Some(error) = outputs.get_mut(ERROR_MESSAGE)
    {
        *error = end_user::error(error.take());
    }
    outputs
}

pub(super) fn type_name(node: Option<&Node>) -> &'static str {
    node.map_or("", |node| node.kind.wire())
}

pub(super) fn title(node: Option<&Node>) -> &str {
    node.map_or("", |node| node.title.as_str())
}

/// The strategy of an agent; `None` for other nodes.
fn strategy(node: &Node) -> Option<Json> {
    let NodeData::Agent(data) = &node.data else { return None };
    Some(json!({"name": data.strategy_name(), "icon": null}))
}
