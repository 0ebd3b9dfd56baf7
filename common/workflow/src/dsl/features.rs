//! App features that Tidemill does not serve, or serves only with a setting. A file that switches such a feature on runs,
//! and a warning says what is missing. Moderation has its own rules ([`super::moderation`]).

use super::Problems;
use tidemill_base::value::JsonMap;
use tidemill_base::warning::FEATURE_NOT_SERVED;

/// The feature that suggests questions after an answer.
pub const SUGGESTED: &str = "suggested_questions_after_answer";
/// The feature that turns speech into text.
pub const SPEECH_TO_TEXT: &str = "speech_to_text";
/// The feature that reads texts aloud.
pub const TEXT_TO_SPEECH: &str = "text_to_speech";

/// The features that the settings of a scheduler (`[features]`) switch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServedFeatures {
    /// `features.suggested_model` names a model. An app that names its own needs none.
    pub suggested_questions: bool,
    /// `features.speech_to_text` names a model.
    pub speech_to_text: bool,
    /// `features.text_to_speech` names a model.
    pub text_to_speech: bool,
}

/// A feature that is switched on and not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotServed {
    /// Its key in the file.
    pub name: &'static str,
    /// What does not happen.
    effect: &'static str,
    /// The setting that serves it, if there is one.
    setting: Option<&'static str>,
}

/// All of them, by their keys.
const FEATURES: [NotServed; 4] = [
    NotServed { name: "more_like_this", effect: "no further variants of an answer are made", setting: None },
    NotServed {
        name: SPEECH_TO_TEXT,
        effect: "speech is not converted to text",
        setting: Some("features.speech_to_text"),
    },
    NotServed {
        name: SUGGESTED,
        effect: "no questions are suggested after an answer",
        setting: Some("features.suggested_model"),
    },
    NotServed {
        name: TEXT_TO_SPEECH,
        effect: "answers are not read aloud",
        setting: Some("features.text_to_speech"),
    },
];

impl NotServed {
    /// The text of the warning.
    pub fn message(&self) -> String {
        let Self { name, effect, setting } = self;
        match setting {
            Some(setting) => format!(
                "the feature `{name}` is enabled, and a scheduler serves it only if {setting} names a model: {effect}"
            ),
            None => format!("the feature `{name}` is enabled, and Tidemill does not serve it: {effect}"),
        }
    }

    /// What ends the warning.
    pub fn hint(&self) -> String {
        match self.setting {
            Some(setting) => format!("set {setting}, or disable the feature in the app"),
            None => "disable it in the app, and this warning is gone".to_owned(),
        }
    }
}

/// True when a feature is switched on in the file.
pub fn is_switched_on(features: &JsonMap, name: &str) -> bool {
    features.get(name).is_some_and(super::moderation::is_on)
}

/// True when a feature that these settings may switch on is served: the file enables it, and it has a model.
pub fn is_served(features: &JsonMap, name: &str, served: ServedFeatures) -> bool {
    let has_model = match name {
        SUGGESTED => served.suggested_questions || names_model(features),
        SPEECH_TO_TEXT => served.speech_to_text,
        TEXT_TO_SPEECH => served.text_to_speech,
        _ => false,
    };
    has_model && is_switched_on(features, name)
}

/// True when the app itself names the model that suggests questions.
fn names_model(features: &JsonMap) -> bool {
    let model = features.get(SUGGESTED).and_then(|feature| feature.get("model"));
    let is_text = |key: &str| {
        model.and_then(|model| model.get(key)?.as_str()).is_some_and(|text| !text.trim().is_empty())
    };
    is_text("provider") && is_text("name")
}

/// Returns the features that are switched on and not served.
pub fn not_served(features: &JsonMap, served: ServedFeatures) -> impl Iterator<Item = NotServed> {
    FEATURES.into_iter().filter(move |feature| {
        is_switched_on(features, feature.name) && !is_served(features, feature.name, served)
    })
}

/// Warns of each feature that is switched on and not served. The current path must be that of the features.
pub(super) fn warn(features: &JsonMap, served: ServedFeatures, problems: &mut Problems) {
    for feature in not_served(features, served) {
        problems.within(feature.name, |problems| {
            problems.warning_with_hint(FEATURE_NOT_SERVED, feature.message(), feature.hint());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl::Severity;
    use serde_json::{Value as Json, json};

    #[test]
    fn each_feature_that_is_on_and_not_served_is_one_warning() {
        let (none, speech) = (
            ServedFeatures::default(),
            ServedFeatures { speech_to_text: true, text_to_speech: true, ..ServedFeatures::default() },
        );
        let own = json!({"enabled": true, "model": {"provider": "openai", "name": "gpt-4o-mini"}});
        for (features, served, expected) in [
            (json!({}), none, vec![]),
            (json!({"text_to_speech": {"enabled": false, "voice": "x"}, "speech_to_text": {}}), none, vec![]),
            (json!({"retriever_resource": {"enabled": true}, "opening_statement": "Hi"}), none, vec![]),
            (json!({"sensitive_word_avoidance": {"enabled": true}}), none, vec![]),
            (json!({"suggested_questions": ["a"], "file_upload": {"enabled": true}}), none, vec![]),
            (json!({"text_to_speech": {"enabled": true}}), none, vec!["text_to_speech"]),
            (json!({"text_to_speech": {"enabled": true}}), speech, vec![]),
            (
                json!({"speech_to_text": {"enabled": true}, "annotation_reply": {"enabled": true}}),
                none,
                vec!["speech_to_text"],
            ),
            (json!({SUGGESTED: {"enabled": true}}), speech, vec![SUGGESTED]),
            (
                json!({SUGGESTED: {"enabled": true, "model": {"provider": "", "name": ""}}}),
                none,
                vec![SUGGESTED],
            ),
            (json!({SUGGESTED: own}), none, vec![]),
        ] {
            let Json::Object(features) = features else { panic!("no features") };
            let mut problems = Problems::new();
            warn(&features, served, &mut problems);
            let found = problems.into_vec();
            let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
            assert_eq!(paths, expected);
            assert!(
                found.iter().all(|one| one.severity == Severity::Warning && one.code == FEATURE_NOT_SERVED)
            );
        }
    }

    #[test]
    fn a_warning_names_the_setting_that_serves_the_feature() {
        let features = json!({"speech_to_text": {"enabled": true}, "more_like_this": {"enabled": true}});
        let Json::Object(features) = features else { panic!("no features") };
        let found: Vec<_> = not_served(&features, ServedFeatures::default()).collect();
        assert_eq!(
            found.iter().map(|one| one.name).collect::<Vec<_>>(),
            ["more_like_this", "speech_to_text"]
        );
        assert!(!found[0].message().contains("features."), "{}", found[0].message());
        assert!(found[1].message().contains("features.speech_to_text"), "{}", found[1].message());
        assert!(found[1].hint().contains("set features.speech_to_text"), "{}", found[1].hint());
    }
}
