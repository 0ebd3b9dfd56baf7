//! A run as the scheduler shows it, as far as it is shown to people. Everything may be absent, so that an older
//! command can still show what a newer scheduler tells.

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
    pub(crate) total_steps: Option<u64>,
    pub(crate) total_tokens: Option<u64>,
    pub(crate) total_price: Option<String>,
    pub(crate) currency: Option<String>,
    /// What was paid for replies that were of no use, beside those.
    pub(crate) wasted_tokens: Option<u64>,
    pub(crate) wasted_price: Option<String>,
    pub(crate) wasted_currency: Option<String>,
    pub(crate) exceptions_count: Option<u64>,
    /// The API key that pays, by its id.
    pub(crate) key: Option<String>,
    pub(crate) nodes: Vec<NodeView>,
    /// What was spent, by who spent it.
    pub(crate) models: Vec<SpentView>,
    pub(crate) pauses: Vec<PauseView>,
    pub(crate) caller: Option<CallView>,
    pub(crate) calls: Vec<CallView>,
    pub(crate) calls_count: u64,
    /// Lists of messages, by their names.
    pub(crate) lists: std::collections::BTreeMap<String, ListView>,
}

/// A list of messages, as a run's summary has it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ListView {
    pub(crate) message_count: u64,
    pub(crate) stored_count: u64,
    pub(crate) current_batch: u64,
    pub(crate) version: u64,
    pub(crate) token_usage: Json,
}

/// The other run of a call: the one that calls, or one that is called.
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
    /// The node that calls, and where it lies.
    pub(crate) fn place(&self) -> String {
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
    pub(crate) parked: Option<String>,
    pub(crate) tokens: Option<u64>,
    pub(crate) price: Option<String>,
    pub(crate) currency: Option<String>,
}

/// What a model has cost in a run, or runs that it called, or tools.
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
    /// Those of the calls whose reply was of no use.
    pub(crate) wasted_calls: u64,
    pub(crate) total_price: Option<String>,
    pub(crate) currency: Option<String>,
}

/// Something that a run waits for, or did.
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
    /// What is shown besides.
    #[serde(flatten)]
    details: Map<String, Json>,
}

/// A field of a form.
#[derive(Debug, Clone)]
pub(crate) struct FieldView {
    pub(crate) name: String,
    /// `paragraph`, `select`, `file`, `file-list`.
    pub(crate) kind: String,
    /// What a select offers.
    pub(crate) options: Vec<String>,
    /// The type that files get.
    file_type: String,
    constant: Option<String>,
}

impl PauseView {
    /// Reads what it can.
    pub(crate) fn read(pause: &Json) -> Self {
        Self::deserialize(pause).unwrap_or_else(|_| Self {
            pause_id: pause["pause_id"].as_str().unwrap_or("").into(),
            node_id: pause["node_id"].as_str().unwrap_or("").into(),
            node_title: pause["node_title"].as_str().unwrap_or("").into(),
            status: pause["status"].as_str().unwrap_or("").into(),
            ..Self::default()
        })
    }
    /// Whether it waits.
    pub(crate) fn is_pending(&self) -> bool {
        self.status == "pending"
    }
    /// What is asked, where that is not a form.
    pub(crate) fn question(&self) -> Option<PauseRequest> {
        let kind = PauseKind::from_name(&self.kind).filter(|kind| !kind.is_form())?;
        Some(PauseRequest {
            options: self.options.clone(),
            defaults: self.defaults.clone(),
            details: self.details.clone(),
            ..PauseRequest::asking(kind, self.prompt.as_str(), self.schema.clone())
        })
    }
    /// The node as people know it, and where in which container it waits.
    pub(crate) fn name(&self) -> String {
        let name = if self.node_title.is_empty() { &self.node_id } else { &self.node_title };
        match self.frame.as_deref() {
            None | Some("") => name.clone(),
            Some(frame) => format!("{name} in {frame}"),
        }
    }
    /// Its fields.
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
    /// Its actions: id and title.
    pub(crate) fn actions(&self) -> Vec<(String, String)> {
        let action = |action: &Json| {
            let id = action["id"].as_str()?;
            Some((id.to_string(), action["title"].as_str().unwrap_or(id).to_string()))
        };
        self.actions.as_array().into_iter().flatten().filter_map(action).collect()
    }
}

impl FieldView {
    /// What stands in the field at first.
    pub(crate) fn default_in(&self, pause: &PauseView) -> Option<String> {
        match &pause.defaults[&self.name] {
            Json::Null => self.constant.clone(),
            Json::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
    /// A file by its URL, as the scheduler takes it.
    pub(crate) fn file(&self, url: &str) -> Json {
        serde_json::json!({"type": self.file_type, "transfer_method": "remote_url", "url": url})
    }
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
