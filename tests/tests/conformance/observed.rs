//! What happened, in the words of the cases.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value as Json, json};
use tidemill_tests::check::{Event, Transcript};

use crate::events;

/// A run at a stop.
pub(crate) struct Observed {
    /// All that was told.
    pub(crate) all: Transcript,
    /// What was told since the stop before.
    pub(crate) since: Transcript,
    /// The run as the API shows it.
    pub(crate) detail: Json,
}

impl Observed {
    /// A field of the run.
    pub(crate) fn field(&self, name: &str) -> Json {
        self.detail[name].clone()
    }

    /// The text of the run's error.
    pub(crate) fn error(&self) -> &str {
        self.detail["error"].as_str().unwrap_or_default()
    }

    /// The final answer; empty when there is none.
    pub(crate) fn answer(&self) -> Json {
        self.detail["outputs"].get("answer").cloned().unwrap_or_else(|| json!(""))
    }

    /// Texts shown since the stop before.
    pub(crate) fn chunks(&self) -> Vec<&str> {
        let chunks = self.since.of_kind("node_run_stream_chunk");
        chunks.filter_map(|event| event.data["chunk"].as_str()).filter(|text| !text.is_empty()).collect()
    }

    /// Reasoning shown since the stop before.
    pub(crate) fn reasoning(&self) -> String {
        let chunks = self.since.of_kind("node_run_reasoning_chunk");
        chunks.filter_map(|event| event.data["chunk"].as_str()).collect()
    }

    /// Nodes of the root: what became of those that ended or paused since, and which were skipped.
    pub(crate) fn node_status(&self) -> Json {
        let mut statuses = Map::new();
        for node in self.detail["nodes"].as_array().into_iter().flatten() {
            let is_root = node["frame"].as_str().is_none_or(str::is_empty);
            if let (true, Some("skipped"), Some(id)) = (is_root, node["status"].as_str(), node["id"].as_str())
            {
                statuses.insert(id.into(), json!("skipped"));
            }
        }
        for event in self.since.events.iter().filter(|event| event.frame().is_empty()) {
            if let (Some(result), Some(node)) = (events::result(&event.kind), event.node()) {
                statuses.insert(node.into(), json!(result));
            }
        }
        Json::Object(statuses)
    }

    /// Nodes inside containers: how often each result was seen since.
    pub(crate) fn node_runs(&self) -> Json {
        let mut runs: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
        for event in self.since.events.iter().filter(|event| !event.frame().is_empty()) {
            if let (Some(result), Some(node)) = (events::result(&event.kind), event.node()) {
                *runs.entry(node).or_default().entry(result).or_default() += 1;
            }
        }
        json!(runs)
    }

    /// Retries per node since.
    pub(crate) fn retries(&self) -> Json {
        let mut retries: BTreeMap<&str, u64> = BTreeMap::new();
        for node in self.since.of_kind("node_run_retry").filter_map(Event::node) {
            *retries.entry(node).or_default() += 1;
        }
        json!(retries)
    }

    /// Whether a node of the root finished before another one started.
    pub(crate) fn in_order(&self, first: &str, second: &str) -> bool {
        let mut finished: HashMap<&str, usize> = HashMap::new();
        let mut started: HashMap<&str, usize> = HashMap::new();
        for (at, event) in self.since.events.iter().enumerate().filter(|(_, event)| event.frame().is_empty())
        {
            let Some(node) = event.node() else { continue };
            if event.kind == "node_run_started" {
                started.entry(node).or_insert(at);
            } else if events::result(&event.kind).is_some() {
                finished.entry(node).or_insert(at);
            }
        }
        matches!((finished.get(first), started.get(second)), (Some(finished), Some(started)) if finished < started)
    }

    /// The sequence of events since.
    pub(crate) fn event_names(&self) -> Vec<String> {
        events::names(&self.all.events, &self.since.events)
    }

    /// What the run waits for.
    pub(crate) fn pause(&self) -> Json {
        let paused = self.since.of_kind("graph_run_paused").last();
        let reasons = paused.and_then(|event| event.data["reasons"].as_array());
        let mut told: Vec<Json> = reasons.into_iter().flatten().map(|reason| match reason.get("message") {
            Some(message) => json!({"type": reason["TYPE"], "message": message}),
            None => json!({"type": reason["TYPE"], "node_id": reason["node_id"], "node_title": reason["node_title"]}),
        }).collect();
        told.sort_by_key(|reason| reason["node_id"].to_string());
        Json::Array(told)
    }

    /// Forms that wait, by node.
    pub(crate) fn forms(&self) -> Json {
        let waits = |pause: &&Json| pause["status"] == "pending";
        let names = |list: &Json, key: &str| -> Vec<Json> {
            list.as_array().into_iter().flatten().map(|item| item[key].clone()).collect()
        };
        let form = |pause: &Json| {
            let actions = pause["actions"].as_array().into_iter().flatten();
            let actions: Vec<Json> = actions.map(|action| json!([action["id"], action["title"]])).collect();
            let form = json!({
                "title": pause["node_title"], "content": pause["content"], "actions": actions,
                "inputs": names(&pause["inputs"], "output_variable_name"), "defaults": pause["defaults"],
            });
            (pause["node_id"].as_str().unwrap_or_default().to_string(), form)
        };
        let pauses = self.detail["pauses"].as_array().into_iter().flatten();
        Json::Object(pauses.filter(waits).map(form).collect())
    }

    /// An entry of a node's process data.
    pub(crate) fn process_data(&self, node: &str, key: &str) -> Option<&Json> {
        self.since.events.iter().filter(|event| event.node() == Some(node)).find_map(|event| {
            event.data.pointer("/node_run_result/process_data").or(event.data.get("process_data"))?.get(key)
        })
    }
}
