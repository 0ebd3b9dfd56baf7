//! The system variables of a run: exactly the given ones, or Dify's standard ones; besides, what the host of the run says
//! about it, and the question where a bare graph or a workflow reads one that is not given.

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::graph::{AppMode, Graph, Node};
use tidemill_common::ids::RunId;
use tidemill_common::nodes::llm::history;
use tidemill_common::value::{JsonMap, Segment};

use super::host::HostField;
use crate::runs::ids::workflow_uuid;
use crate::submit::WorkflowSource;

const QUERY: &str = "query";
const CONVERSATION_ID: &str = "conversation_id";

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
    /// The inputs, checked by the start form.
    pub(super) inputs: &'a [(String, Segment)],
    /// The inputs as given.
    pub(super) given: &'a JsonMap,
    pub(super) host: &'a [HostField],
}

/// Builds the variables. Null values are left out, so that a reference to them finds nothing, as on Dify.
pub(super) fn values(graph: &Graph, which: SystemValues, about: About<'_>) -> Vec<(String, Segment)> {
    let conversation = about.conversation_id.map(str::to_string);
    let (host, input) = (about.host, query_input(about.inputs, about.given));
    let is_exact = matches!(which, SystemValues::Exactly(_));
    let mut values = match which {
        SystemValues::Exactly(values) => values,
        SystemValues::Standard => standard(graph, about),
    };
    for (name, text) in host {
        match is_exact {
            true => _ = values.entry(*name).or_insert_with(|| text.as_str().into()),
            false => _ = values.insert((*name).to_owned(), text.as_str().into()),
        }
    }
    if let Some(query) = input.filter(|_| takes_query(graph, &values, is_exact)) {
        values.insert("query".into(), query.into());
    }
    if graph.is_bare && !values.contains_key(CONVERSATION_ID) && reads(graph, CONVERSATION_ID) {
        values.insert(CONVERSATION_ID.into(), uuid::Uuid::new_v4().to_string().into());
    }
    if let Some(id) = conversation {
        values.insert("conversation_id".into(), id.into());
    }
    let not_null = values.into_iter().filter(|(_, value)| !value.is_null());
    not_null.map(|(name, value)| (name, Segment::restore_files(value))).collect()
}

/// The text of the input `query`.
fn query_input<'a>(inputs: &'a [(String, Segment)], given: &'a JsonMap) -> Option<&'a str> {
    let checked = inputs.iter().find(|(name, _)| name == QUERY).map(|(_, segment)| &segment.value);
    checked.or_else(|| given.get(QUERY))?.as_str()
}

/// True when the input `query` is the question of the run: the graph reads `sys.query`, and neither the request nor the
/// mode gives one. In an export this holds for workflows only, and not beside a model with a memory: there the question
/// would become a message that the model does not get on Dify.
fn takes_query(graph: &Graph, values: &JsonMap, is_exact: bool) -> bool {
    let given = values.get(QUERY).filter(|value| !value.is_null());
    let is_open = match graph.is_bare {
        true => given.is_none_or(|value| !is_exact && value == ""),
        false => given.is_none() && !is_exact && graph.mode == AppMode::Workflow,
    };
    let remembers = |node: &Node| node.mentions.iter().any(|(of, _)| of == history::NODE);
    is_open && reads(graph, QUERY) && (graph.is_bare || !graph.nodes.iter().any(remembers))
}

/// True when a node reads this system variable, as `sys.query` or under the start node (`start.sys.query`).
fn reads(graph: &Graph, name: &str) -> bool {
    let is_it = |of: &str, read: &str| of == "sys" && read == name || read.strip_prefix("sys.") == Some(name);
    graph.nodes.iter().any(|node| node.mentions.iter().any(|(of, read)| is_it(of, read)))
}

/// As on Dify, a UUID for an app; the hash for a workflow that came as text.
fn workflow_id(graph: &Graph, source: &WorkflowSource) -> String {
    match source {
        WorkflowSource::App(app) => workflow_uuid(&app.id, &app.version).to_string(),
        WorkflowSource::Text(_) | WorkflowSource::BuiltIn(_) => graph.hash.to_string(),
    }
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
    set("workflow_id", workflow_id(graph, about.source).into());
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
