//! Moderation of what a user writes, as Dify does it before a run: all inputs and the question.

use tidemill_common::dsl::moderation::{Checker, Keywords, Moderation};
use tidemill_common::value::pyrepr::str_of;
use tidemill_common::value::{JsonMap, Segment};

use super::asking::{Asked, For, about_inputs};
use crate::submit::inner::InnerError;
use crate::submit::{Submission, SubmitError, Submitter};

/// The decision about inputs and question.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    Passed,
    /// They are replaced, and the run begins with these.
    Overridden {
        inputs: JsonMap,
        query: String,
    },
    /// The run does not begin; this is the answer.
    Flagged(String),
}

impl Submitter {
    /// Checks inputs and question by these rules.
    pub(super) async fn check_inputs(
        &self,
        moderation: &Moderation,
        inputs: &[(String, Segment)],
        query: &str,
        submission: &Submission,
    ) -> Result<Verdict, SubmitError> {
        let Some(preset) = &moderation.inputs else { return Ok(Verdict::Passed) };
        match &moderation.by {
            Checker::Keywords(words) => Ok(by_keywords(words, inputs, query, preset)),
            by @ (Checker::OpenAi | Checker::Api(_)) => {
                // What a schedule starts has no text of a user, and must not wait for a server.
                if submission.schedule.is_some() {
                    return Ok(Verdict::Passed);
                }
                let inputs = inputs.iter().map(|(name, input)| (name.clone(), input.value.clone())).collect();
                let app = submission.workflow.app_id().unwrap_or_default();
                let (user, key) = (submission.user.as_str(), submission.key.as_deref());
                let asked = Asked::Inputs { inputs: &inputs, query };
                let answer = self.ask_moderation(by, &asked, &For { app: &app, user, key, run: None }).await;
                match answer {
                    Ok(answer) => Ok(about_inputs(by, &answer, preset)),
                    Err(InnerError::Submit(error)) => Err(error),
                    // As on Dify, nothing runs unchecked.
                    Err(error) => {
                        tracing::warn!(app, %error, "the moderation service does not check inputs, so a run is refused");
                        Err(SubmitError::ModerationFailed)
                    }
                }
            }
        }
    }
}

fn by_keywords(words: &Keywords, inputs: &[(String, Segment)], query: &str, preset: &str) -> Verdict {
    let is_flagged =
        words.are_in(query) || inputs.iter().any(|(_, input)| words.are_in(&str_of(&input.value)));
    if is_flagged { Verdict::Flagged(preset.to_owned()) } else { Verdict::Passed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};
    use tidemill_common::dsl::moderation;

    #[test]
    fn keywords_are_searched_in_the_question_and_in_each_value() {
        let features = json!({"sensitive_word_avoidance": {"enabled": true, "type": "keywords", "config": {
            "keywords": "bomb\nnone", "inputs_config": {"enabled": true, "preset_response": "No."},
        }}});
        let Some(rules) = features.as_object().and_then(moderation::of) else { panic!("no rules") };
        let Checker::Keywords(words) = rules.by else { panic!("other rules") };
        for (query, inputs, is_flagged) in [
            ("Hello", json!({}), false),
            ("A BOMB?", json!({}), true),
            ("Hello", json!({"topic": "bombs"}), true),
            ("Hello", json!({"list": ["x", {"deep": "Bomb"}]}), true),
            ("Hello", json!({"bomb": "its name is not checked"}), false),
            // Dify searches in the text that Python has for a value.
            ("Hello", json!({"absent": null}), true),
        ] {
            let Json::Object(inputs) = inputs else { panic!("no inputs") };
            let inputs: Vec<_> =
                inputs.into_iter().map(|(name, value)| (name, Segment::infer(value))).collect();
            let expected = if is_flagged { Verdict::Flagged("No.".into()) } else { Verdict::Passed };
            assert_eq!(by_keywords(&words, &inputs, query, "No."), expected, "{query} {inputs:?}");
        }
    }
}
