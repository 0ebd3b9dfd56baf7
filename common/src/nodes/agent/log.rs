//! The log of an agent: what a reader of the run sees of its rounds, as it happens (Dify's agent logs).
//!
//! Events and metadata travel with every fact and state of the node, so [`Room`] bounds what they show; the output `json`,
//! which is stored apart when it is large, has all of it.

use serde_json::{Value as Json, json};
use uuid::Uuid;

use crate::ids::ExecutionId;
use crate::limits::{AGENT_LOG_BYTES_MAX, AGENT_LOG_LINE_BYTES_MAX, AGENT_LOG_TEXT_BYTES_MAX};
use crate::value::JsonMap;

/// How a line of the log stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStatus {
    /// Under way.
    Start,
    /// Done.
    Success,
    /// Failed.
    Error,
}

impl LogStatus {
    /// Dify's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Success => "success",
            Self::Error => "error",
        }
    }
}

/// A line of the log. The same id told again is the same line, as it stands now.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentLog {
    /// Follows from the execution and the place in it, so that a job that is done again tells the same lines.
    pub id: String,
    /// The line that it belongs to.
    pub parent: Option<String>,
    /// What it is: `ROUND 1`, `CALL search`.
    pub label: String,
    /// How it stands.
    pub status: LogStatus,
    /// Why it failed.
    pub error: Option<String>,
    /// What went in and what came out.
    pub data: JsonMap,
    /// Times and cost.
    pub metadata: JsonMap,
}

impl AgentLog {
    /// A line that begins. `place` is unique within the execution.
    pub fn begun(execution: &ExecutionId, place: &str, label: impl Into<String>) -> Self {
        let name = format!("{execution}/{place}");
        Self {
            id: Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()).to_string(),
            parent: None,
            label: label.into(),
            status: LogStatus::Start,
            error: None,
            data: JsonMap::new(),
            metadata: JsonMap::new(),
        }
    }

    /// Below another line.
    #[must_use]
    pub fn below(mut self, parent: &Self) -> Self {
        self.parent = Some(parent.id.clone());
        self
    }

    /// With what went in.
    #[must_use]
    pub fn with(mut self, data: Json) -> Self {
        self.data = data.as_object().cloned().unwrap_or_default();
        self
    }

    /// The same line, done.
    #[must_use]
    pub fn done(mut self, data: Json, metadata: JsonMap) -> Self {
        self.status = LogStatus::Success;
        self.metadata = metadata;
        self.with(data)
    }

    /// The same line, failed.
    #[must_use]
    pub fn failed(mut self, error: impl Into<String>, metadata: JsonMap) -> Self {
        self.status = LogStatus::Error;
        self.error = Some(error.into());
        self.metadata = metadata;
        self
    }

    /// As its event tells it: what is long is cut.
    pub fn event(&self, execution: &ExecutionId, node: &str) -> JsonMap {
        let mut room = Room::of_a_line();
        let error = self.error.as_deref().map(|error| room.text(error));
        let told = json!({
            "message_id": self.id,
            "node_execution_id": execution.to_string(),
            "parent_id": self.parent,
            "label": self.label,
            "status": self.status.name(),
            "error": error,
            "data": room.map(&self.data),
            "metadata": self.metadata,
            "node_id": node,
        });
        told.as_object().cloned().unwrap_or_default()
    }

    /// As the output `json` lists it: whole.
    pub fn output(&self, node: &str) -> Json {
        self.listed(node, &self.error, Json::Object(self.data.clone()))
    }

    /// As the metadata list it, in what is left of their room.
    fn shown(&self, node: &str, all: &mut Room) -> Json {
        let mut room = all.part(AGENT_LOG_LINE_BYTES_MAX);
        let before = room.left;
        let error = self.error.as_deref().map(|error| room.text(error));
        let listed = self.listed(node, &error, room.map(&self.data));
        all.take(before - room.left + LINE_BYTES);
        listed
    }

    fn listed(&self, node: &str, error: &Option<String>, data: Json) -> Json {
        json!({
            "id": self.id,
            "parent_id": self.parent,
            "error": error,
            "status": self.status.name(),
            "data": data,
            "label": self.label,
            "metadata": self.metadata,
            "node_id": node,
        })
    }
}

/// The log so far: a line told again takes its own place.
#[derive(Debug, Clone, Default)]
pub struct Logs(Vec<AgentLog>);

impl Logs {
    /// Notes a line.
    pub fn note(&mut self, log: AgentLog) {
        match self.0.iter_mut().find(|known| known.id == log.id) {
            Some(known) => *known = log,
            None => self.0.push(log),
        }
    }

    /// All lines, in the order in which they began.
    pub fn outputs(&self, node: &str) -> Vec<Json> {
        self.0.iter().map(|log| log.output(node)).collect()
    }

    /// The same for the metadata: what is long is cut, and what is too much left out.
    pub fn shown(&self, node: &str) -> Vec<Json> {
        let mut room = Room { left: AGENT_LOG_BYTES_MAX };
        let mut shown = Vec::with_capacity(self.0.len());
        for log in &self.0 {
            if room.left == 0 {
                break;
            }
            shown.push(log.shown(node, &mut room));
        }
        shown
    }
}

/// About what a line weighs without its texts.
const LINE_BYTES: usize = 512;
/// About what a value weighs that is no text.
const VALUE_BYTES: usize = 8;

/// What is left for the texts of something that is shown.
#[derive(Debug)]
pub struct Room {
    left: usize,
}

impl Room {
    /// For a line of the log, or as much as one.
    pub fn of_a_line() -> Self {
        Self { left: AGENT_LOG_LINE_BYTES_MAX }
    }

    fn part(&self, bytes_max: usize) -> Self {
        Self { left: self.left.min(bytes_max) }
    }

    fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// A text as it is shown; one that is cut says how long it was.
    pub fn text(&mut self, text: &str) -> String {
        let room = self.left.min(AGENT_LOG_TEXT_BYTES_MAX);
        self.take(text.len().min(room));
        if text.len() <= room {
            return text.to_owned();
        }
        let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        format!("{}… ({} bytes)", &text[..end], text.len())
    }

    /// A value as it is shown.
    pub fn value(&mut self, value: &Json) -> Json {
        match value {
            Json::String(text) => Json::String(self.text(text)),
            Json::Array(items) => {
                let mut shown = Vec::new();
                for (at, item) in items.iter().enumerate() {
                    if self.left == 0 {
                        shown.push(format!("… ({} more)", items.len() - at).into());
                        break;
                    }
                    shown.push(self.value(item));
                }
                Json::Array(shown)
            }
            Json::Object(map) => self.map(map),
            plain @ (Json::Null | Json::Bool(_) | Json::Number(_)) => {
                self.take(VALUE_BYTES);
                plain.clone()
            }
        }
    }

    /// A mapping as it is shown.
    pub fn map(&mut self, map: &JsonMap) -> Json {
        let mut shown = JsonMap::new();
        for (at, (name, value)) in map.iter().enumerate() {
            if self.left == 0 {
                shown.insert("…".into(), format!("{} more", map.len() - at).into());
                break;
            }
            self.take(name.len());
            shown.insert(name.clone(), self.value(value));
        }
        Json::Object(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execution() -> ExecutionId {
        serde_json::from_value(json!("00000000-0000-0000-0000-000000000001")).unwrap()
    }

    fn line(at: usize, text: &str) -> AgentLog {
        let log = AgentLog::begun(&execution(), &format!("tool:{at}"), "CALL f");
        log.done(json!({"output": {"tool_call_name": "f", "tool_response": text}}), JsonMap::new())
    }

    #[test]
    fn what_is_short_is_shown_as_it_is() {
        let mut logs = Logs::default();
        logs.note(line(1, "sunny"));
        logs.note(line(2, "").failed("broken", JsonMap::new()));
        assert_eq!(logs.shown("a"), logs.outputs("a"));
        let told = line(1, "sunny").event(&execution(), "a");
        assert_eq!(told["data"]["output"], json!({"tool_call_name": "f", "tool_response": "sunny"}));
    }

    #[test]
    fn what_is_long_is_cut_in_events_and_metadata_and_whole_in_the_output() {
        let long = "ä".repeat(900 * 1024 / 2);
        let mut logs = Logs::default();
        (0..10).for_each(|at| logs.note(line(at, &long)));
        logs.note(line(10, "").failed(long.clone(), JsonMap::new()));
        let told = line(1, &long).event(&execution(), "a");
        let shown = told["data"]["output"]["tool_response"].as_str().unwrap();
        assert!(shown.len() < AGENT_LOG_TEXT_BYTES_MAX + 30, "{}", shown.len());
        assert!(shown.ends_with("… (921600 bytes)"), "{shown}");
        let listed = logs.shown("a");
        let size = Json::Array(listed.clone()).to_string().len();
        assert!(listed.len() == 11 && size < 12 * (AGENT_LOG_TEXT_BYTES_MAX + LINE_BYTES), "{size}");
        assert_eq!(logs.outputs("a")[3]["data"]["output"]["tool_response"], long);
    }

    #[test]
    fn neither_a_line_nor_the_whole_log_grows_without_bound() {
        let many: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
        let mut log = line(0, "");
        log.data = JsonMap::from_iter([("many".to_owned(), json!(many)), ("more".to_owned(), json!("x"))]);
        let told = Json::Object(log.event(&execution(), "a")).to_string();
        assert!(told.len() < 3 * AGENT_LOG_LINE_BYTES_MAX, "{}", told.len());
        let mut logs = Logs::default();
        (0..10_000).for_each(|at| logs.note(line(at, "x")));
        let shown = Json::Array(logs.shown("a")).to_string();
        assert!(shown.len() < 2 * AGENT_LOG_BYTES_MAX, "{}", shown.len());
    }
}
