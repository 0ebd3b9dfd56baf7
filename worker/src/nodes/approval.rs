//! Leave to call a tool, where the run asks somebody for it.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::graph::Node;
use tidemill_common::nodes::llm::message::{ToolCall, ToolSpec};
use tidemill_common::nodes::pause::input::is_approved;
use tidemill_common::nodes::pause::{PauseKind, PauseRequest};
use tidemill_common::value::JsonMap;

use crate::steps::{PauseEnd, Steps};

/// What the model is told of a call that somebody refused.
const REJECTED: &str = "Tool call was rejected by user approval";

/// Who is asked for leave, and when.
#[derive(Clone, Copy)]
pub(crate) struct Asks<'a> {
    /// Whose job it is.
    pub(crate) steps: &'a Steps,
    /// Tools that may be called without asking; none: all of them.
    pub(crate) auto_approved: Option<&'a [Arc<str>]>,
    /// The node that calls.
    pub(crate) node: &'a Node,
}

impl Asks<'_> {
    /// Whether a call may be made; somebody is asked, if the run wants that. `step` is the call's, `id` the tool's as its
    /// provider and its name.
    pub(crate) async fn leave(&self, step: &str, (id, spec): (&str, &ToolSpec), call: &ToolCall) -> Leave {
        let is_free =
            |approved: &[Arc<str>]| approved.iter().any(|name| **name == *call.name || **name == *id);
        if self.auto_approved.is_none_or(is_free) {
            return Leave::default();
        }
        if self.node.child.is_some() {
            let why = "a tool that needs approval cannot be called by a node inside another";
            return Leave { refused: Some(why.into()), ..Leave::default() };
        }
        let request = request(id, spec, call);
        let asked = request.details.get("arguments").cloned().unwrap_or_default();
        let leave = Leave::of(self.steps.pause(&format!("approve:{step}"), request).await);
        // Whoever edits sees secrets masked, and leaves the masks where they were.
        let edited = leave.edited.map(|edited| self.steps.secrets().unmasked(edited, &asked));
        Leave { edited, ..leave }
    }
}

/// Whether a call may be made, and how.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Leave {
    /// Why it may not.
    pub(crate) refused: Option<String>,
    /// Arguments in place of the model's.
    pub(crate) edited: Option<Json>,
    /// What the model is told besides.
    pub(crate) instruction: Option<String>,
}

/// What somebody is asked.
fn request(id: &str, tool: &ToolSpec, call: &ToolCall) -> PauseRequest {
    let schema = json!({
        "type": "object",
        "properties": {
            "approved": {"type": "boolean"},
            "editedParameters": {"type": "object"},
            "userInstruction": {"type": "string"},
        },
        "required": ["approved"],
    });
    let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| call.arguments.as_str().into());
    let details = [
        ("tool_id", id.into()),
        ("tool_name", call.name.as_str().into()),
        ("tool_description", tool.description.as_str().into()),
        ("tool_call_id", call.id.as_str().into()),
        ("arguments", arguments),
    ];
    let details = details.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<JsonMap>();
    let prompt = format!("The model wants to call {}.", call.name);
    PauseRequest { details, ..PauseRequest::asking(PauseKind::ToolApproval, prompt, schema) }
}

impl Leave {
    /// What came of the question.
    fn of(end: PauseEnd) -> Self {
        let PauseEnd::Answered(answer) = end else {
            return Self { refused: Some(REJECTED.into()), ..Self::default() };
        };
        let field =
            |keys: [&str; 2]| keys.iter().find_map(|key| answer.get(*key)).filter(|value| !value.is_null());
        let instruction = field(["userInstruction", "user_instruction"]).and_then(Json::as_str);
        Self {
            refused: (!is_approved(&answer)).then(|| REJECTED.to_owned()),
            edited: field(["editedParameters", "edited_parameters"])
                .filter(|edited| edited.is_object())
                .cloned(),
            instruction: instruction.filter(|text| !text.is_empty()).map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lp_a16_an_answer_gives_or_refuses_leave_and_may_change_the_arguments() {
        let of = |answer: Json| Leave::of(PauseEnd::Answered(answer));
        assert_eq!(of(json!({"approved": true})), Leave::default());
        let edited =
            of(json!({"approved": true, "editedParameters": {"q": "y"}, "userInstruction": "short"}));
        let expected =
            Leave { edited: Some(json!({"q": "y"})), instruction: Some("short".into()), refused: None };
        assert_eq!(edited, expected);
        let unanswered = [PauseEnd::Cancelled, PauseEnd::Expired].map(Leave::of);
        for refused in [of(json!({"approved": false})), of(json!("?"))].iter().chain(&unanswered) {
            assert_eq!(refused.refused.as_deref(), Some(REJECTED));
        }
    }

    #[test]
    fn lp_a16_whoever_is_asked_sees_the_arguments() {
        let call = ToolCall { id: "c".into(), name: "search".into(), arguments: r#"{"q":"x"}"#.into() };
        let spec = ToolSpec { name: "search".into(), description: "Finds".into(), parameters: json!({}) };
        let request = request("web/search", &spec, &call);
        assert_eq!(request.kind, PauseKind::ToolApproval);
        assert_eq!(request.details["arguments"], json!({"q": "x"}));
        assert_eq!((request.detail("tool_id"), request.detail("tool_description")), ("web/search", "Finds"));
    }
}
