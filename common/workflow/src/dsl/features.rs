//! App features that Tidemill does not serve. A file that switches one on runs, and a warning says what is missing.
//! Moderation has its own rules ([`super::moderation`]).

use super::Problems;
use tidemill_base::value::JsonMap;
use tidemill_base::warning::FEATURE_NOT_SERVED;

/// What ends these warnings.
pub const HINT: &str = "disable it in the app, and this warning is gone";

/// Keys of the features, and what does not happen without them.
const NOT_SERVED: [(&str, &str); 5] = [
    ("annotation_reply", "no question is answered from annotations; the workflow runs for each question"),
    ("more_like_this", "no further variants of an answer are made"),
    ("speech_to_text", "speech is not converted to text"),
    ("suggested_questions_after_answer", "no questions are suggested after an answer"),
    ("text_to_speech", "answers are not read aloud"),
];

/// Returns the keys of the features that are switched on and not served, with what does not happen.
pub fn not_served(features: &JsonMap) -> impl Iterator<Item = (&'static str, &'static str)> {
    NOT_SERVED.into_iter().filter(move |(name, _)| is_on(features, name))
}

/// True if a feature is switched on.
pub fn is_on(features: &JsonMap, name: &str) -> bool {
    features.get(name).is_some_and(super::moderation::is_on)
}

/// The warning about such a feature.
pub fn message(name: &str, effect: &str) -> String {
    format!("the feature `{name}` is enabled, and Tidemill does not serve it: {effect}")
}

/// Warns of each feature that is switched on and not served. The current path must be that of the features.
pub(super) fn warn(features: &JsonMap, problems: &mut Problems) {
    for (name, effect) in not_served(features) {
        problems.within(name, |problems| {
            problems.warning_with_hint(FEATURE_NOT_SERVED, message(name, effect), HINT);
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
        for (features, expected) in [
            (json!({}), vec![]),
            (json!({"text_to_speech": {"enabled": false, "voice": "x"}, "speech_to_text": {}}), vec![]),
            (json!({"retriever_resource": {"enabled": true}, "opening_statement": "Hi"}), vec![]),
            (json!({"sensitive_word_avoidance": {"enabled": true}}), vec![]),
            (json!({"suggested_questions": ["a"], "file_upload": {"enabled": true}}), vec![]),
            (json!({"text_to_speech": {"enabled": true}}), vec!["text_to_speech"]),
            (
                json!({"speech_to_text": {"enabled": true}, "annotation_reply": {"enabled": true}}),
                vec!["annotation_reply", "speech_to_text"],
            ),
        ] {
            let Json::Object(features) = features else { panic!("no features") };
            let mut problems = Problems::new();
            warn(&features, &mut problems);
            let found = problems.into_vec();
            let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
            assert_eq!(paths, expected);
            assert!(
                found.iter().all(|one| one.severity == Severity::Warning && one.code == FEATURE_NOT_SERVED)
            );
        }
    }
}
