//! The observed results of a run, in the form of the cases.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value as Json, json};
use tidemill_tests::check::{Event, Transcript};

use crate::events;

/// A run at a stop.
pub(crate) struct Observed {
    /// All events.
    pub(crate) all: Transcript,
    /// The events since the last stop.
    pub(crate) since: Transcript,
    /// The run as returned by the API.
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

    /// Texts streamed since the last stop.
    pub(crate) fn chunks(&self) -> Vec<&str> {
        let chunks = self.since.of_kind("node_run_stream_chunk");
        chunks.filter_map(|event| event.data["chunk"].as_str()).filter(|text| !text.is_empty()).collect()
    }

    /// Reasoning streamed since the last stop.
    pub(crate) fn reasoning(&self) -> String {
        let chunks = self.since.of_kind("node_run_reasoning_chunk");
        chunks.filter_map(|event| event.data["chunk"].as_str()).collect()
    }

    /// The status of nodes in the root frame: those that ended or paused since the last stop, and skipped ones.
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

    /// For nodes inside containers: how often each result appeared since the last stop.
    pub(crate) fn node_runs(&self) -> Json {
        let mut runs: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
        for event in self.since.events.iter().filter(|event| !event.frame().is_empty()) {
            if let (Some(result), Some(node)) = (events::result(&event.kind), event.node()) {
                *runs.entry(node).or_default().entry(result).or_default() += 1;
            }
        }
        json!(runs)
    }

    /// Retries of each node since the last stop.
    pub(crate) fn retries(&self) -> Json {
        let mut retries: BTreeMap<&str, u64> = BTreeMap::new();
        for node in self.since.of_kind("node_run_retry").filter_map(Event::node) {
            *retries.entry(node).or_default() += 1;
        }
        json!(retries)
    }

    /// Returns true when a node in the root frame finished before another one started.
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

    /// The names of the events since the last stop.
    pub(crate) fn event_names(&self) -> Vec<String> {
        events::names(&self.all.events, &self.since.events)
    }

    /// The reason why the run is paused.
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

    /// Forms that wait for an answer, by node.
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
