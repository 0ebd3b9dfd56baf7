//! Lets a model find missing input: first freely, then as JSON by the schema of the missing fields, with the earlier
//! mistakes. Only missing fields with valid values are taken. A failing model is not an error here; the fields stay
//! missing. Secrets in the input are masked, because no workflow has sent them to this model.

use serde_json::Value as Json;
use tidemill_common::language::Language;
use tidemill_common::nodes::step::{MASK, Secrets};
use tidemill_common::slots::answer::{in_reply, nested};
use tidemill_common::slots::prompt::{self, Sources};
use tidemill_common::slots::{Filled, Schema};
use tidemill_common::value::JsonMap;

use crate::attempt::journal::Journal;
use crate::outside::calls::model;
use crate::outside::calls::model::{StepModel, messages};
use crate::outside::providers::Providers;

/// Most tries of the second pass.
const TRIALS_MAX: u32 = 3;

/// The input of a search.
pub(crate) struct Search<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) sources: &'a Sources,
    pub(crate) language: Language,
    pub(crate) providers: &'a Providers,
    pub(crate) profile: Option<&'a str>,
    /// Secrets hidden from the model.
    pub(crate) secrets: &'a Secrets,
    /// The journal for the model calls.
    pub(crate) journal: &'a Journal,
    /// The prefix of their journal keys.
    pub(crate) key: &'a str,
}

/// The result of a search.
#[derive(Debug, Default)]
pub(crate) struct Searched {
    /// The reason the model could not be called.
    pub(crate) error: Option<String>,
    /// Prompt tokens, completion tokens.
    pub(crate) tokens: (u64, u64),
}

impl Search<'_> {
    /// Fills the fields that the model finds.
    pub(crate) async fn run(&self, filled: &mut Filled) -> Searched {
        let mut searched = Searched::default();
        if filled.is_complete() {
            return searched;
        }
        let model = match model::find(self.providers, self.profile).await {
            Ok(model) => model,
            Err(error) => return Searched { error: Some(error.message), ..searched },
        };
        let question = prompt::first(&self.shown(filled), self.sources, self.language);
        let mut answer = match self.ask(&model, 1, &question, &mut searched).await {
            Some(answer) => answer,
            None => return searched,
        };
        let mut before = filled.clone();
        self.take(filled, answer.as_ref());
        for trial in 1..=TRIALS_MAX {
            let Some(problem) = prompt::problem(&before, filled, answer.as_ref()) else { break };
            let problem = Some(problem.as_str()).filter(|_| trial > 1);
            let question = prompt::second(&self.shown(filled), self.sources, problem, self.language);
            answer = match self.ask(&model, trial + 1, &question, &mut searched).await {
                Some(answer) => answer,
                None => return searched,
            };
            before = filled.clone();
            self.take(filled, answer.as_ref());
            // A model that finds nothing is not asked again with the same question.
            if answer.as_ref().is_some_and(JsonMap::is_empty) {
                break;
            }
        }
        searched
    }

    fn take(&self, filled: &mut Filled, answer: Option<&JsonMap>) {
        if let Some(answer) = answer {
            filled.take_missing(self.schema, &without_masks(nested(answer)));
        }
    }

    /// A copy with secrets masked, to be sent to the model.
    fn shown(&self, filled: &Filled) -> Filled {
        Filled { data: self.secrets.masked_value(&filled.data), ..filled.clone() }
    }

    /// Returns the object in the reply, `Some(None)` if it has none, and `None` without a reply.
    async fn ask(
        &self,
        model: &StepModel,
        nth: u32,
        (system, user): &(String, String),
        searched: &mut Searched,
    ) -> Option<Option<JsonMap>> {
        let step = format!("{}:llm:{nth}", self.key);
        let user = self.journal.secrets().masked(self.secrets.masked(user));
        let asked = messages(system, &user);
        match model.ask(self.journal, &step, asked, JsonMap::new(), &mut |_| {}).await {
            Ok(reply) => {
                searched.tokens.0 += reply.usage.prompt_tokens;
                searched.tokens.1 += reply.usage.completion_tokens;
                Some(in_reply(&reply.text))
            }
            Err(failure) => {
                // The error may contain the question, which must not be logged.
                tracing::info!(
                    step,
                    error_type = failure.error_type,
                    "the model that fills missing input failed"
                );
                searched.error = Some(failure.message);
                None
            }
        }
    }
}

/// Removes values that only repeat a mask.
fn without_masks(value: Json) -> Json {
    let is_mask = |value: &Json| value.as_str().is_some_and(|text| text.contains(MASK));
    match value {
        Json::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !is_mask(value));
            kept.map(|(key, value)| (key, without_masks(value))).collect()
        }
        Json::Array(items) => items.into_iter().filter(|item| !is_mask(item)).map(without_masks).collect(),
        plain @ (Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_)) => plain,
    }
}
