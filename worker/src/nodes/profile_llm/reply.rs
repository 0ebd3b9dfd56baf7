//! A model's reply in one round, and its form in the journal.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::Usage;
use tidemill_common::nodes::llm::Role;
use tidemill_common::nodes::llm::message::{Message, ToolCall};
use tidemill_common::nodes::llm::record::tool_call;

/// A model's reply in one round.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reply {
    pub(super) text: String,
    pub(super) tool_calls: Vec<ToolCall>,
    /// Files the model made, as file objects.
    pub(super) files: Vec<Json>,
    /// The reply in the API's form; see `Message::verbatim`.
    pub(super) verbatim: Vec<Json>,
    pub(super) finish_reason: Option<String>,
    /// The cost; estimated if the provider did not count.
    pub(super) usage: Usage,
    /// True if the model may have been called twice for it.
    pub(super) possible_duplicate: bool,
}

impl Reply {
    /// Converts it to a message of the conversation.
    pub(super) fn message(&self) -> Message {
        let (tool_calls, verbatim) = (self.tool_calls.clone(), self.verbatim.clone());
        Message { tool_calls, verbatim, ..Message::text(Role::Assistant, self.text.clone()) }
    }

    /// The tool calls, as the outputs show them.
    pub(super) fn calls(&self) -> impl Iterator<Item = Json> {
        self.tool_calls.iter().map(tool_call)
    }

    /// Returns true if the provider counted the cost.
    pub(super) fn is_counted(&self) -> bool {
        self.usage.record.get("estimated") != Some(&Json::Bool(true))
    }

    /// Converts it to its journal form, without empty values.
    pub(super) fn to_json(&self) -> Json {
        let mut known = json!({"text": self.text, "usage": self.usage.record});
        for (key, list) in [
            ("tool_calls", self.calls().collect()),
            ("files", self.files.clone()),
            ("verbatim", self.verbatim.clone()),
        ] {
            if !list.is_empty() {
                known[key] = Json::Array(list);
            }
        }
        if let Some(reason) = &self.finish_reason {
            known["finish_reason"] = reason.as_str().into();
        }
        if self.possible_duplicate {
            known["possible_duplicate"] = true.into();
        }
        known
    }

    /// Reads the journal form; `None` if it is not a reply.
    pub(super) fn read(known: &Json) -> Option<Self> {
        let text = |value: &Json, key: &str| value.get(key).and_then(Json::as_str).map(str::to_owned);
        let list = |key: &str| known.get(key).and_then(Json::as_array).cloned().unwrap_or_default();
        let call = |call: &Json| {
            let function = call.get("function")?;
            Some(ToolCall {
                id: text(call, "id")?,
                name: text(function, "name")?,
                arguments: text(function, "arguments")?,
            })
        };
        Some(Self {
            text: text(known, "text")?,
            tool_calls: list("tool_calls").iter().map(call).collect::<Option<_>>()?,
            files: list("files"),
            verbatim: list("verbatim"),
            finish_reason: text(known, "finish_reason"),
            usage: Usage::from_record(known.get("usage")?.as_object()?.clone()),
            possible_duplicate: known.get("possible_duplicate").and_then(Json::as_bool).unwrap_or(false),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_the_same_out_of_the_journal() {
        let usage = Usage::from_record(json!({"total_tokens": 3}).as_object().unwrap().clone());
        let plain = Reply {
            text: "a".into(),
            tool_calls: Vec::new(),
            files: Vec::new(),
            verbatim: Vec::new(),
            finish_reason: None,
            usage: usage.clone(),
            possible_duplicate: false,
        };
        assert_eq!(plain.to_json(), json!({"text": "a", "usage": {"total_tokens": 3}}));
        let call = ToolCall { id: "c".into(), name: "f".into(), arguments: "{".into() };
        let full = Reply {
            tool_calls: vec![call],
            files: vec![json!({"type": "image"})],
            verbatim: vec![json!({"type": "thinking"})],
            finish_reason: Some("tool_calls".into()),
            possible_duplicate: true,
            ..plain.clone()
        };
        for reply in [plain, full] {
            assert_eq!(Reply::read(&reply.to_json()).unwrap(), reply);
        }
        assert_eq!(Reply::read(&json!({"usage": {}})), None);
    }
}
