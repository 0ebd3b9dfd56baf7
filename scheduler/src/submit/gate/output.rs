//! Moderation of answers by a server. It is asked once a run has ended, in an inner run whose id follows from the run: so
//! each process that shows the run, now or later, gets the same verdict, and the server is asked once. (Keywords need no
//! server: the projection decides by them.)

use serde_json::Value as Json;
use tidemill_common::dsl::moderation::Checker;
use tidemill_common::ids::{ExecutionId, RunId};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::StoreError;
use tidemill_common::value::JsonMap;

use super::asking::{Asked, For, about_output};
use crate::runs::record::RunRecord;
use crate::runs::render::Renderer;
use crate::submit::inner::InnerError;
use crate::submit::{SubmitError, Submitter};

/// The name from which the id of the inner run follows.
const STEP: &str = "output-moderation";

impl Submitter {
    /// The text that replaces the answer of a run that has ended; `None` when its answer stays. As on Dify, an answer
    /// stays when the server cannot say.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn withheld(
        &self,
        record: &RunRecord,
        render: &Renderer,
    ) -> Result<Option<String>, StoreError> {
        let Some(moderation) = self.workflows.moderation(render.features()) else { return Ok(None) };
        let Some(preset) = &moderation.outputs else { return Ok(None) };
        if matches!(moderation.by, Checker::Keywords(_))
            || !matches!(record.status, RunStatus::Succeeded | RunStatus::PartialSucceeded)
        {
            return Ok(None);
        }
        let mut outputs = record.outputs.clone();
        render.outputs(&mut outputs).await?;
        let text = text_of(&outputs);
        if text.is_empty() {
            return Ok(None);
        }
        let whom = For {
            app: record.app.as_deref().unwrap_or_default(),
            user: &record.user,
            key: record.key.as_deref(),
            run: Some(output_check(record.id)),
        };
        match self.ask_moderation(&moderation.by, Asked::Output(&text), whom).await {
            Ok(answer) => Ok(about_output(&moderation.by, &answer, preset)),
            Err(InnerError::Submit(SubmitError::Store(error))) => Err(error),
            Err(error) => {
                tracing::warn!(run = %record.id, %error, "an answer is shown that could not be moderated");
                Ok(None)
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
