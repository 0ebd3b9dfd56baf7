//! Finds the annotation that answers a question.

use std::time::Duration;

use tidemill_common::annotations::{self, EXACT, ReplySetting, key_of};
use tidemill_common::store::{Annotation, App, StoreError};
use tidemill_common::value::JsonMap;

use super::PURPOSE;
use crate::submit::Submitter;
use crate::submit::inner::{Inner, InnerError};

/// The search among the questions of an app.
const SEARCH: &str = include_str!("search.yml");

/// The annotation that answers a question.
pub(in crate::submit) struct Matched {
    pub(in crate::submit) annotation: Annotation,
    /// 1 for an exact match.
    pub(in crate::submit) score: f64,
}

/// A question, the user who asks it, and the key that pays.
#[derive(Clone, Copy)]
pub(in crate::submit) struct Asked<'a> {
    pub(in crate::submit) query: &'a str,
    pub(in crate::submit) user: &'a str,
    pub(in crate::submit) key: Option<&'a str>,
}

impl Submitter {
    /// Returns the annotation that answers a question. As on Dify a search that fails finds nothing, and the workflow runs.
    ///
    /// # Errors
    /// Errors of the store.
    pub(in crate::submit) async fn matching_annotation(
        &self,
        app: &App,
        setting: &ReplySetting,
        asked: Asked<'_>,
    ) -> Result<Option<Matched>, StoreError> {
        let (found, count) =
            self.store.annotations().annotations_with(&app.id, &[key_of(asked.query)]).await?;
        if let Some(annotation) = found.into_iter().flatten().next() {
            return Ok(Some(Matched { annotation, score: EXACT }));
        }
        match &setting.embedding {
            Some(embedding) if count > 0 && self.has_index(&app.id, embedding).await? => {
                self.near(app, setting.threshold(), asked).await
            }
            // From the next question on, with the index.
            Some(embedding) if count > 0 => {
                let (id, embedding, key) = (&app.id, embedding, asked.key.map(str::to_owned));
                if let Err(error) = self.make_missing_index(id, embedding, key).await {
                    tracing::warn!(app = app.id, %error, "the questions of annotations cannot be indexed");
                }
                Ok(None)
            }
            Some(_) | None => Ok(None),
        }
    }

    /// The annotation whose question means nearly the same.
    async fn near(&self, app: &App, threshold: f64, asked: Asked<'_>) -> Result<Option<Matched>, StoreError> {
        let result = match self.searched(app, asked).await {
            Ok(outputs) => outputs,
            Err(error) => {
                // The message of a model's failure may repeat what it was asked.
                let error = match error {
                    InnerError::Failed { class, .. } => class,
                    InnerError::Submit(_)
                    | InnerError::Unreadable(_)
                    | InnerError::Late { .. }
                    | InnerError::Gone => error.to_string(),
                };
                tracing::warn!(
                    app = app.id,
                    error,
                    "no annotation can be found by meaning; the workflow runs"
                );
                return Ok(None);
            }
        };
        let near =
            result.get("result").map(|result| annotations::near(result, threshold)).unwrap_or_default();
        let keys: Vec<String> = near.iter().map(|(question, _)| key_of(question)).collect();
        if keys.is_empty() {
            return Ok(None);
        }
        let (found, _) = self.store.annotations().annotations_with(&app.id, &keys).await?;
        let living = found.into_iter().zip(near).find_map(|(found, (_, score))| Some((found?, score)));
        Ok(living.map(|(annotation, score)| Matched { annotation, score }))
    }

    async fn searched(&self, app: &App, asked: Asked<'_>) -> Result<JsonMap, InnerError> {
        let inner = Inner {
            purpose: PURPOSE,
            file: search_in(&app.id).into(),
            inputs: JsonMap::from_iter([("question".to_owned(), asked.query.into())]),
            user: asked.user.to_owned(),
            key: asked.key.map(str::to_owned),
            run: None,
            has_files: false,
            wait_max: Duration::from_secs(self.config.features.annotation_seconds_max),
            setting: "features.annotation_seconds_max",
        };
        Ok(self.inner(inner).await?.outputs)
    }
}

/// The search in an app's questions.
fn search_in(app: &str) -> String {
    // A JSON text is a text in YAML, too.
    SEARCH.replace("[DATASET]", &format!("[{}]", serde_json::json!(annotations::dataset_of(app))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_is_a_workflow_that_names_the_dataset_of_the_app() {
        let text = search_in("0b1e-\"'#{}");
        let imported = tidemill_common::graph::import(text.as_bytes());
        assert!(imported.is_usable(), "{:?}", imported.diagnostics);
        let Some(graph) = imported.graph else { panic!("no graph") };
        let named = tidemill_common::graph::datasets::unknown(&graph, |_| false);
        assert_eq!(named.into_keys().collect::<Vec<_>>(), ["inner:annotations:0b1e-\"'#{}"]);
    }
}
