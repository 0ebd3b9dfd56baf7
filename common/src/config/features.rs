//! The settings of app features that Dify's service API has beside the workflow: which models serve them, and their limits.
//! A feature without its setting is not served: `/v1/parameters` says that it is off, and publishing warns.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Config, ConfigError};
use tidemill_base::hidden::{Hidden, HiddenUrl};
use tidemill_base::limits;
use tidemill_workflow::dsl::features::ServedFeatures;
use tidemill_workflow::dsl::moderation;

/// `[features]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FeaturesConfig {
    /// The model that suggests questions after an answer, where the app names none: `provider/model`, or the id of a
    /// profile; see [`model_of`].
    pub suggested_model: String,
    /// Longest wait for suggested questions, in seconds.
    pub suggested_seconds_max: u64,
    /// The model that turns speech into text, named likewise.
    pub speech_to_text: String,
    /// The model that reads texts aloud, named likewise.
    pub text_to_speech: String,
    /// Its voice, where neither the request nor the app names one.
    pub text_to_speech_voice: String,
    /// Longest wait for the text of a recording, or for the sound of a text, in seconds.
    pub speech_seconds_max: u64,
    /// Largest recording, in bytes.
    pub audio_bytes_max: u64,
    /// Longest text that is read aloud, in characters.
    pub speech_chars_max: usize,
    /// Most annotations of an app.
    pub annotations_max: u64,
    /// Longest annotation, question and answer together, in bytes.
    pub annotation_bytes_max: usize,
    /// Most uses of one annotation that are kept.
    pub annotation_hits_max: usize,
    /// Longest search for an annotation that matches a question, in seconds. Then the workflow runs.
    pub annotation_seconds_max: u64,
    /// The model of moderation by OpenAI, named likewise.
    pub moderation_openai_model: String,
    /// The API extensions that moderate, by the id that workflow files have for them.
    pub moderation_extensions: BTreeMap<String, ExtensionConfig>,
    /// Longest wait for the answer of either, in seconds.
    pub moderation_seconds_max: u64,
}

/// An API extension, as on Dify: it gets `POST {endpoint}` with a `point` and its `params`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExtensionConfig {
    pub endpoint: HiddenUrl,
    /// The key, sent as `Authorization: Bearer`; prefer `api_key_env`.
    pub api_key: Hidden,
    /// The environment variable of the workers with the key.
    pub api_key_env: String,
}

impl Default for FeaturesConfig {
    fn default() -> Self {
        Self {
            suggested_model: String::new(),
            suggested_seconds_max: limits::SUGGESTED_SECONDS_MAX,
            speech_to_text: String::new(),
            text_to_speech: String::new(),
            text_to_speech_voice: "alloy".into(),
            speech_seconds_max: limits::SPEECH_SECONDS_MAX,
            audio_bytes_max: limits::AUDIO_BYTES_MAX,
            speech_chars_max: limits::SPEECH_CHARS_MAX,
            annotations_max: limits::ANNOTATIONS_MAX,
            annotation_bytes_max: limits::ANNOTATION_BYTES_MAX,
            annotation_hits_max: limits::ANNOTATION_HITS_MAX,
            annotation_seconds_max: limits::ANNOTATION_SECONDS_MAX,
            moderation_openai_model: String::new(),
            moderation_extensions: BTreeMap::new(),
            moderation_seconds_max: limits::MODERATION_SECONDS_MAX,
        }
    }
}

impl Config {
    /// Checks the settings of features; `origin` as for [`Config::check`].
    pub(super) fn check_features<'a>(&self, origin: &impl Fn(&str) -> &'a str) -> Result<(), ConfigError> {
        let features = &self.features;
        for (key, value) in [
            ("features.suggested_seconds_max", features.suggested_seconds_max),
            ("features.speech_seconds_max", features.speech_seconds_max),
            ("features.audio_bytes_max", features.audio_bytes_max),
            ("features.speech_chars_max", features.speech_chars_max as u64),
            ("features.annotations_max", features.annotations_max),
            ("features.annotation_bytes_max", features.annotation_bytes_max as u64),
            ("features.annotation_hits_max", features.annotation_hits_max as u64),
            ("features.annotation_seconds_max", features.annotation_seconds_max),
            ("features.moderation_seconds_max", features.moderation_seconds_max),
        ] {
            // The upper bound is far beyond any use, and prevents overflow in sums.
            if value == 0 || value > u64::from(u32::MAX) {
                let (key, origin) = (key.to_owned(), origin(key).to_owned());
                return Err(ConfigError::Value { key, origin, reason: format!("1 to {}", u32::MAX) });
            }
        }
        Ok(())
    }
}

impl FeaturesConfig {
    /// The features that these settings serve.
    pub fn served(&self) -> ServedFeatures {
        let names_model = |setting: &str| model_of(setting).is_some();
        ServedFeatures {
            suggested_questions: names_model(&self.suggested_model),
            speech_to_text: names_model(&self.speech_to_text),
            text_to_speech: names_model(&self.text_to_speech),
        }
    }

    /// The moderation that these settings serve.
    pub fn served_moderation(&self) -> moderation::Served {
        moderation::Served {
            openai: model_of(&self.moderation_openai_model).is_some(),
            extensions: self.moderation_extensions.keys().cloned().collect(),
        }
    }
}

/// A model as a setting names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedModel {
    /// The provider, or `profile/ID`.
    pub provider: String,
    /// The model's name; empty for a profile.
    pub model: String,
}

/// The model that the text of a setting names: `provider/model`, where the model is all after the first slash, or the id of a
/// profile, which has no slash. `None` for an empty text.
pub fn model_of(setting: &str) -> Option<NamedModel> {
    let named = match setting.trim() {
        "" => return None,
        text => match text.split_once('/') {
            Some(("profile", id)) => NamedModel { provider: format!("profile/{id}"), model: String::new() },
            Some((provider, model)) => NamedModel { provider: provider.into(), model: model.into() },
            None => NamedModel { provider: format!("profile/{text}"), model: String::new() },
        },
    };
    Some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_names_a_model_of_a_provider_or_a_profile() {
        for (setting, expected) in [
            ("", None),
            (" ", None),
            ("openai/gpt-4o-mini", Some(("openai", "gpt-4o-mini"))),
            ("router/meta/llama-3", Some(("router", "meta/llama-3"))),
            ("fast", Some(("profile/fast", ""))),
            ("profile/fast", Some(("profile/fast", ""))),
        ] {
            let named = model_of(setting);
            let found = named.as_ref().map(|it| (it.provider.as_str(), it.model.as_str()));
            assert_eq!(found, expected, "{setting}");
        }
    }
}
