//! Asks OpenAI's moderation or an API extension, which only a worker can: in an inner run. The order and the reading of the
//! answer are here, and pure.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value as Json, json};
use tidemill_common::config::{FeaturesConfig, model_of};
use tidemill_common::dsl::moderation::Checker;
use tidemill_common::ids::RunId;
use tidemill_common::value::JsonMap;
use tidemill_common::value::pyrepr::str_of;

use super::input::Verdict;
use crate::submit::Submitter;
use crate::submit::inner::{Inner, InnerEnd, InnerError};

/// The workflow of the inner run.
const FILE: &str = include_str!("moderation.yml");
const PURPOSE: &str = "moderation";
const SETTING: &str = "features.moderation_seconds_max";
/// The name under which Dify gives the question to a check of inputs.
const QUERY: &str = "query__";

/// The texts to check.
pub(super) enum Asked<'a> {
    Inputs { inputs: &'a JsonMap, query: &'a str },
    Output(&'a str),
}

/// For whom a check is made.
pub(super) struct For<'a> {
    pub(super) app: &'a str,
    pub(super) user: &'a str,
    pub(super) key: Option<&'a str>,
    /// The id of the inner run; a new one by default.
    pub(super) run: Option<RunId>,
}

impl Submitter {
    /// Asks the server that this type of moderation names. Returns its answer. The type of the future is written out,
    /// because submitting the inner run leads back here.
    pub(super) fn ask_moderation<'a>(
        &'a self,
        by: &Checker,
        asked: &Asked<'_>,
        whom: &For<'_>,
    ) -> BoxFuture<'a, Result<Json, InnerError>> {
        let inner = self.check(by, asked, whom);
        Box::pin(async move { Ok(answer_of(&self.inner(inner).await?)) })
    }

    /// Begins to ask, and does not wait for the answer.
    pub(super) fn begin_to_ask<'a>(
        &'a self,
        by: &Checker,
        asked: &Asked<'_>,
        whom: &For<'_>,
    ) -> BoxFuture<'a, Result<RunId, InnerError>> {
        Box::pin(self.begin_inner(self.check(by, asked, whom)))
    }

    /// The run that asks.
    fn check(&self, by: &Checker, asked: &Asked<'_>, whom: &For<'_>) -> Inner {
        let features = &self.config.features;
        Inner {
            purpose: PURPOSE,
            file: FILE.into(),
            inputs: JsonMap::from_iter([("order".to_owned(), order(by, asked, whom.app, features))]),
            user: whom.user.to_owned(),
            key: whom.key.map(str::to_owned),
            run: whom.run,
            has_files: false,
            wait_max: Duration::from_secs(features.moderation_seconds_max),
            setting: SETTING,
        }
    }
}

/// The answer of the server.
pub(super) fn answer_of(end: &InnerEnd) -> Json {
    end.outputs.get("result").cloned().unwrap_or_default()
}

/// The order for the worker.
fn order(by: &Checker, asked: &Asked<'_>, app: &str, features: &FeaturesConfig) -> Json {
    match by {
        Checker::Api(extension) => {
            let (point, params) = match asked {
                Asked::Inputs { inputs, query } => {
                    ("app.moderation.input", json!({"app_id": app, "inputs": inputs, "query": query}))
                }
                Asked::Output(text) => ("app.moderation.output", json!({"app_id": app, "text": text})),
            };
            json!({"by": "api", "extension": extension, "point": point, "params": params})
        }
        Checker::Keywords(_) | Checker::OpenAi => {
            let text = match asked {
                Asked::Inputs { inputs, query } => {
                    let query = Some(Json::from(*query)).filter(|_| !query.is_empty());
                    let values = inputs.iter().filter(|(name, _)| *name != QUERY).map(|(_, value)| value);
                    let texts: Vec<_> = values.chain(&query).map(str_of).collect();
                    texts.join("\n")
                }
                Asked::Output(text) => (*text).to_owned(),
            };
            let model = model_of(&features.moderation_openai_model);
            let (provider, model) =
                model.map_or_else(Default::default, |model| (model.provider, model.model));
            json!({"by": "openai", "provider": provider, "model": model, "text": text})
        }
    }
}

/// Reads an answer about inputs. `preset` is the app's preset response, which OpenAI's moderation leaves to the app.
pub(super) fn about_inputs(by: &Checker, answer: &Json, preset: &str) -> Verdict {
    if answer["flagged"] != true {
        return Verdict::Passed;
    }
    let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
    match by {
        Checker::Api(_) if answer["action"] == "overridden" => Verdict::Overridden {
            inputs: answer["inputs"].as_object().cloned().unwrap_or_default(),
            query: text("query"),
        },
        Checker::Api(_) => Verdict::Flagged(text("preset_response")),
        Checker::Keywords(_) | Checker::OpenAi => Verdict::Flagged(preset.to_owned()),
    }
}

/// Reads an answer about an output: the text that replaces it, or `None`.
pub(super) fn about_output(by: &Checker, answer: &Json, preset: &str) -> Option<String> {
    if answer["flagged"] != true {
        return None;
    }
    let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
    Some(match by {
        Checker::Api(_) if answer["action"] == "overridden" => text("text"),
        Checker::Api(_) => text("preset_response"),
        Checker::Keywords(_) | Checker::OpenAi => preset.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_has_dify_s_points_and_params_or_the_texts_for_openai() {
        let features =
            FeaturesConfig { moderation_openai_model: "openai/omni".into(), ..FeaturesConfig::default() };
        let inputs = json!({"a": "x", "n": 1}).as_object().cloned().unwrap();
        let asked = Asked::Inputs { inputs: &inputs, query: "q" };
        let api = Checker::Api("e1".into());
        assert_eq!(
            order(&api, &asked, "app", &features),
            json!({"by": "api", "extension": "e1", "point": "app.moderation.input",
                   "params": {"app_id": "app", "inputs": {"a": "x", "n": 1}, "query": "q"}})
        );
        assert_eq!(
            order(&api, &Asked::Output("t"), "app", &features),
            json!({"by": "api", "extension": "e1", "point": "app.moderation.output",
                   "params": {"app_id": "app", "text": "t"}})
        );
        assert_eq!(
            order(&Checker::OpenAi, &asked, "app", &features),
            json!({"by": "openai", "provider": "openai", "model": "omni", "text": "x\n1\nq"})
        );
    }

    #[test]
    fn an_answer_passes_flags_or_overrides() {
        let api = Checker::Api("e1".into());
        for (by, answer, input, output) in [
            (&api, json!({"flagged": false, "action": "direct_output"}), Verdict::Passed, None),
            (&api, json!({}), Verdict::Passed, None),
            (
                &api,
                json!({"flagged": true, "action": "direct_output", "preset_response": "No."}),
                Verdict::Flagged("No.".into()),
                Some("No."),
            ),
            (
                &api,
                json!({"flagged": true, "action": "overridden", "inputs": {"a": "*"}, "query": "?", "text": "*"}),
                Verdict::Overridden {
                    inputs: json!({"a": "*"}).as_object().cloned().unwrap(),
                    query: "?".into(),
                },
                Some("*"),
            ),
            (&Checker::OpenAi, json!({"flagged": true}), Verdict::Flagged("Preset.".into()), Some("Preset.")),
        ] {
            assert_eq!(about_inputs(by, &answer, "Preset."), input, "{answer}");
            assert_eq!(about_output(by, &answer, "Preset.").as_deref(), output, "{answer}");
        }
    }
}
