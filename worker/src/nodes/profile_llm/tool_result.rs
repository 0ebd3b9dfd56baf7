//! The result of a tool call, in its forms for the journal, the model and the outputs.

use serde_json::{Value as Json, json};
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::nodes::llm::message::{Message, ToolCall};
use tidemill_common::value::JsonMap;

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ToolResult {
    /// The model's id of the call.
    pub(super) id: String,
    /// The tool's name.
    pub(super) name: String,
    pub(super) arguments: Json,
    /// The tool's text.
    pub(super) words: String,
    /// File objects; the files are stored.
    pub(super) files: Vec<Json>,
    /// The error's type and text.
    pub(super) error: Option<(String, String)>,
    /// True if a person refused the call.
    pub(super) rejected: bool,
    pub(super) seconds: f64,
    /// True if the call may have been made twice.
    pub(super) possible_duplicate: bool,
}

impl ToolResult {
    pub(super) fn succeeded(words: String) -> Self {
        Self { words, ..Self::default() }
    }

    pub(super) fn failed(kind: &str, message: String) -> Self {
        Self { error: Some((kind.to_owned(), message)), ..Self::default() }
    }

    pub(super) fn refused(why: &str) -> Self {
        Self { rejected: true, ..Self::failed("ToolRejected", why.to_owned()) }
    }

    /// The text for the model.
    pub(super) fn content(&self) -> String {
        match &self.error {
            Some((_, message)) if self.rejected => json!({"error": message, "rejected": true}).to_string(),
            Some((_, message)) => json!({"error": message}).to_string(),
            None => self.words.clone(),
        }
    }

    /// Converts it to a message of the conversation.
    pub(super) fn message(&self) -> Message {
        Message::tool_result(self.id.clone(), self.content())
    }

    /// The entry in `tool_results`.
    pub(super) fn output(&self) -> Json {
        let mut shown = json!({
            "tool_call_id": self.id,
            "tool_name": self.name,
            "arguments": self.arguments,
            "success": self.error.is_none(),
            "execution_time": self.seconds,
        });
        match &self.error {
            None => {
                shown["result"] =
                    serde_json::from_str(&self.words).unwrap_or_else(|_| self.words.as_str().into());
            }
            Some((kind, message)) => {
                shown["error"] = message.as_str().into();
                shown["error_type"] = kind.as_str().into();
            }
        }
        if !self.files.is_empty() {
            shown["files"] = Json::Array(self.files.clone());
        }
        if self.rejected {
            shown["rejected"] = true.into();
        }
        shown
    }

    /// The event of its end; `about` has the fields of the start event.
    pub(super) fn event(&self, mut about: JsonMap) -> (StepEvent, JsonMap) {
        match &self.error {
            None => {
                about.insert("result".into(), self.words.as_str().into());
                about.insert("execution_time".into(), self.seconds.into());
                (StepEvent::ToolCallCompleted, about)
            }
            Some((_, message)) => {
                about.insert("error".into(), message.as_str().into());
                (StepEvent::ToolCallFailed, about)
            }
        }
    }

    /// Converts it to its journal form.
    pub(super) fn to_json(&self) -> Json {
        let mut known = json!({"words": self.words, "arguments": self.arguments, "seconds": self.seconds});
        if !self.files.is_empty() {
            known["files"] = Json::Array(self.files.clone());
        }
        if let Some((kind, message)) = &self.error {
            known["error"] = json!([kind, message]);
        }
        for (key, said) in [("rejected", self.rejected), ("possible_duplicate", self.possible_duplicate)] {
            if said {
                known[key] = true.into();
            }
        }
        known
    }

    /// Reads the journal form.
    pub(super) fn read(known: &Json, call: &ToolCall) -> Self {
        let flag = |key: &str| known.get(key).and_then(Json::as_bool).unwrap_or(false);
        let error = known.get("error").and_then(Json::as_array).map(|parts| {
            let part = |at: usize| parts.get(at).and_then(Json::as_str).unwrap_or_default().to_owned();
            (part(0), part(1))
        });
        Self {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: known.get("arguments").cloned().unwrap_or_default(),
            words: known.get("words").and_then(Json::as_str).unwrap_or_default().to_owned(),
            files: known.get("files").and_then(Json::as_array).cloned().unwrap_or_default(),
            error,
            rejected: flag("rejected"),
            seconds: known.get("seconds").and_then(Json::as_f64).unwrap_or_default(),
            possible_duplicate: flag("possible_duplicate"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_a_call_is_the_same_out_of_the_journal() {
        let call = ToolCall { id: "c".into(), name: "f".into(), arguments: "{}".into() };
        let named = |result: ToolResult| ToolResult {
            id: "c".into(),
            name: "f".into(),
            arguments: json!({"q": 1}),
            ..result
        };
        let full = ToolResult {
            files: vec![json!({"f": 1})],
            seconds: 0.5,
            possible_duplicate: true,
            ..ToolResult::succeeded("w".into())
        };
        let refused = ToolResult { rejected: true, ..ToolResult::failed("X", "no".into()) };
        for result in [ToolResult::succeeded("w".into()), full, ToolResult::failed("X", "no".into()), refused]
        {
            let result = named(result);
            assert_eq!(ToolResult::read(&result.to_json(), &call), result);
        }
    }

    #[test]
    fn lp_a13_a_failure_is_told_as_one() {
        let failed = ToolResult::failed("PARSE_ERROR", "no JSON".into());
        assert_eq!(failed.content(), r#"{"error":"no JSON"}"#);
        let shown = failed.output();
        assert_eq!((&shown["success"], &shown["error_type"]), (&json!(false), &json!("PARSE_ERROR")));
        assert_eq!(failed.event(JsonMap::new()).0, StepEvent::ToolCallFailed);
        let said = ToolResult::succeeded(r#"{"n":1}"#.into());
        assert_eq!(
            (said.output()["result"].clone(), said.content()),
            (json!({"n": 1}), r#"{"n":1}"#.to_owned())
        );
    }
}
