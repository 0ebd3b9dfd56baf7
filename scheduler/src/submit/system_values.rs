//! The system variables of a run: exactly the given ones, or Dify's standard ones.

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::graph::{AppMode, Graph};
use tidemill_common::ids::RunId;
use tidemill_common::value::{JsonMap, Segment};

use crate::submit::WorkflowSource;

/// The choice of system variables.
#[derive(Debug, Clone)]
pub enum SystemValues {
    /// Only these variables.
    Exactly(JsonMap),
    /// The variables that Dify gives a run of the app's mode.
    Standard,
}

/// The sources of the standard variables.
pub(super) struct About<'a> {
    pub(super) run: RunId,
    pub(super) user: &'a str,
    /// The time of the run; a scheduled run has the time it was scheduled for.
    pub(super) at: Timestamp,
    pub(super) source: &'a WorkflowSource,
    pub(super) files: Vec<Json>,
    /// The conversation of the run.
    pub(super) conversation_id: Option<&'a str>,
    /// The question, in a chat.
    pub(super) query: &'a str,
    /// The number of the turn in its conversation, from 1.
    pub(super) dialogue: u64,
}

/// Builds the variables. Null values are left out, so that a reference to them finds nothing, as on Dify.
pub(super) fn values(graph: &Graph, which: SystemValues, about: About<'_>) -> Vec<(String, Segment)> {
    let conversation = about.conversation_id.map(str::to_string);
    let mut values = match which {
        SystemValues::Exactly(values) => values,
        SystemValues::Standard => standard(graph, about),
    };
    if let Some(id) = conversation {
        values.insert("conversation_id".into(), id.into());
    }
    let not_null = values.into_iter().filter(|(_, value)| !value.is_null());
    not_null.map(|(name, value)| (name, Segment::restore_files(value))).collect()
}

fn standard(graph: &Graph, about: About<'_>) -> JsonMap {
    let mut values = JsonMap::new();
    let mut set = |name: &str, value: Json| values.insert(name.into(), value);
    match graph.mode {
        AppMode::Workflow => {}
        AppMode::Chat => {
            set("query", about.query.into());
            set("conversation_id", uuid::Uuid::new_v4().to_string().into());
            set("dialogue_count", about.dialogue.into());
        }
    }
    set("user_id", about.user.into());
    set("app_id", about.source.app_id().map_or(Json::Null, Json::String));
    set("workflow_id", graph.hash.to_string().into());
    set("workflow_run_id", about.run.to_string().into());
    set("files", json!(about.files));
    match graph.mode {
        AppMode::Workflow => {
            set("timestamp", about.at.seconds().into());
        }
        AppMode::Chat => {}
    }
    values
}
