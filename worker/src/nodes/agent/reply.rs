//! A model's reply in one round, and its form in the journal.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::Usage;
use tidemill_common::nodes::llm::Role;
use tidemill_common::nodes::llm::message::{Message, ToolCall};

/// A model's reply in one round.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RoundReply {
    pub(super) text: String,
    pub(super) tool_calls: Vec<ToolCall>,
    /// Files the model made, as file objects.
    pub(super) files: Vec<Json>,
    /// The reply in the API's form; see `Message::verbatim`.
    pub(super) verbatim: Vec<Json>,
}

impl RoundReply {
    /// Converts it to a message of the conversation.
    pub(super) fn message(&self) -> Message {
        let (tool_calls, verbatim) = (self.tool_calls.clone(), self.verbatim.clone());
        Message { tool_calls, verbatim, ..Message::text(Role::Assistant, self.text.clone()) }
    }

    /// Converts it to its journal form with the cost. Empty lists are left out.
    pub(super) fn to_json(&self, usage: &Usage) -> Json {
        let calls: Vec<Json> = self
            .tool_calls
            .iter()
            .map(|call| json!({"id": call.id, "name": call.name, "arguments": call.arguments}))
            .collect();
        let mut known = json!({"text": self.text, "tool_calls": calls, "usage": usage.record});
        for (key, list) in [("files", &self.files), ("verbatim", &self.verbatim)] {
            if !list.is_empty() {
                known[key] = json!(list);
            }
        }
        known
    }

    /// Reads the journal form; `None` if it is not a reply.
    pub(super) fn read(known: &Json) -> Option<(Self, Usage)> {
        let text = |value: &Json, key: &str| value.get(key).and_then(Json::as_str).map(str::to_owned);
        let list = |key: &str| known.get(key).and_then(Json::as_array).cloned().unwrap_or_default();
        let calls = known.get("tool_calls")?.as_array()?.iter().map(|call| {
            Some(ToolCall {
                id: text(call, "id")?,
                name: text(call, "name")?,
                arguments: text(call, "arguments")?,
            })
        });
        let reply = Self {
            text: text(known, "text")?,
            tool_calls: calls.collect::<Option<_>>()?,
            files: list("files"),
            verbatim: list("verbatim"),
        };
        Some((reply, Usage::from_record(known.get("usage")?.as_object()?.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_said_is_the_same_out_of_the_journal() {
        let call = ToolCall { id: "c".into(), name: "f".into(), arguments: "{".into() };
        let plain =
            RoundReply { text: "a".into(), tool_calls: vec![call], files: Vec::new(), verbatim: Vec::new() };
        let signed = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
        let full = RoundReply {
            files: vec![json!({"type": "image"})],
            verbatim: vec![signed.clone()],
            ..plain.clone()
        };
        let usage = Usage::from_record(json!({"total_tokens": 3}).as_object().unwrap().clone());
        for reply in [&plain, &full] {
            let known = reply.to_json(&usage);
            assert_eq!(RoundReply::read(&known).unwrap().0, *reply, "{known}");
        }
        // The journal form before files and reasoning existed.
        let old = json!({"text": "a", "tool_calls": [{"id": "c", "name": "f", "arguments": "{"}], "usage": {"total_tokens": 3}});
        assert_eq!(plain.to_json(&usage), old);
        assert_eq!(full.message().verbatim, [signed]);
        assert_eq!(RoundReply::read(&json!({"text": "a"})), None);
    }
}
