//! Replaces texts in effects, to keep secrets out of them.

use serde_json::Value as Json;

use super::change::ListChange;
use super::{Effects, Message};
use tidemill_base::value::JsonMap;

/// Returns the new text; `None` when the text stays.
type Replace<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Effects {
    /// Returns the effects with texts replaced.
    pub fn with_texts(mut self, replace: Replace<'_>) -> Self {
        for change in &mut self.messages {
            match &mut change.change {
                ListChange::Append(messages) | ListChange::Insert { messages, .. } => {
                    messages.iter_mut().for_each(|message| in_message(message, replace));
                }
                ListChange::Replace { message, .. } => in_message(message, replace),
                ListChange::Truncate { .. }
                | ListChange::Clear { .. }
                | ListChange::Filter { .. }
                | ListChange::StartBatch { .. }
                | ListChange::Rollback { .. } => {}
            }
        }
        in_map(&mut self.runtime, replace);
        self.history.iter_mut().for_each(|record| in_map(record, replace));
        self
    }
}

fn in_message(message: &mut Message, replace: Replace<'_>) {
    in_json(&mut message.content, replace);
    if let Some(calls) = &mut message.tool_calls {
        in_json(calls, replace);
    }
}

fn in_map(map: &mut JsonMap, replace: Replace<'_>) {
    map.values_mut().for_each(|value| in_json(value, replace));
}

fn in_json(value: &mut Json, replace: Replace<'_>) {
    match value {
        Json::String(text) => {
            if let Some(other) = replace(text) {
                *text = other;
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| in_json(item, replace)),
        Json::Object(map) => {
            // These names are not ours: the author of the value chose them.
            let changes = map.keys().any(|name| replace(name).is_some());
            if changes {
                let all = std::mem::take(map).into_iter();
                *map = all.map(|(name, value)| (replace(&name).unwrap_or(name), value)).collect();
            }
            in_map(map, replace);
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Role;
    use serde_json::json;

    #[test]
    fn a_secret_is_found_in_every_text() {
        let call = json!([{"id": "c", "function": {"arguments": "{\"key\": \"secret\"}"}}]);
        let message = Message { tool_calls: Some(call), ..Message::text(Role::User, "a secret") };
        let effects = Effects {
            runtime: JsonMap::from_iter([("facts".to_string(), json!(["secret"]))]),
            history: vec![JsonMap::from_iter([(
                "input_data".to_string(),
                json!({"x": "secret", "a secret": 1}),
            )])],
            ..Effects::appending("main", vec![message])
        };
        let veiled =
            effects.with_texts(&|text| text.contains("secret").then(|| text.replace("secret", "***")));
        assert!(!format!("{veiled:?}").contains("secret"), "{veiled:?}");
    }
}
