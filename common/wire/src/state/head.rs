//! The head of a run (what was submitted), in its `start` fact and as fields of its hash.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use super::WHAT;
use super::options::{options_from_json, options_to_json};
use crate::codec::text::{named_text, stored_text};
use crate::codec::value::{NamedJson, StoredJson, named_from_json, stored_from_json};
use crate::state::breakpoint::{breakpoints_from_json, breakpoints_json};
use crate::{WireError, check_version};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{FramePath, NodeId, RunId};
use tidemill_base::value::JsonMap;
use tidemill_engine::state::options::RunOptions;
use tidemill_engine::state::run::{Caller, RunHead, RunStatus};
use tidemill_workflow::graph::{Graph, GraphHash};

/// The field of a run with the events of its app's webhook.
pub const WEBHOOK_FIELD: &str = "webhook";

/// Writes the head of a run for a `start` fact.
pub fn head_to_json(head: &RunHead) -> Json {
    let named = |values| serde_json::to_value(NamedJson(values)).unwrap_or_default();
    let mut map = JsonMap::new();
    map.insert("graph".into(), (*head.graph.0).into());
    if let Some(app) = &head.app {
        map.insert("app".into(), app.as_str().into());
    }
    if let Some(root) = &head.root {
        map.insert("root".into(), root.as_str().into());
    }
    map.insert("user".into(), head.user.as_str().into());
    map.insert("created_at".into(), head.created_at.micros().into());
    for (key, values) in [("inputs", &head.inputs), ("sys", &head.sys), ("conversation", &head.conversation)]
    {
        if !values.is_empty() {
            map.insert(key.into(), named(values));
        }
    }
    if let Some(history) = &head.history {
        map.insert("history".into(), serde_json::to_value(StoredJson(history)).unwrap_or_default());
    }
    if head.leaves_turn {
        map.insert("turn".into(), true.into());
    }
    if head.takes_messages {
        map.insert("messages".into(), true.into());
    }
    if let Some(id) = &head.conversation_id {
        map.insert("conversation_id".into(), id.as_str().into());
    }
    if let Some(caller) = &head.caller {
        map.insert("caller".into(), caller_json(caller));
    }
    if head.call_depth > 0 {
        map.insert("call_depth".into(), head.call_depth.into());
    }
    if let Some(key) = &head.key {
        map.insert("key".into(), key.as_str().into());
    }
    if let Some(webhook) = &head.webhook {
        map.insert("webhook".into(), webhook.as_str().into());
    }
    if !head.commands.is_empty() {
        map.insert("commands".into(), breakpoints_json(&head.commands));
    }
    let options = options_to_json(&head.options);
    if !options.is_empty() {
        map.insert("options".into(), Json::Object(options));
    }
    Json::Object(map)
}

/// Reads the head of a run from a `start` fact.
///
/// # Errors
/// Fields that are missing or invalid.
pub fn head_from_json(mut map: JsonMap) -> Result<RunHead, WireError> {
    let text = |map: &JsonMap, key: &str| map.get(key).and_then(Json::as_str).map(str::to_string);
    let options = match map.remove("options") {
        Some(Json::Object(options)) => options_from_json(&options),
        _ => RunOptions::default(),
    };
    Ok(RunHead {
        graph: GraphHash(
            text(&map, "graph").ok_or_else(|| WireError::malformed(WHAT, "graph is missing"))?.into(),
        ),
        app: text(&map, "app"),
        root: text(&map, "root").map(NodeId::from),
        user: text(&map, "user").unwrap_or_default(),
        created_at: Timestamp::from_micros(map.get("created_at").and_then(Json::as_i64).unwrap_or(0)),
        inputs: named_from_json(map.remove("inputs"))?,
        sys: named_from_json(map.remove("sys"))?,
        conversation: named_from_json(map.remove("conversation"))?,
        history: map.remove("history").map(stored_from_json).transpose()?,
        leaves_turn: map.get("turn").and_then(Json::as_bool).unwrap_or(false),
        takes_messages: map.get("messages").and_then(Json::as_bool).unwrap_or(false),
        conversation_id: text(&map, "conversation_id"),
        caller: map.get("caller").map(read_caller).transpose()?,
        call_depth: map.get("call_depth").and_then(Json::as_u64).unwrap_or(0),
        key: text(&map, "key"),
        webhook: text(&map, "webhook"),
        commands: breakpoints_from_json(map.remove("commands"))?,
        options,
    })
}

/// The fields of the run hash at submission.
pub fn head_fields(head: &RunHead, graph: &Graph) -> Vec<(&'static str, String)> {
    let named = |values| named_text(values);
    let mut fields = vec![
        ("status", RunStatus::Scheduled.name().to_string()),
        ("workflow", graph.name.clone()),
        ("mode", graph.mode.name().to_string()),
        ("version", head.graph.to_string()),
        ("user", head.user.clone()),
        ("created_at", head.created_at.micros().to_string()),
        ("inputs", named(&head.inputs)),
        ("sys", named(&head.sys)),
    ];
    if let Some(app) = &head.app {
        fields.push(("app", app.clone()));
    }
    if let Some(root) = &head.root {
        fields.push(("root", root.to_string()));
    }
    if !head.conversation.is_empty() {
        fields.push(("conversation", named(&head.conversation)));
    }
    if let Some(history) = &head.history {
        fields.push(("history", stored_text(history)));
    }
    if head.leaves_turn {
        fields.push(("turn", "true".into()));
    }
    if head.takes_messages {
        fields.push(("messages", "true".into()));
    }
    if let Some(id) = &head.conversation_id {
        fields.push(("conversation_id", id.clone()));
    }
    if let Some(caller) = &head.caller {
        fields.push(("caller", caller_json(caller).to_string()));
    }
    if head.call_depth > 0 {
        fields.push(("call_depth", head.call_depth.to_string()));
    }
    if let Some(key) = &head.key {
        fields.push(("key", key.clone()));
    }
    if let Some(webhook) = &head.webhook {
        fields.push((WEBHOOK_FIELD, webhook.clone()));
    }
    if !head.commands.is_empty() {
        fields.push(("commands", breakpoints_json(&head.commands).to_string()));
    }
    let mut options = options_to_json(&head.options);
    // Messages and warnings come with the start fact; afterwards the state holds them.
    options.remove("messages");
    options.remove("warnings");
    if !options.is_empty() {
        fields.push(("options", Json::Object(options).to_string()));
    }
    fields
}

/// Reads the head from the fields of the run hash.
///
/// # Errors
/// Fields that are missing or invalid.
pub fn head_from_fields(fields: &HashMap<String, String>) -> Result<RunHead, WireError> {
    let json = |key: &str| -> Result<Option<Json>, WireError> {
        fields
            .get(key)
            .map(|t| serde_json::from_str(t).map_err(|e| WireError::malformed(WHAT, e)))
            .transpose()
    };
    check_version(WHAT, json("v").ok().flatten().as_ref())?;
    let version = fields.get("version").ok_or_else(|| WireError::malformed(WHAT, "version is missing"))?;
    Ok(RunHead {
        graph: GraphHash(version.as_str().into()),
        app: fields.get("app").cloned(),
        root: fields.get("root").map(|id| id.as_str().into()),
        user: fields.get("user").cloned().unwrap_or_default(),
        inputs: named_from_json(json("inputs")?)?,
        sys: named_from_json(json("sys")?)?,
        conversation: named_from_json(json("conversation")?)?,
        history: json("history")?.map(stored_from_json).transpose()?,
        leaves_turn: fields.get("turn").is_some_and(|text| text == "true"),
        takes_messages: fields.get("messages").is_some_and(|text| text == "true"),
        conversation_id: fields.get("conversation_id").cloned(),
        caller: json("caller")?.as_ref().map(read_caller).transpose()?,
        call_depth: fields.get("call_depth").and_then(|text| text.parse().ok()).unwrap_or(0),
        key: fields.get("key").cloned(),
        webhook: fields.get(WEBHOOK_FIELD).cloned(),
        commands: breakpoints_from_json(json("commands")?)?,
        options: match json("options")? {
            Some(Json::Object(map)) => options_from_json(&map),
            _ => RunOptions::default(),
        },
        created_at: time(fields, "created_at").unwrap_or_default(),
    })
}

fn caller_json(caller: &Caller) -> Json {
    let mut value = json!({"run": caller.run, "node": caller.node});
    if !caller.frame.is_root() {
        value["frame"] = json!(caller.frame);
    }
    value
}

/// Reads a run's caller from its hash.
///
/// # Errors
/// A field is missing.
pub fn read_caller(value: &Json) -> Result<Box<Caller>, WireError> {
    let text = |key: &str| value.get(key).and_then(Json::as_str);
    let missing = |key: &str| WireError::malformed(WHAT, format!("a caller has no {key}"));
    Ok(Box::new(Caller {
        run: text("run").ok_or_else(|| missing("run"))?.parse().map_err(|e| WireError::malformed(WHAT, e))?,
        frame: text("frame").map(FramePath::from).unwrap_or_default(),
        node: text("node").ok_or_else(|| missing("node"))?.into(),
    }))
}

/// Reads the run that has called a run, from the text in its hash.
///
/// # Errors
/// The text is no caller.
pub fn caller_run(text: &str) -> Result<RunId, WireError> {
    let value: Json = serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?;
    Ok(read_caller(&value)?.run)
}

/// Reads a time from the fields of a run.
pub(super) fn time(fields: &HashMap<String, String>, key: &str) -> Option<Timestamp> {
    fields.get(key).and_then(|t| t.parse().ok()).map(Timestamp::from_micros)
}
