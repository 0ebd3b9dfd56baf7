//! The log of an agent: what a reader of the run sees of its rounds, as it happens (Dify's agent logs).

use serde_json::{Value as Json, json};
use uuid::Uuid;

use crate::ids::ExecutionId;
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

    /// As its event tells it.
    pub fn event(&self, execution: &ExecutionId, node: &str) -> JsonMap {
        let told = json!({
            "message_id": self.id,
            "node_execution_id": execution.to_string(),
            "parent_id": self.parent,
            "label": self.label,
            "status": self.status.name(),
            "error": self.error,
            "data": self.data,
            "metadata": self.metadata,
            "node_id": node,
        });
        told.as_object().cloned().unwrap_or_default()
    }

    /// As the output `json` lists it.
    pub fn output(&self, node: &str) -> Json {
        json!({
            "id": self.id,
            "parent_id": self.parent,
            "error": self.error,
            "status": self.status.name(),
            "data": self.data,
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
}
