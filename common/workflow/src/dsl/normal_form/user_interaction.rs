//! Rewrites questions to the user as other engines write them: keys in camel case, the effect of an answer
//! next to the question (`operationType`, `variables`, `message`), `prompt` for the shown message.

use serde_json::{Value as Json, json};

use tidemill_base::value::JsonMap;

/// Keys of the node: alternative and canonical spelling.
const KEYS: [(&str, &str); 13] = [
    ("userInteractionType", "interaction_type"),
    ("user_interaction_type", "interaction_type"),
    ("interactionType", "interaction_type"),
    ("showMessage", "show_message"),
    ("prompt", "show_message"),
    ("userInput", "user_input"),
    ("inputSchema", "input_schema"),
    ("requireAck", "require_ack"),
    ("timeout", "timeout_ms"),
    ("timeoutMs", "timeout_ms"),
    ("onTimeout", "on_timeout"),
    ("profileId", "profile_id"),
    ("onAnswer", "on_answer"),
];
const OF_ANSWER: [(&str, &str); 2] = [("updateVariables", "update_variables"), ("addMessage", "add_message")];
const OF_VARIABLE: [(&str, &str); 2] = [("variableName", "name"), ("variable_name", "name")];
const OF_MESSAGE: [(&str, &str); 4] = [
    ("contentTemplate", "content"),
    ("content_template", "content"),
    ("conversationId", "conversation_id"),
    ("conversation", "conversation_id"),
];

pub(super) fn rewrite(data: &mut JsonMap) {
    let ty = data.get("type").and_then(Json::as_str);
    if !matches!(ty, Some("user-interaction" | "USER_INTERACTION")) {
        return;
    }
    data.insert("type".into(), "user-interaction".into());
    rename(data, &KEYS);
    let operation = data.shift_remove("operationType").or_else(|| data.shift_remove("operation_type"));
    if let Some(operation) = operation {
        data.entry("interaction_type").or_insert_with(|| "ask_for_input".into());
        let (variables, message) = (data.shift_remove("variables"), data.shift_remove("message"));
        let effect = match operation.as_str() {
            Some("UPDATE_VARIABLES") => json!({"update_variables": variables}),
            Some("ADD_MESSAGE") => json!({"add_message": message}),
            // The checks report it.
            _ => json!({operation.as_str().unwrap_or_default(): null}),
        };
        data.entry("on_answer").or_insert(effect);
    }
    let Some(answer) = data.get_mut("on_answer").and_then(Json::as_object_mut) else { return };
    rename(answer, &OF_ANSWER);
    for item in answer.get_mut("update_variables").and_then(Json::as_array_mut).into_iter().flatten() {
        let Some(variable) = item.as_object_mut() else { continue };
        rename(variable, &OF_VARIABLE);
        if variable.get("scope").is_some_and(|scope| scope == "subgraph") {
            variable.insert("scope".into(), "local".into());
        }
    }
    if let Some(message) = answer.get_mut("add_message").and_then(Json::as_object_mut) {
        rename(message, &OF_MESSAGE);
    }
}

/// Renames keys to the canonical ones, unless the canonical key exists as well.
fn rename(map: &mut JsonMap, names: &[(&str, &str)]) {
    for (old, new) in names {
        if !map.contains_key(*new)
            && let Some(value) = map.shift_remove(*old)
        {
            map.insert((*new).to_string(), value);
        }
    }
}
