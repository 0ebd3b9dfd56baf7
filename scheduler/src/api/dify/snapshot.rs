//! The first frames for a client that joins later: that the run began, each node that has begun or ended, and the forms
//! that the run waits for. The nodes' values are left out, as on Dify.

use serde_json::Value as Json;

/// Keys that node events in a snapshot lack, as on Dify.
const LEFT_OUT: [&str; 4] =
    ["inputs_truncated", "process_data_truncated", "outputs_truncated", "agent_strategy"];
const NULLED: [&str; 3] = ["inputs", "process_data", "outputs"];

/// Collects the payloads of earlier events.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    run: Option<Json>,
    /// The payload of each execution's start and, once there is one, of its end.
    nodes: Vec<(Json, Option<Json>)>,
    /// All forms so far.
    forms: Vec<Json>,
    /// The payload of the current pause.
    paused: Option<Json>,
}

impl Snapshot {
    pub(super) fn note(&mut self, payload: Json) {
        match payload["event"].as_str() {
            Some("workflow_started") => {
                self.paused = None;
                self.run.get_or_insert(payload);
            }
            Some("workflow_paused") => self.paused = Some(payload),
            Some("human_input_required") => self.forms.push(payload),
            Some("node_started") => match self.started_index(&payload) {
                // The node continues after a pause.
                Some(at) => self.nodes[at].1 = None,
                None => self.nodes.push((bare(payload), None)),
            },
            Some("node_finished") => {
                if let Some(at) = self.started_index(&payload) {
                    self.nodes[at].1 = Some(bare(payload));
                }
            }
            Some(_) | None => {}
        }
    }

    /// True when the run waits for a person.
    pub(super) fn is_waiting(&self) -> bool {
        self.paused.is_some()
    }

    /// The payloads to send. `text` is the text that a chat has shown so far.
    pub(super) fn into_payloads(self, text: Option<Json>) -> Vec<Json> {
        let Self { run, nodes, forms, paused } = self;
        let nodes = nodes.into_iter().flat_map(|(started, finished)| [Some(started), finished]);
        let reasons = paused.as_ref().and_then(|paused| paused["data"]["reasons"].as_array().cloned());
        let is_asked = |form: &Json| {
            let ids = reasons.iter().flatten().map(|reason| &reason["form_id"]);
            ids.into_iter().any(|id| *id == form["data"]["form_id"])
        };
        let forms: Vec<Json> = forms.into_iter().filter(is_asked).collect();
        run.into_iter().chain(text).chain(nodes.flatten()).chain(forms).chain(paused).collect()
    }

    fn started_index(&self, payload: &Json) -> Option<usize> {
        let id = &payload["data"]["id"];
        self.nodes.iter().position(|(started, _)| started["data"]["id"] == *id)
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
