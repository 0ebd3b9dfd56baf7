//! Moderation of answers by a server. It is asked once a run has ended, in an inner run whose id follows from the run: so
//! each process that shows the run, now or later, gets the same verdict, and the server is asked once. (Keywords need no
//! server: the projection decides by them.)
//!
//! An answer is shown only once its check has ended. A check that fails shows the answer, as on Dify, and this is kept as well,
//! so that it is the same for each reader. While the check waits, no reader gets the answer.

use std::time::Duration;

use serde_json::Value as Json;
use tidemill_common::dsl::moderation::{Checker, Moderation};
use tidemill_common::ids::{ExecutionId, RunId};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::StoreError;
use tidemill_common::value::JsonMap;
use tokio::time::Instant;

use super::asking::{Asked, For, about_output, answer_of};
use crate::background::turns;
use crate::runs::record::RunRecord;
use crate::runs::render::Renderer;
use crate::submit::inner::InnerError;
use crate::submit::{SubmitError, Submitter};

/// The name from which the id of the inner run follows.
const STEP: &str = "output-moderation";
/// A check ends by itself at its limit. A reader waits so much longer for that.
const AFTER_LIMIT: Duration = Duration::from_secs(5);
/// Longest time between two looks, because hints may get lost.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Shortest time between two looks.
const LOOKS_APART: Duration = Duration::from_millis(20);

/// What is known about the answer of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AnswerVerdict {
    /// The text that replaces it; `None` when it stays.
    Decided(Option<String>),
    /// It is being checked.
    Awaited,
}

/// Why there is no verdict, so that an answer cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoVerdict {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The check has not ended in time.
    #[error("the answer has not been checked yet (features.moderation_seconds_max); try again in a moment")]
    Late,
}

impl Submitter {
    /// True when a server decides about the answers of workflows with these features.
    pub(crate) fn asks_about_answers(&self, features: &JsonMap) -> bool {
        self.rules_of_answers(features).is_some()
    }

    fn rules_of_answers(&self, features: &JsonMap) -> Option<Moderation> {
        let by_server = |it: &Moderation| !matches!(it.by, Checker::Keywords(_)) && it.outputs.is_some();
        self.workflows.moderation(features).filter(by_server)
    }

    /// The text that replaces the answer of a run that has ended; `None` when its answer stays. Waits for the check.
    ///
    /// # Errors
    /// [`NoVerdict`].
    pub(crate) async fn withheld(
        &self,
        record: &RunRecord,
        render: &Renderer,
    ) -> Result<Option<String>, NoVerdict> {
        let limit = Duration::from_secs(self.config.features.moderation_seconds_max);
        self.withheld_within(limit + AFTER_LIMIT, record, render).await
    }

    /// The same within this time. At zero it asks the server if it was not asked, and does not wait.
    ///
    /// # Errors
    /// [`NoVerdict`].
    pub(crate) async fn withheld_within(
        &self,
        wait_max: Duration,
        record: &RunRecord,
        render: &Renderer,
    ) -> Result<Option<String>, NoVerdict> {
        let until = Instant::now() + wait_max;
        if let AnswerVerdict::Decided(text) = self.verdict(record, render).await? {
            return Ok(text);
        }
        let mut following = self.store.follow(output_check(record.id));
        while Instant::now() < until {
            // The look covers all hints before it.
            following.take();
            if let AnswerVerdict::Decided(text) = self.verdict(record, render).await? {
                return Ok(text);
            }
            tokio::time::sleep(LOOKS_APART).await;
            let next = until.min(Instant::now() + LOOK_EVERY);
            // A hint that was lost is found by the next look.
            let _ = tokio::time::timeout_at(next, following.changed()).await;
        }
        Err(NoVerdict::Late)
    }

    /// What is known about the answer of a run. Begins the check if it has not begun.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn verdict(
        &self,
        record: &RunRecord,
        render: &Renderer,
    ) -> Result<AnswerVerdict, StoreError> {
        use AnswerVerdict::{Awaited, Decided};
        let ended =
            matches!(record.status, RunStatus::Succeeded | RunStatus::PartialSucceeded | RunStatus::Stopped);
        let Some(moderation) = self.rules_of_answers(render.features()).filter(|_| ended) else {
            return Ok(Decided(None));
        };
        let run = output_check(record.id);
        match self.status(run).await? {
            None => return self.begin_check(&moderation, record, render).await,
            Some((status, _)) if !status.is_over() => return Ok(Awaited),
            Some(_) => {}
        }
        match self.inner_end(run).await {
            Ok(Some(end)) => {
                let preset = moderation.outputs.as_deref().unwrap_or_default();
                Ok(Decided(about_output(&moderation.by, &answer_of(&end), preset)))
            }
            // It was removed a moment ago.
            Ok(None) => Ok(Awaited),
            Err(InnerError::Submit(SubmitError::Store(error))) => Err(error),
            Err(error) => {
                tracing::warn!(run = %record.id, %error, "an answer is shown that could not be moderated");
                Ok(Decided(None))
            }
        }
    }

    async fn begin_check(
        &self,
        moderation: &Moderation,
        record: &RunRecord,
        render: &Renderer,
    ) -> Result<AnswerVerdict, StoreError> {
        use AnswerVerdict::{Awaited, Decided};
        let mut outputs = record.outputs.clone();
        render.outputs(&mut outputs).await?;
        let mut text = text_of(&outputs);
        if record.status == RunStatus::Stopped {
            // Its text is in its events only.
            let shown = turns::shown_text(&*self.store, render, record.id).await?;
            text = [text, shown].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
        }
        if text.is_empty() {
            return Ok(Decided(None));
        }
        let whom = For {
            app: record.app.as_deref().unwrap_or_default(),
            user: &record.user,
            // A check must not depend on what the key has left.
            key: None,
            run: Some(output_check(record.id)),
        };
        match self.begin_to_ask(&moderation.by, &Asked::Output(&text), &whom).await {
            Ok(_) => Ok(Awaited),
            Err(InnerError::Submit(SubmitError::Store(error))) => Err(error),
            Err(InnerError::Submit(error)) if error.is_passing() => {
                tracing::debug!(run = %record.id, %error, "an answer waits, because it cannot be moderated yet");
                Ok(Awaited)
            }
            Err(error) => {
                tracing::warn!(run = %record.id, %error, "an answer is shown that could not be moderated");
                Ok(Decided(None))
            }
        }
    }
}

/// The id of the inner run that checks the output of a run.
pub(in crate::submit) fn output_check(run: RunId) -> RunId {
    // Any UUID names an execution; the run's own is always there.
    let name: ExecutionId = run.to_string().parse().unwrap_or_else(|_| unreachable!("a run's id is a UUID"));
    run.called_by(&name, STEP, 1)
}

/// The texts in the outputs of a run.
fn text_of(outputs: &JsonMap) -> String {
    let mut texts = Vec::new();
    outputs.values().for_each(|value| collect(value, &mut texts));
    texts.join("\n")
}

fn collect<'a>(value: &'a Json, texts: &mut Vec<&'a str>) {
    match value {
        Json::String(text) => texts.push(text),
        Json::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Json::Object(fields) if !fields.contains_key("dify_model_identity") => {
            fields.values().for_each(|field| collect(field, texts));
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tidemill_common::ids::ShardId;

    #[test]
    fn the_check_of_a_run_s_output_is_always_the_same_run_on_the_same_shard() {
        let (one, two) = (RunId::new(1, 2 << 20, ShardId(7)), RunId::new(1, 3 << 20, ShardId(7)));
        assert_eq!(output_check(one), output_check(one));
        assert_ne!(output_check(one), output_check(two));
        assert_ne!(output_check(one), one);
        assert_eq!(output_check(one).shard(), one.shard());
    }

    #[test]
    fn all_texts_of_outputs_are_checked_but_not_those_of_files() {
        let outputs = json!({"answer": "a", "n": 1, "more": ["b", {"c": "c"}],
            "files": [{"dify_model_identity": "__dify__file__", "filename": "x"}]});
        assert_eq!(text_of(outputs.as_object().unwrap()), "a\nb\nc");
    }
}
