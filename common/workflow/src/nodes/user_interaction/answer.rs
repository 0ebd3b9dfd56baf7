//! The result of an answer: the node's outputs and its handle.

use serde_json::{Value as Json, json};

use super::on_answer::{Effects, as_text};
use super::{InteractionType, TIMEOUT_HANDLE, UserInteractionData};
use crate::messages::{self, Message};
use crate::nodes::llm::Role;
use crate::nodes::pause::as_form::{APPROVE, REJECT};
use crate::nodes::pause::input::is_approved;
use crate::nodes::{NodeResult, PauseRequest};
use tidemill_base::value::{JsonMap, Segment};

/// The detail with an answer set in the workflow; then the user is not asked.
pub const PRESET: &str = "preset";

/// The failure message of a question that was not answered in time.
pub fn timed_out(timeout_ms: u64) -> String {
    format!("User interaction timeout after {timeout_ms}ms")
}

/// The message of a cancelled question.
pub const CANCELLED: &str = "User interaction cancelled";

/// A question to the user, and the time it was open.
#[derive(Debug, Clone, Copy)]
pub struct OpenQuestion<'a> {
    /// The question's id.
    pub id: &'a str,
    pub request: &'a PauseRequest,
    /// Milliseconds until the answer.
    pub waited_ms: u64,
}

impl UserInteractionData {
    /// The answer alone; for an approval true or false.
    pub fn input(&self, answer: &Json) -> Json {
        match self.interaction {
            InteractionType::Approval => is_approved(answer).into(),
            InteractionType::Input | InteractionType::Selection | InteractionType::Message => answer.clone(),
        }
    }

    /// The node's result for a valid answer.
    pub fn answered(&self, asked: OpenQuestion<'_>, answer: &Json, effects: Effects) -> NodeResult {
        let input = self.input(answer);
        let results = results(&effects);
        let mut outputs = vec![
            ("interaction_id".to_string(), Segment::string(asked.id)),
            ("interaction_type".into(), Segment::string(self.interaction.name())),
            ("input".into(), Segment::infer(input.clone())),
        ];
        let (content, handle) = match self.interaction {
            InteractionType::Approval => {
                let is_approved = is_approved(answer);
                outputs.push(("approved".into(), Segment::infer(is_approved.into())));
                let comment = answer.get("comment").map(as_text).unwrap_or_default();
                (comment, Some(if is_approved { APPROVE } else { REJECT }.to_string()))
            }
            InteractionType::Selection => {
                let chosen = as_text(&input);
                outputs.push(("selection".into(), Segment::string(chosen.clone())));
                (chosen.clone(), Some(chosen))
            }
            InteractionType::Input => (as_text(&input), None),
            InteractionType::Message => (asked.request.content.clone(), None),
        };
        outputs.push(("content".into(), Segment::string(content)));
        outputs.push(("results".into(), Segment::infer(results)));
        outputs.push(("execution_time".into(), Segment::infer(asked.waited_ms.into())));
        let message = effects.message.map(|(list, role, text)| {
            let role = Role::from_name(&role).unwrap_or(Role::User);
            Box::new(messages::Effects::appending(&list, vec![Message::text(role, text)]))
        });
        let mut result =
            NodeResult { updates: effects.updates, effects: message, ..NodeResult::outputs(outputs) };
        if let Some(handle) = handle {
            result.handle = handle;
        }
        result
    }

    /// The node's result when the run continues without an answer.
    pub fn unanswered(&self, asked: OpenQuestion<'_>) -> NodeResult {
        let outputs = vec![
            ("interaction_id".to_string(), Segment::string(asked.id)),
            ("interaction_type".into(), Segment::string(self.interaction.name())),
            ("execution_time".into(), Segment::infer(asked.waited_ms.into())),
        ];
        NodeResult { handle: TIMEOUT_HANDLE.into(), ..NodeResult::outputs(outputs) }
    }

    /// The name of the operation in events.
    pub fn operation(&self) -> &'static str {
        self.on_answer.operation().unwrap_or_else(|| self.interaction.name())
    }
}

/// The changes made by the answer, for people and for later nodes.
pub fn results(effects: &Effects) -> Json {
    let mut results = JsonMap::new();
    if !effects.updates.is_empty() {
        let set = effects
            .updates
            .iter()
            .map(|update| json!({"selector": [update.node, update.name], "value": update.value.value}));
        results.insert("variables".into(), set.collect());
    }
    if let Some((list, role, content)) = &effects.message {
        results.insert("message".into(), json!({"conversation_id": list, "role": role, "content": content}));
    }
    Json::Object(results)
}
