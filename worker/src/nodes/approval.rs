//! Asks a person for approval of a tool call, if the run requires it.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::graph::Node;
use tidemill_common::nodes::llm::message::{ToolCall, ToolSpec};
use tidemill_common::nodes::pause::input::is_approved;
use tidemill_common::nodes::pause::{PauseKind, PauseRequest};
use tidemill_common::value::JsonMap;

use crate::attempt::journal::{Journal, PauseEnd};

/// The text for the model about a refused call.
const REJECTED: &str = "Tool call was rejected by user approval";

/// The conditions for asking.
#[derive(Clone, Copy)]
pub(crate) struct ApprovalRules<'a> {
    /// The job's journal.
    pub(crate) journal: &'a Journal,
    /// Tools that need no approval; `None` if no tool needs one.
    pub(crate) auto_approved: Option<&'a [Arc<str>]>,
    /// The node that makes the call.
    pub(crate) node: &'a Node,
}

impl ApprovalRules<'_> {
    /// Returns the approval of a call, after asking a person if the run requires it. `step` is the call's journal key,
    /// and `id` is the tool's provider and name.
    pub(crate) async fn approval(
        &self,
        step: &str,
        (id, spec): (&str, &ToolSpec),
        call: &ToolCall,
    ) -> Approval {
        let is_free =
            |approved: &[Arc<str>]| approved.iter().any(|name| **name == *call.name || **name == *id);
        if self.auto_approved.is_none_or(is_free) {
            return Approval::default();
        }
        if self.node.child.is_some() {
            let why = "a tool that needs approval cannot be called by a node inside another";
            return Approval { refused: Some(why.into()), ..Approval::default() };
        }
        let request = request(id, spec, call);
        let asked = request.details.get("arguments").cloned().unwrap_or_default();
        let approval = Approval::of(self.journal.pause(&format!("approve:{step}"), request).await);
        // The person sees secrets masked. Restore them where the masks were left unchanged.
        let edited = approval.edited.map(|edited| self.journal.secrets().unmasked(edited, &asked));
        Approval { edited, ..approval }
    }
}

/// The decision about a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Approval {
    /// The reason for a refusal.
    pub(crate) refused: Option<String>,
    /// Arguments that replace the model's.
    pub(crate) edited: Option<Json>,
    /// An additional instruction to the model.
    pub(crate) instruction: Option<String>,
}

/// The question to the person.
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

impl Approval {
    /// Reads the decision from the end of the pause.
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
        let of = |answer: Json| Approval::of(PauseEnd::Answered(answer));
        assert_eq!(of(json!({"approved": true})), Approval::default());
        let edited =
            of(json!({"approved": true, "editedParameters": {"q": "y"}, "userInstruction": "short"}));
        let expected =
            Approval { edited: Some(json!({"q": "y"})), instruction: Some("short".into()), refused: None };
        assert_eq!(edited, expected);
        let unanswered = [PauseEnd::Cancelled, PauseEnd::Expired].map(Approval::of);
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
