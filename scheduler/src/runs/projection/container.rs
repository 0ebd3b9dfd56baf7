//! `iteration_*` and `loop_*`. On Dify a container has these events instead of `node_started` and `node_finished`, and
//! the start nodes of its rounds have no events.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::NodeKind;
use tidemill_common::wire::event::EventRecord;

use crate::runs::end_user;
use crate::runs::projection::{Projection, field, node, text};

/// The prefix of an iteration's event types, and Dify's word for it.
const ITERATION: (&str, &str) = ("node_run_iteration_", "iteration");
/// The prefix of a loop's event types, and Dify's word for it.
const LOOP: (&str, &str) = ("node_run_loop_", "loop");

/// True when Dify sends no node events for this kind of node.
pub(super) fn is_container(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::Iteration | NodeKind::Loop)
}

/// True when Dify sends no events at all for this kind of node.
pub(super) fn is_hidden(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::IterationStart | NodeKind::LoopStart)
}

impl Projection {
    /// The payload for a container's event; `None` for other events.
    pub(super) fn container(&self, record: &EventRecord) -> Option<Json> {
        let family = |(prefix, word): (&str, &'static str)| Some((record.kind.strip_prefix(prefix)?, word));
        let (what, word) = family(ITERATION).or_else(|| family(LOOP))?;
        let (event, data) = match what {
            "started" => ("started", self.container_started(record)),
            "next" => ("next", self.container_next(record, word)),
            "succeeded" => ("completed", self.container_completed(record, "succeeded")),
            "failed" => ("completed", self.container_completed(record, "failed")),
            // An event of a newer version.
            _ => return None,
        };
        Some(self.envelope(&format!("{word}_{event}"), data))
    }

    fn container_started(&self, record: &EventRecord) -> Json {
        let node = self.node(record);
        json!({
            "id": text(record, "node_id"),
            "node_id": text(record, "node_id"),
            "node_type": node::type_name(node),
            "title": node::title(node),
            "created_at": record.ts.div_euclid(1000),
            "extras": {},
            "metadata": field(record, "metadata", json!({})),
            "inputs": field(record, "inputs", json!({})),
            "inputs_truncated": false,
        })
    }

    fn container_next(&self, record: &EventRecord, word: &str) -> Json {
        let node = self.node(record);
        let mut data = json!({
            "id": text(record, "node_id"),
            "node_id": text(record, "node_id"),
            "node_type": node::type_name(node),
            "title": node::title(node),
            "index": field(record, "index", 0.into()),
            "created_at": record.ts.div_euclid(1000),
        });
        if word == LOOP.1 {
            data["pre_loop_output"] = field(record, "pre_loop_output", json!({}));
        }
        data["extras"] = json!({});
        data
    }

    fn container_completed(&self, record: &EventRecord, status: &str) -> Json {
        let node = self.node(record);
        let at = |key: &str| record.data.get(key).and_then(Json::as_f64);
        let finished_at = at("finished_at").unwrap_or(record.ts as f64 / 1000.0);
        let started_at = at("start_at").unwrap_or(finished_at);
        let metadata = field(record, "metadata", json!({}));
        let tokens = metadata.get("total_tokens").cloned().unwrap_or_else(|| 0.into());
        json!({
            "id": text(record, "node_id"),
            "node_id": text(record, "node_id"),
            "node_type": node::type_name(node),
            "title": node::title(node),
            "outputs": field(record, "outputs", json!({})),
            "outputs_truncated": false,
            "created_at": started_at.floor() as i64,
            "extras": {},
            "inputs": field(record, "inputs", json!({})),
            "inputs_truncated": false,
            "status": status,
            // Dify sends null, but its documentation promises the text.
            "error": if status == "failed" { end_user::error(field(record, "error", "".into())) } else { Json::Null },
            "elapsed_time": (finished_at - started_at).max(0.0),
            "total_tokens": tokens,
            "execution_metadata": metadata,
            "finished_at": finished_at.floor() as i64,
            "steps": field(record, "steps", 0.into()),
        })
    }
}
