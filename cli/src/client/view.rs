//! A run as the scheduler shows it, as far as it is shown to people. Everything may be absent, so that an older
//! command can still show what a newer scheduler tells.

use serde::Deserialize;
use serde_json::Value as Json;

/// A run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RunView {
    pub(crate) id: String,
    pub(crate) workflow: Option<Json>,
    pub(crate) mode: Option<String>,
    pub(crate) app: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) status: String,
    pub(crate) user: Option<String>,
    pub(crate) inputs: Option<Json>,
    pub(crate) outputs: Option<Json>,
    pub(crate) error: Option<String>,
    pub(crate) created_at: Option<f64>,
    pub(crate) elapsed_time: Option<f64>,
    pub(crate) total_steps: Option<u64>,
    pub(crate) total_tokens: Option<u64>,
    pub(crate) exceptions_count: Option<u64>,
    pub(crate) nodes: Vec<NodeView>,
}

/// A node of a run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeView {
    pub(crate) id: String,
    pub(crate) frame: Option<String>,
    pub(crate) title: Option<String>,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) status: String,
    pub(crate) attempt: Option<u64>,
    pub(crate) started_at: Option<f64>,
    pub(crate) finished_at: Option<f64>,
    pub(crate) job: Option<String>,
    pub(crate) error: Option<String>,
}

impl RunView {
    /// Reads what it can.
    pub(crate) fn read(run: &Json) -> Self {
        Self::deserialize(run).unwrap_or_else(|_| Self {
            id: run["id"].as_str().unwrap_or("").into(),
            status: run["status"].as_str().unwrap_or("").into(),
            error: run["error"].as_str().map(Into::into),
            outputs: run.get("outputs").cloned(),
            ..Self::default()
        })
    }
    /// The workflow's name, however it is told.
    pub(crate) fn workflow_name(&self) -> String {
        match &self.workflow {
            Some(Json::String(name)) => name.clone(),
            Some(Json::Object(map)) => map.get("name").and_then(Json::as_str).unwrap_or("").into(),
            Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_)) | None => String::new(),
        }
    }
}

/// Whether a status is a last one.
pub(crate) fn has_ended(status: &str) -> bool {
    ["succeeded", "partial-succeeded", "failed", "stopped"].contains(&status)
}

/// Whether a status is a good end.
pub(crate) fn has_succeeded(status: &str) -> bool {
    ["succeeded", "partial-succeeded"].contains(&status)
}
