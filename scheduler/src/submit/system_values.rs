//! System variables of a run: exactly those that were given, or Dify's standard ones.

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::graph::{AppMode, Graph};
use tidemill_common::ids::RunId;
use tidemill_common::value::{JsonMap, Segment, SegmentType};

use crate::submit::WorkflowSource;

/// Which system variables a run has.
#[derive(Debug, Clone)]
pub enum SystemValues {
    /// These and no others.
    Exactly(JsonMap),
    /// What Dify gives a run of the app's mode.
    Standard,
}

/// What the standard ones are made of.
pub(super) struct About<'a> {
    pub(super) run: RunId,
    pub(super) user: &'a str,
    /// The moment that it stands for.
    pub(super) at: Timestamp,
    pub(super) source: &'a WorkflowSource,
    pub(super) files: Vec<Json>,
    /// The conversation it belongs to.
    pub(super) conversation_id: Option<&'a str>,
    /// What is asked, of a chat.
    pub(super) query: &'a str,
    /// Which turn of its conversation it is, from 1.
    pub(super) dialogue: u64,
}

/// The values. Null ones are left out, so that a reference to them finds nothing, as on Dify.
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
    not_null.map(|(name, value)| (name.clone(), segment(&name, value))).collect()
}

fn segment(name: &str, value: Json) -> Segment {
    // An empty list alone does not say that it is one of files.
    if name == "files" && value.as_array().is_some_and(Vec::is_empty) {
        return Segment::new(SegmentType::ArrayFile, value);
    }
    Segment::restore_files(value)
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
