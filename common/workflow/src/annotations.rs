//! Annotations of chat apps: questions with prepared answers, and the decisions of the annotation reply. A question of a
//! user that matches the question of an annotation is answered from it, and the workflow does not run.
//!
//! The records are stored as JSON. Missing fields get their defaults and unknown ones are ignored, so that processes of
//! different versions read each other's records.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use crate::knowledge::records::{DatasetRecord, INNER, ModelName, Retrieval, SearchMethod, Technique};
use tidemill_base::value::JsonMap;

/// The key of the feature in workflow files.
pub const FEATURE: &str = "annotation_reply";
/// The score of a question that matches exactly.
pub const EXACT: f64 = 1.0;
/// Passages that a search by meaning returns. Questions of removed or changed annotations may be among them, because the
/// index is not rebuilt for these; they are skipped.
const NEAR_MAX: u32 = 20;
/// Difference below which a score counts as equal to the threshold: scores are sums of 32-bit numbers.
const ROUNDING: f64 = 1e-5;

/// A stored annotation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AnnotationRecord {
    pub question: String,
    pub answer: String,
    /// See [`key_of`].
    pub key: String,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds.
    pub updated_at: i64,
}

/// One use of an annotation, under Dify's names.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HitRecord {
    /// The message that was answered.
    pub message_id: String,
    /// The user's question.
    pub question: String,
    /// The annotation's question at that time.
    pub r#match: String,
    /// The annotation's answer at that time.
    pub response: String,
    /// 1 for an exact match.
    pub score: f64,
    /// The way that the question came; always `api`.
    pub source: String,
    pub user: String,
    /// Unix milliseconds.
    pub created_at: i64,
}

/// A job that switches the annotation reply of an app on or off.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct JobRecord {
    /// `enable` or `disable`.
    pub action: String,
    /// The runs that make the vectors; none when the job has nothing to wait for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
    /// The reason why there are no vectors; empty without an error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// The annotation reply of an app.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplySetting {
    pub enabled: bool,
    /// The least score of a match by meaning.
    pub score_threshold: f64,
    /// The model of the vectors; `None`: only exact matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<ModelName>,
}

impl ReplySetting {
    /// Returns the setting in force, or `None` when the annotation reply is off. A client's setting, `stored` with the app,
    /// replaces that of the file.
    pub fn in_force(stored: Option<&str>, features: &JsonMap) -> Option<Self> {
        let stored = stored.and_then(|text| serde_json::from_str::<Self>(text).ok());
        stored.or_else(|| Self::of_file(features)).filter(|setting| setting.enabled)
    }

    /// The setting of a workflow file; `None` when the file has none.
    fn of_file(features: &JsonMap) -> Option<Self> {
        let feature = features.get(FEATURE)?;
        let model = &feature["embedding_model"];
        let name = |key: &str| model[key].as_str().unwrap_or_default();
        Some(Self {
            enabled: feature["enabled"] == true,
            score_threshold: feature["score_threshold"].as_f64().unwrap_or(0.0),
            embedding: named(name("embedding_provider_name"), name("embedding_model_name")),
        })
    }

    /// The least score of a match by meaning. As on Dify, 0 stands for 1.
    pub fn threshold(&self) -> f64 {
        if self.score_threshold == 0.0 { EXACT } else { self.score_threshold }
    }
}

/// The model of these names; `None` when one of them is empty.
pub fn named(provider: &str, model: &str) -> Option<ModelName> {
    let (provider, model) = (provider.trim(), model.trim());
    let is_named = !provider.is_empty() && !model.is_empty();
    is_named.then(|| ModelName { provider: provider.into(), model: model.into() })
}

/// The key under which a question is found: questions match exactly when they differ only in white space at their ends.
pub fn key_of(question: &str) -> String {
    let digest = Sha256::digest(question.trim());
    digest[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// True when the question or the answer contains the keyword, in any case.
pub fn contains(record: &AnnotationRecord, keyword: &str) -> bool {
    let keyword = keyword.to_lowercase();
    [&record.question, &record.answer].into_iter().any(|text| text.to_lowercase().contains(&keyword))
}

/// The id of the dataset with an app's questions.
pub fn dataset_of(app: &str) -> String {
    format!("{INNER}annotations:{app}")
}

/// The dataset with an app's questions.
pub fn dataset(app: &str, embedding: ModelName, created_at: i64) -> DatasetRecord {
    DatasetRecord {
        id: dataset_of(app),
        name: dataset_of(app),
        indexing_technique: Technique::HighQuality,
        embedding: Some(embedding),
        retrieval: Retrieval {
            search_method: Some(SearchMethod::SemanticSearch),
            top_k: NEAR_MAX,
            ..Retrieval::default()
        },
        created_at,
        ..DatasetRecord::default()
    }
}

/// The questions among the result of a search that reach the threshold, with their scores, the best first.
pub fn near(result: &Json, threshold: f64) -> Vec<(String, f64)> {
    let items = result.as_array().into_iter().flatten();
    let scored = items.filter_map(|item| {
        let score = item["metadata"]["score"].as_f64()?;
        Some((item["content"].as_str()?.to_owned(), score))
    });
    let mut near: Vec<(String, f64)> = scored.filter(|(_, score)| *score + ROUNDING >= threshold).collect();
    near.sort_by(|a, b| b.1.total_cmp(&a.1));
    near
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn features(feature: Json) -> JsonMap {
        let mut features = JsonMap::new();
        features.insert(FEATURE.into(), feature);
        features
    }

    #[test]
    fn the_setting_of_a_client_replaces_that_of_the_file() {
        let on = json!({"enabled": true, "score_threshold": 0.8, "embedding_model":
            {"embedding_provider_name": "openai", "embedding_model_name": "e"}});
        let off = json!({"enabled": false});
        let stored_on = r#"{"enabled":true,"score_threshold":0.5}"#;
        for (stored, file, threshold, has_model) in [
            (None, on.clone(), Some(0.8), true),
            (None, off.clone(), None, false),
            (None, json!(null), None, false),
            (None, json!({"enabled": true}), Some(1.0), false),
            (Some(stored_on), off, Some(0.5), false),
            (Some(stored_on), on.clone(), Some(0.5), false),
            (Some(r#"{"enabled":false}"#), on.clone(), None, false),
            (Some("?"), on, Some(0.8), true),
        ] {
            let setting = ReplySetting::in_force(stored, &features(file.clone()));
            assert_eq!(setting.as_ref().map(ReplySetting::threshold), threshold, "{stored:?} {file}");
            assert_eq!(setting.is_some_and(|it| it.embedding.is_some()), has_model, "{stored:?} {file}");
        }
        assert_eq!(ReplySetting::in_force(None, &JsonMap::new()), None);
    }

    #[test]
    fn questions_match_exactly_when_only_white_space_at_the_ends_differs() {
        assert_eq!(key_of("What is it?"), key_of(" What is it?\n"));
        for other in ["what is it?", "What  is it?", "What is it", ""] {
            assert_ne!(key_of("What is it?"), key_of(other), "{other}");
        }
    }

    #[test]
    fn a_keyword_is_found_in_question_and_answer_in_any_case() {
        let record = AnnotationRecord {
            question: "Wo ist das BÜRO?".into(),
            answer: "In Bern, 100%".into(),
            ..AnnotationRecord::default()
        };
        for (keyword, is_in) in
            [("büro", true), ("BERN", true), ("100%", true), ("1_0", false), ("Ort", false)]
        {
            assert_eq!(contains(&record, keyword), is_in, "{keyword}");
        }
    }

    #[test]
    fn only_passages_that_reach_the_threshold_match_the_best_first() {
        let passage = |content: &str, score: Json| json!({"content": content, "metadata": {"score": score}});
        let result = json!([
            passage("low", json!(0.5)),
            passage("good", json!(0.8)),
            passage("best", json!(0.95)),
            passage("equal but for rounding", json!(0.799_999)),
            passage("without score", json!(null)),
        ]);
        let questions: Vec<String> = near(&result, 0.8).into_iter().map(|(question, _)| question).collect();
        assert_eq!(questions, ["best", "good", "equal but for rounding"]);
        assert!(near(&json!(null), 0.0).is_empty());
    }

    #[test]
    fn a_model_needs_both_names() {
        assert!(named("openai", "e").is_some());
        assert!(named("", "e").is_none() && named("openai", " ").is_none());
    }
}
