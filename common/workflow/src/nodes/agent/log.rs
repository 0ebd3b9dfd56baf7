//! The log of an agent: its rounds, shown to a reader of the run while they happen (Dify's agent logs).
//!
//! Events and metadata are part of every fact and state of the node, so [`TextBudget`] bounds them. The output `json` has
//! the whole log; it becomes a blob when it is large.

use serde_json::{Value as Json, json};
use uuid::Uuid;

use tidemill_base::ids::ExecutionId;
use tidemill_base::limits::{AGENT_LOG_BYTES_MAX, AGENT_LOG_LINE_BYTES_MAX, AGENT_LOG_TEXT_BYTES_MAX};
use tidemill_base::value::JsonMap;

/// Status of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStatus {
    Start,
    Success,
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

/// A line of the log. A later line with the same id replaces the earlier one.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentLog {
    /// Derived from the execution and the line's place in it, so that a retried job sends the same lines.
    pub id: String,
    /// The id of the line above it.
    pub parent: Option<String>,
    /// For example `ROUND 1`, `CALL search`.
    pub label: String,
    pub status: LogStatus,
    pub error: Option<String>,
    /// Input and output.
    pub data: JsonMap,
    /// Times and cost.
    pub metadata: JsonMap,
}

impl AgentLog {
    /// A line for work that begins. `place` is unique within the execution.
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

    /// Puts the line below another.
    #[must_use]
    pub fn below(mut self, parent: &Self) -> Self {
        self.parent = Some(parent.id.clone());
        self
    }

    /// Sets the line's data.
    #[must_use]
    pub fn with(mut self, data: Json) -> Self {
        self.data = data.as_object().cloned().unwrap_or_default();
        self
    }

    /// Marks the line as done.
    #[must_use]
    pub fn done(mut self, data: Json, metadata: JsonMap) -> Self {
        self.status = LogStatus::Success;
        self.metadata = metadata;
        self.with(data)
    }

    /// Marks the line as failed.
    #[must_use]
    pub fn failed(mut self, error: impl Into<String>, metadata: JsonMap) -> Self {
        self.status = LogStatus::Error;
        self.error = Some(error.into());
        self.metadata = metadata;
        self
    }

    /// The line as an event; long values are cut.
    pub fn event(&self, execution: &ExecutionId, node: &str) -> JsonMap {
        let mut room = TextBudget::of_a_line();
        let error = self.error.as_deref().map(|error| room.text(error));
        let event = json!({
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
        event.as_object().cloned().unwrap_or_default()
    }

    /// The line in the output `json`, complete.
    pub fn output(&self, node: &str) -> Json {
        self.listed(node, &self.error, Json::Object(self.data.clone()))
    }

    /// The line in the metadata, cut to the remaining room.
    fn to_json(&self, node: &str, all: &mut TextBudget) -> Json {
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

/// The log so far, one entry per line id.
#[derive(Debug, Clone, Default)]
pub struct Logs(Vec<AgentLog>);

impl Logs {
    /// Adds a line, or replaces the line with the same id.
    pub fn note(&mut self, log: AgentLog) {
        match self.0.iter_mut().find(|known| known.id == log.id) {
            Some(known) => *known = log,
            None => self.0.push(log),
        }
    }

    /// All lines in the order in which they began.
    pub fn outputs(&self, node: &str) -> Vec<Json> {
        self.0.iter().map(|log| log.output(node)).collect()
    }

    /// The lines for the metadata: long values are cut, and lines beyond the room are left out.
    pub fn to_json(&self, node: &str) -> Vec<Json> {
        let mut room = TextBudget { left: AGENT_LOG_BYTES_MAX };
        let mut shown = Vec::with_capacity(self.0.len());
        for log in &self.0 {
            if room.left == 0 {
                break;
            }
            shown.push(log.to_json(node, &mut room));
        }
        shown
    }
}

/// Approximate bytes of a line without its texts.
const LINE_BYTES: usize = 512;
/// Approximate bytes of a value without its texts.
const VALUE_BYTES: usize = 8;

/// The remaining bytes for shown texts.
#[derive(Debug)]
pub struct TextBudget {
    left: usize,
}

impl TextBudget {
    /// Room for one line of the log.
    pub fn of_a_line() -> Self {
        Self { left: AGENT_LOG_LINE_BYTES_MAX }
    }

    fn part(&self, bytes_max: usize) -> Self {
        Self { left: self.left.min(bytes_max) }
    }

    fn take(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }

    /// A text, cut if necessary; a cut text ends with its original length.
    pub fn text(&mut self, text: &str) -> String {
        let room = self.left.min(AGENT_LOG_TEXT_BYTES_MAX);
        self.take(text.len().min(room));
        if text.len() <= room {
            return text.to_owned();
        }
        let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        format!("{}… ({} bytes)", &text[..end], text.len())
    }

    /// A value, cut if necessary.
    pub fn value(&mut self, value: &Json) -> Json {
        self.take(VALUE_BYTES);
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
            plain @ (Json::Null | Json::Bool(_) | Json::Number(_)) => plain.clone(),
        }
    }

    /// A mapping, cut if necessary.
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
    fn short_values_are_shown_unchanged() {
        let mut logs = Logs::default();
        logs.note(line(1, "sunny"));
        logs.note(line(2, "").failed("broken", JsonMap::new()));
        assert_eq!(logs.to_json("a"), logs.outputs("a"));
        let event = line(1, "sunny").event(&execution(), "a");
        assert_eq!(event["data"]["output"], json!({"tool_call_name": "f", "tool_response": "sunny"}));
    }

    #[test]
    fn long_values_are_cut_in_events_and_metadata_and_whole_in_the_output() {
        let long = "ä".repeat(900 * 1024 / 2);
        let mut logs = Logs::default();
        (0..10).for_each(|at| logs.note(line(at, &long)));
        logs.note(line(10, "").failed(long.clone(), JsonMap::new()));
        let event = line(1, &long).event(&execution(), "a");
        let shown = event["data"]["output"]["tool_response"].as_str().unwrap();
        assert!(shown.len() < AGENT_LOG_TEXT_BYTES_MAX + 30, "{}", shown.len());
        assert!(shown.ends_with("… (921600 bytes)"), "{shown}");
        let listed = logs.to_json("a");
        let size = Json::Array(listed.clone()).to_string().len();
        assert!(listed.len() == 11 && size < 12 * (AGENT_LOG_TEXT_BYTES_MAX + LINE_BYTES), "{size}");
        assert_eq!(logs.outputs("a")[3]["data"]["output"]["tool_response"], long);
    }

    #[test]
    fn neither_a_line_nor_the_whole_log_grows_without_bound() {
        let many: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
        let mut log = line(0, "");
        log.data = JsonMap::from_iter([("many".to_owned(), json!(many)), ("more".to_owned(), json!("x"))]);
        let event = Json::Object(log.event(&execution(), "a")).to_string();
        assert!(event.len() < 3 * AGENT_LOG_LINE_BYTES_MAX, "{}", event.len());
        let mut logs = Logs::default();
        (0..10_000).for_each(|at| logs.note(line(at, "x")));
        let shown = Json::Array(logs.to_json("a")).to_string();
        assert!(shown.len() < 2 * AGENT_LOG_BYTES_MAX, "{}", shown.len());
    }
}
