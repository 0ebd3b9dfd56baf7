//! What a client that comes later is told first: that the run began, and each node that has. As on Dify without the
//! nodes' values.

use serde_json::Value as Json;

/// Keys that a snapshot's node events do not have on Dify.
const LEFT_OUT: [&str; 4] =
    ["inputs_truncated", "process_data_truncated", "outputs_truncated", "agent_strategy"];
const NULLED: [&str; 3] = ["inputs", "process_data", "outputs"];

/// Gathers payloads of what happened before.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    run: Vec<Json>,
    /// Each execution with its begin and, once there is one, its end.
    nodes: Vec<(Json, Option<Json>)>,
}

impl Snapshot {
    pub(super) fn note(&mut self, payload: Json) {
        match payload["event"].as_str() {
            Some("workflow_started") => self.run.push(payload),
            Some("node_started") => self.nodes.push((bare(payload), None)),
            Some("node_finished") => {
                let id = &payload["data"]["id"];
                let begun = self.nodes.iter().position(|(started, _)| started["data"]["id"] == *id);
                if let Some(at) = begun {
                    self.nodes[at].1 = Some(bare(payload));
                }
            }
            Some(_) | None => {}
        }
    }

    /// The payloads to send.
    pub(super) fn into_payloads(self) -> Vec<Json> {
        let nodes = self.nodes.into_iter().flat_map(|(started, finished)| [Some(started), finished]);
        self.run.into_iter().chain(nodes.flatten()).collect()
    }
}

fn bare(mut payload: Json) -> Json {
    if let Some(data) = payload["data"].as_object_mut() {
        for key in LEFT_OUT {
            data.shift_remove(key);
        }
        for key in NULLED {
            if let Some(value) = data.get_mut(key) {
                *value = Json::Null;
            }
        }
    }
    payload
}
