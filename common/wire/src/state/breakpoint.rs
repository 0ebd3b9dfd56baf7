//! Breakpoints and variable updates as JSON.
//!
//! A breakpoint is `{"after":"node","command":"stop|pause|update_variables","reason":…,"updates":[…]}`. An
//! update is `{"selector":["node","name"],"value":<stored>}`; `update` facts carry the same updates.

use serde_json::{Value as Json, json};

use crate::WireError;
use crate::codec::value::{StoredJson, stored_from_json};
use tidemill_base::value::{JsonMap, Stored};
use tidemill_engine::state::options::breakpoint::{Breakpoint, BreakpointCommand};

const WHAT: &str = "a breakpoint";

/// The commands that a breakpoint may carry.
pub mod command {
    /// Ends the run.
    pub const STOP: &str = "stop";
    /// Pauses the run.
    pub const PAUSE: &str = "pause";
    /// Writes variables.
    pub const UPDATE: &str = "update_variables";
}

/// Writes breakpoints, in order.
pub fn breakpoints_json(breakpoints: &[Breakpoint]) -> Json {
    breakpoints.iter().map(breakpoint_json).collect()
}

fn breakpoint_json(breakpoint: &Breakpoint) -> Json {
    let after = &breakpoint.after;
    match &breakpoint.command {
        BreakpointCommand::Stop { reason } => {
            json!({"after": after, "command": command::STOP, "reason": &**reason})
        }
        BreakpointCommand::Pause { reason } => {
            json!({"after": after, "command": command::PAUSE, "reason": &**reason})
        }
        BreakpointCommand::Update { updates } => {
            json!({"after": after, "command": command::UPDATE, "updates": updates_json(updates)})
        }
    }
}

/// Reads breakpoints; an absent value gives an empty list.
///
/// # Errors
/// The value is not a list of breakpoints.
pub fn breakpoints_from_json(value: Option<Json>) -> Result<Vec<Breakpoint>, WireError> {
    match value {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::Array(items)) => items.into_iter().map(breakpoint_from_json).collect(),
        Some(Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_)) => {
            Err(WireError::malformed(WHAT, "commands are not a list"))
        }
    }
}

fn breakpoint_from_json(value: Json) -> Result<Breakpoint, WireError> {
    let mut map = object(value)?;
    let text = |map: &JsonMap, key: &str| map.get(key).and_then(Json::as_str).map(str::to_string);
    let after = text(&map, "after").ok_or_else(|| WireError::malformed(WHAT, "after is missing"))?;
    let reason = text(&map, "reason").unwrap_or_default().into();
    let word = text(&map, "command").unwrap_or_default();
    let command = match word.as_str() {
        command::STOP => BreakpointCommand::Stop { reason },
        command::PAUSE => BreakpointCommand::Pause { reason },
        command::UPDATE => BreakpointCommand::Update { updates: updates_from_json(map.remove("updates"))? },
        _ => return Err(WireError::Unknown { what: "the command of a breakpoint", kind: word }),
    };
    Ok(Breakpoint { after, command })
}

/// Writes variable updates (node, name, value), in order.
pub fn updates_json(updates: &[(String, String, Stored)]) -> Json {
    updates
        .iter()
        .map(|(node, name, value)| {
            let value = serde_json::to_value(StoredJson(value)).unwrap_or_default();
            json!({"selector": [node, name], "value": value})
        })
        .collect()
}

/// Reads variable updates.
///
/// # Errors
/// The value is not a list of updates.
pub fn updates_from_json(value: Option<Json>) -> Result<Vec<(String, String, Stored)>, WireError> {
    let Some(Json::Array(items)) = value else {
        return Err(WireError::malformed(WHAT, "updates are not a list"));
    };
    items.into_iter().map(update_from_json).collect()
}

fn update_from_json(value: Json) -> Result<(String, String, Stored), WireError> {
    let mut map = object(value)?;
    let selector = map.get("selector").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let [Json::String(node), Json::String(name)] = selector else {
        return Err(WireError::malformed(WHAT, "a selector is not two texts"));
    };
    let (node, name) = (node.clone(), name.clone());
    Ok((node, name, stored_from_json(map.remove("value").unwrap_or_default())?))
}

fn object(value: Json) -> Result<JsonMap, WireError> {
    match value {
        Json::Object(map) => Ok(map),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            Err(WireError::malformed(WHAT, "not an object"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{head_fields, head_from_fields, head_from_json, head_to_json};
    use tidemill_base::clock::Timestamp;
    use tidemill_base::value::Segment;
    use tidemill_engine::state::options::RunOptions;
    use tidemill_engine::state::options::compat::{ConversationWrites, DifyWays, NestedAnswers};
    use tidemill_engine::state::run::RunHead;

    #[test]
    fn breakpoints_are_read_as_they_were_written() {
        let after = |command| Breakpoint { after: "a".to_string(), command };
        let value = Stored::Inline(Segment::string("x"));
        let updates = vec![("n".to_string(), "v".to_string(), value)];
        let written = vec![
            after(BreakpointCommand::Stop { reason: "enough".into() }),
            after(BreakpointCommand::Pause { reason: "look".into() }),
            after(BreakpointCommand::Update { updates }),
        ];
        assert_eq!(breakpoints_from_json(Some(breakpoints_json(&written))).unwrap(), written);
        assert_eq!(breakpoints_from_json(None).unwrap(), vec![]);
    }

    #[test]
    fn a_run_keeps_its_breakpoints_conversation_and_choices_in_both_its_forms() {
        let imported = tidemill_workflow::graph::import(
            b"kind: app\napp: {mode: workflow, name: x}\nworkflow: {graph: {nodes: [{id: s, data: {type: start, title: s, variables: []}}], edges: []}}",
        );
        let graph = imported.graph.expect("a graph");
        let stop = BreakpointCommand::Stop { reason: "enough".into() };
        let head = RunHead {
            graph: graph.hash.clone(),
            app: None,
            root: Some("s".into()),
            user: "u".into(),
            inputs: Vec::new(),
            sys: Vec::new(),
            conversation: Vec::new(),
            history: None,
            leaves_turn: false,
            takes_messages: true,
            caller: None,
            call_depth: 0,
            key: None,
            webhook: None,
            conversation_id: Some("c".into()),
            commands: vec![Breakpoint { after: "s".into(), command: stop }],
            options: RunOptions {
                iteration_conversation_writes: ConversationWrites::Local,
                nested_answer_stream: NestedAnswers::Segments,
                iteration_failures_count: false,
                loop_next_after_last: true,
                dify_ways: DifyWays {
                    code_texts_become_numbers: true,
                    extractor_requires_all: true,
                    webhook_missing_file_is_all: true,
                    retries_count_as_exceptions: false,
                    loop_conditions_break: false,
                    limits_stop_runs: false,
                },
                human_input_timeout_s: 0,
                budget: None,
                ..RunOptions::default()
            },
            created_at: Timestamp::from_micros(7),
        };
        let Json::Object(map) = head_to_json(&head) else { panic!("a head is an object") };
        assert_eq!(head_from_json(map).unwrap(), head);
        let fields = head_fields(&head, &graph).into_iter().map(|(k, v)| (k.to_string(), v)).collect();
        assert_eq!(head_from_fields(&fields).unwrap(), head);
    }

    #[test]
    fn an_invalid_breakpoint_is_refused() {
        for wrong in [json!({}), json!([1]), json!([{"after": "a", "command": "jump"}]), json!([{}])] {
            assert!(breakpoints_from_json(Some(wrong.clone())).is_err(), "{wrong}");
        }
    }
}
