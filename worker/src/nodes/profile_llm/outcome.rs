//! The record of a question in the run's history.

use serde_json::{Value as Json, json};
use tidemill_common::value::JsonMap;

use super::rounds::Ended;

/// The question.
pub(super) struct Question<'a> {
    pub(super) profile_id: Json,
    /// The prompt with secrets masked.
    pub(super) prompt: String,
    /// The usage the provider counted.
    pub(super) usage: Option<Json>,
    pub(super) calls: &'a [Json],
}

/// Builds the record: the question with its answer or error.
pub(super) fn history(question: &Question<'_>, ended: &Ended) -> JsonMap {
    let mut details =
        json!({"profileId": question.profile_id, "prompt": question.prompt, "usage": question.usage});
    match ended {
        Ok(reply) => details["response"] = reply.text.as_str().into(),
        Err(failed) => details["error"] = failed.failure.message.as_str().into(),
    }
    if !question.calls.is_empty() {
        details["toolCalls"] = Json::Array(question.calls.to_vec());
    }
    let record = json!({"action": "llm", "success": ended.is_ok(), "details": details});
    record.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tidemill_common::failure::NodeFailure;

    use super::*;
    use crate::nodes::profile_llm::failed::Failed;

    #[test]
    fn lp_a17_a_failed_call_is_in_the_history_too() {
        let question = Question { profile_id: json!("fast"), prompt: "Hi".into(), usage: None, calls: &[] };
        let failed = Failed::from(NodeFailure::new("LLMError", "LLM call failed: x"));
        let record = history(&question, &Err(failed));
        let expected = json!({
            "action": "llm", "success": false,
            "details": {"profileId": "fast", "prompt": "Hi", "usage": null, "error": "LLM call failed: x"},
        });
        assert_eq!(Json::Object(record), expected);
    }
}
