//! Runs as the scheduler returns them, with the fields that the command shows. Every field may be absent, so that an
//! older command can still show the answers of a newer scheduler.

use serde::Deserialize;
use serde_json::{Map, Value as Json};
use tidemill_common::nodes::{PauseKind, PauseRequest};

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
    pub(crate) working_time: Option<f64>,
    pub(crate) total_steps: Option<u64>,
    pub(crate) total_tokens: Option<u64>,
    pub(crate) total_price: Option<String>,
    pub(crate) currency: Option<String>,
    /// Paid for replies that could not be used. Not part of the totals above.
    pub(crate) wasted_tokens: Option<u64>,
    pub(crate) wasted_price: Option<String>,
    pub(crate) wasted_currency: Option<String>,
    pub(crate) exceptions_count: Option<u64>,
    /// The id of the API key that pays for the run.
    pub(crate) key: Option<String>,
    pub(crate) labels: std::collections::BTreeMap<String, String>,
    /// Things that the author may not have meant.
    pub(crate) warnings: Vec<WarningView>,
    pub(crate) nodes: Vec<NodeView>,
    /// Costs, one entry per model, per sub-workflow run or per tool.
    pub(crate) models: Vec<SpentView>,
    pub(crate) pauses: Vec<PauseView>,
    pub(crate) caller: Option<CallView>,
    pub(crate) calls: Vec<CallView>,
    pub(crate) calls_count: u64,
    /// Lists of messages by name.
    pub(crate) lists: std::collections::BTreeMap<String, ListView>,
}

/// A warning of a run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WarningView {
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// A list of messages in the summary of a run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListView {
    pub(crate) message_count: u64,
    pub(crate) stored_count: u64,
    pub(crate) current_batch: u64,
    pub(crate) version: u64,
    pub(crate) token_usage: Json,
}

/// A link between a run and a sub-workflow run: either the parent or a child.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CallView {
    pub(crate) run: String,
    pub(crate) node: String,
    pub(crate) frame: Option<String>,
    pub(crate) app: Option<String>,
    pub(crate) error: Option<String>,
}

impl CallView {
    /// The path of the calling node: its frame and id.
    pub(crate) fn location(&self) -> String {
        match self.frame.as_deref() {
            None | Some("") => self.node.clone(),
            Some(frame) => format!("{frame}/{}", self.node),
        }
    }
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
    /// The worker that failed.
    pub(crate) worker: Option<String>,
    pub(crate) parked: Option<String>,
    /// The queue that its job waits in.
    pub(crate) waits: Option<WaitView>,
    pub(crate) tokens: Option<u64>,
    pub(crate) price: Option<String>,
    pub(crate) currency: Option<String>,
}

/// The wait of a node in a queue.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WaitView {
    pub(crate) queue: String,
    /// `None` for a job of an older version.
    pub(crate) seconds: Option<f64>,
    /// `None` when that is unknown.
    pub(crate) served: Option<bool>,
    pub(crate) before: u64,
    pub(crate) before_is_least: bool,
    /// The worker that has taken the job and has not reported its start yet.
    pub(crate) held_by: Option<String>,
}

/// Costs of a model, of sub-workflow runs or of tools within one run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SpentView {
    pub(crate) kind: String,
    pub(crate) provider: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) calls: u64,
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
    pub(crate) total_tokens: u64,
    /// Number of calls whose reply could not be used.
    pub(crate) wasted_calls: u64,
    pub(crate) total_price: Option<String>,
    pub(crate) currency: Option<String>,
}

/// A pause of a run: a question to a person, open or closed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PauseView {
    pub(crate) pause_id: String,
    pub(crate) node_id: String,
    pub(crate) node_title: String,
    pub(crate) frame: Option<String>,
    pub(crate) kind: String,
    prompt: String,
    schema: Json,
    options: Json,
    pub(crate) content: String,
    pub(crate) message: String,
    inputs: Json,
    actions: Json,
    defaults: Json,
    pub(crate) status: String,
    pub(crate) opened_at: Option<f64>,
    pub(crate) expires_at: Option<f64>,
    pub(crate) answer: Option<Json>,
    /// All other fields; they are shown too.
    #[serde(flatten)]
    details: Map<String, Json>,
}

/// A field of a form.
#[derive(Debug, Clone)]
pub(crate) struct FieldView {
    pub(crate) name: String,
    /// `paragraph`, `select`, `file` or `file-list`.
    pub(crate) kind: String,
    /// The choices of a select.
    pub(crate) options: Vec<String>,
    /// The type that files in this field are given.
    file_type: String,
    constant: Option<String>,
}

impl PauseView {
    /// Reads a pause; fields of an unexpected type become empty.
    pub(crate) fn read(pause: &Json) -> Self {
        Self::deserialize(pause).unwrap_or_else(|_| Self {
            pause_id: pause["pause_id"].as_str().unwrap_or("").into(),
            node_id: pause["node_id"].as_str().unwrap_or("").into(),
            node_title: pause["node_title"].as_str().unwrap_or("").into(),
            status: pause["status"].as_str().unwrap_or("").into(),
            ..Self::default()
        })
    }
    /// Returns true while the pause waits for an answer.
    pub(crate) fn is_pending(&self) -> bool {
        self.status == "pending"
    }
    /// Returns the question; `None` when the pause is a form.
    pub(crate) fn question(&self) -> Option<PauseRequest> {
        let kind = PauseKind::from_name(&self.kind).filter(|kind| !kind.is_form())?;
        Some(PauseRequest {
            options: self.options.clone(),
            defaults: self.defaults.clone(),
            details: self.details.clone(),
            ..PauseRequest::asking(kind, self.prompt.as_str(), self.schema.clone())
        })
    }
    /// The title of the node, and the container that it runs in.
    pub(crate) fn name(&self) -> String {
        let name = if self.node_title.is_empty() { &self.node_id } else { &self.node_title };
        match self.frame.as_deref() {
            None | Some("") => name.clone(),
            Some(frame) => format!("{name} in {frame}"),
        }
    }
    /// The fields of the form.
    pub(crate) fn fields(&self) -> Vec<FieldView> {
        let text = |field: &Json, key: &str| field[key].as_str().unwrap_or("").to_string();
        let texts = |list: &Json| {
            list.as_array().into_iter().flatten().filter_map(|t| Some(t.as_str()?.to_string())).collect()
        };
        let field = |field: &Json| {
            let types: Vec<String> = texts(&field["allowed_file_types"]);
            FieldView {
                name: text(field, "output_variable_name"),
                kind: text(field, "type"),
                options: texts(&field["option_source"]["value"]),
                file_type: match types.as_slice() {
                    [only] => only.clone(),
                    _ => "custom".to_string(),
                },
                constant: field["default"]["value"].as_str().filter(|t| !t.is_empty()).map(Into::into),
            }
        };
        self.inputs.as_array().into_iter().flatten().map(field).collect()
    }
    /// The actions of the form: id and title.
    pub(crate) fn actions(&self) -> Vec<(String, String)> {
        let action = |action: &Json| {
            let id = action["id"].as_str()?;
            Some((id.to_string(), action["title"].as_str().unwrap_or(id).to_string()))
        };
        self.actions.as_array().into_iter().flatten().filter_map(action).collect()
    }
}

impl FieldView {
    /// The value that the field has before anything is typed.
    pub(crate) fn default_in(&self, pause: &PauseView) -> Option<String> {
        match &pause.defaults[&self.name] {
            Json::Null => self.constant.clone(),
            Json::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
    /// Builds a file value from a URL, in the form that the scheduler accepts.
    pub(crate) fn file(&self, url: &str) -> Json {
        serde_json::json!({"type": self.file_type, "transfer_method": "remote_url", "url": url})
    }
}

impl RunView {
    /// Reads a run; fields of an unexpected type become empty.
    pub(crate) fn read(run: &Json) -> Self {
        Self::deserialize(run).unwrap_or_else(|_| Self {
            id: run["id"].as_str().unwrap_or("").into(),
            status: run["status"].as_str().unwrap_or("").into(),
            error: run["error"].as_str().map(Into::into),
            outputs: run.get("outputs").cloned(),
            ..Self::default()
        })
    }
    /// The workflow's name. The scheduler sends it as a text or within an object.
    pub(crate) fn workflow_name(&self) -> String {
        match &self.workflow {
            Some(Json::String(name)) => name.clone(),
            Some(Json::Object(map)) => map.get("name").and_then(Json::as_str).unwrap_or("").into(),
            Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_)) | None => String::new(),
        }
    }
}

/// Returns true if no other status can follow this one.
pub(crate) fn has_ended(status: &str) -> bool {
    ["succeeded", "partial-succeeded", "failed", "stopped"].contains(&status)
}

/// Returns true if the run succeeded, completely or partly.
pub(crate) fn has_succeeded(status: &str) -> bool {
    ["succeeded", "partial-succeeded"].contains(&status)
}
