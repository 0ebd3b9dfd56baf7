//! The rules of an app's moderation, read from its features, and the decision by keywords. Pure: the other ways of
//! deciding ask a server, which a worker does.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{SPELLINGS, is_on, is_true};
use tidemill_base::value::JsonMap;

/// What an app checks, by which means, and what it answers instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moderation {
    /// Decides whether a text is flagged.
    pub by: Checker,
    /// The preset answer to flagged inputs; `None` when inputs are not checked.
    pub inputs: Option<String>,
    /// The text that replaces a flagged answer; `None` when answers are not checked.
    pub outputs: Option<String>,
}

/// The means by which texts are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checker {
    /// Words that must not occur.
    Keywords(Keywords),
    /// OpenAI's moderation API.
    OpenAi,
    /// An API extension, by the id that the file has for it.
    Api(String),
}

/// Words that must not occur, in any case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keywords(Vec<String>);

impl Keywords {
    /// Reads one word or phrase a line, as Dify: spaces around it count, empty lines do not.
    fn read(lines: &str) -> Self {
        Self(lines.split('\n').filter(|line| !line.is_empty()).map(str::to_lowercase).collect())
    }

    /// True when one of them is in the text, also inside a longer word, as on Dify.
    pub fn are_in(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.0.iter().any(|word| text.contains(word.as_str()))
    }

    /// Replaces each text with one of them, at any depth.
    pub fn clean(&self, value: &mut Json, by: &str) {
        match value {
            Json::String(text) if self.are_in(text) => by.clone_into(text),
            Json::Array(items) => items.iter_mut().for_each(|item| self.clean(item, by)),
            Json::Object(fields) => fields.values_mut().for_each(|field| self.clean(field, by)),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
    }

    /// The length of the longest one, in characters.
    pub fn chars_max(&self) -> usize {
        self.0.iter().map(|word| word.chars().count()).max().unwrap_or(0)
    }
}

/// The rules about outputs by keywords. The hash of a run that another run has called keeps them, for the worker that gives
/// its outputs to the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRules {
    keywords: Keywords,
    preset: String,
}

impl OutputRules {
    /// The field of the hash.
    pub const FIELD: &'static str = "output_rules";

    /// Those of an app; `None` when keywords do not decide about its outputs.
    pub fn of(moderation: &Moderation) -> Option<Self> {
        let (Checker::Keywords(keywords), Some(preset)) = (&moderation.by, &moderation.outputs) else {
            return None;
        };
        Some(Self { keywords: keywords.clone(), preset: preset.clone() })
    }

    /// Replaces each flagged text in the outputs.
    pub fn clean(&self, outputs: &mut JsonMap) {
        outputs.values_mut().for_each(|value| self.keywords.clean(value, &self.preset));
    }
}

/// Reads the moderation that the features switch on, with the key that does; `None` when it is off.
///
/// # Errors
/// The key, and the reason why nothing could be checked by these rules.
pub(super) fn read(features: &JsonMap) -> Result<Option<(&'static str, Moderation)>, (&'static str, String)> {
    let Some((name, feature)) = SPELLINGS
        .into_iter()
        .filter_map(|name| features.get(name).map(|feature| (name, feature)))
        .find(|(_, feature)| is_on(feature))
    else {
        return Ok(None);
    };
    rules(feature).map(|rules| Some((name, rules))).map_err(|why| (name, why))
}

fn rules(feature: &Json) -> Result<Moderation, String> {
    let config = &feature["config"];
    let by = match feature["type"].as_str().unwrap_or_default() {
        "keywords" => {
            let words = Keywords::read(config["keywords"].as_str().unwrap_or_default());
            if words.0.is_empty() {
                return Err("its `keywords` are empty".into());
            }
            Checker::Keywords(words)
        }
        "openai_moderation" => Checker::OpenAi,
        "api" => match config["api_based_extension_id"].as_str().unwrap_or_default() {
            "" => return Err("it names no `api_based_extension_id`".into()),
            id => Checker::Api(id.into()),
        },
        "" => return Err("it has no `type`".into()),
        other => return Err(format!("Tidemill does not know its type `{other}`")),
    };
    // An API extension gives the texts itself.
    let has_preset = !matches!(by, Checker::Api(_));
    let checked = |key: &str| {
        let half = &config[key];
        let preset = half["preset_response"].as_str().unwrap_or_default();
        match is_true(&half["enabled"]) {
            true if has_preset && preset.is_empty() => Err(format!("its `{key}` has no `preset_response`")),
            true => Ok(Some(preset.to_owned())),
            false => Ok(None),
        }
    };
    let (inputs, outputs) = (checked("inputs_config")?, checked("outputs_config")?);
    if inputs.is_none() && outputs.is_none() {
        return Err("neither `inputs_config` nor `outputs_config` is enabled".into());
    }
    Ok(Moderation { by, inputs, outputs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn features(feature: Json) -> JsonMap {
        JsonMap::from_iter([("sensitive_word_avoidance".to_owned(), feature)])
    }

    #[test]
    fn keywords_are_found_in_any_case_and_inside_words_as_on_dify() {
        for (words, text, is_flagged) in [
            ("bomb", "how to build a BOMB", true),
            ("Bomb", "bombastic", true),
            ("bomb\nNaïve", "so NAÏVE", true),
            ("a b", "a  b", false),
            (" bomb", "bomb", false),
            ("bomb\n\n", "anything", false),
            ("bomb", "", false),
            ("禁词", "这是禁词。", true),
        ] {
            assert_eq!(Keywords::read(words).are_in(text), is_flagged, "{words:?} in {text:?}");
        }
        assert_eq!(Keywords::read("ab\nçdé").chars_max(), 3);
    }

    #[test]
    fn the_outputs_of_a_called_run_are_cleaned_by_the_keywords_that_its_hash_has() {
        let by = Checker::Keywords(Keywords::read("bomb"));
        let moderation = Moderation { by, inputs: None, outputs: Some("Sorry.".into()) };
        let kept = serde_json::to_string(&OutputRules::of(&moderation).unwrap()).unwrap();
        let rules: OutputRules = serde_json::from_str(&kept).unwrap();
        let mut outputs = json!({"a": "BOMBS", "b": ["ok", {"c": "a bomb"}], "n": 1});
        rules.clean(outputs.as_object_mut().unwrap());
        assert_eq!(outputs, json!({"a": "Sorry.", "b": ["ok", {"c": "Sorry."}], "n": 1}));
        assert_eq!(OutputRules::of(&Moderation { outputs: None, ..moderation.clone() }), None);
        assert_eq!(OutputRules::of(&Moderation { by: Checker::OpenAi, ..moderation }), None);
    }

    #[test]
    fn the_rules_of_each_type_are_read() {
        let half = |preset: &str| json!({"enabled": true, "preset_response": preset});
        let off = json!({"enabled": false, "preset_response": "x"});
        for (feature, expected) in [
            (
                json!({"enabled": true, "type": "keywords",
                       "config": {"keywords": "A\nb", "inputs_config": half("No."), "outputs_config": off}}),
                (Checker::Keywords(Keywords(vec!["a".into(), "b".into()])), Some("No."), None),
            ),
            (
                json!({"enabled": true, "type": "openai_moderation",
                       "config": {"inputs_config": half("No."), "outputs_config": half("Sorry.")}}),
                (Checker::OpenAi, Some("No."), Some("Sorry.")),
            ),
            (
                json!({"enabled": true, "type": "api",
                       "config": {"api_based_extension_id": "e1", "inputs_config": {"enabled": true}}}),
                (Checker::Api("e1".into()), Some(""), None),
            ),
        ] {
            let (_, read) = read(&features(feature)).unwrap().unwrap();
            let (by, inputs, outputs) = expected;
            let text = |preset: Option<&str>| preset.map(str::to_owned);
            assert_eq!(read, Moderation { by, inputs: text(inputs), outputs: text(outputs) });
        }
        assert_eq!(read(&JsonMap::new()), Ok(None));
    }

    #[test]
    fn rules_by_which_nothing_can_be_checked_are_errors() {
        let half = json!({"enabled": true, "preset_response": "No."});
        for (feature, named) in [
            (json!(true), "type"),
            (json!({"enabled": true}), "type"),
            (json!({"enabled": true, "type": "cloud_service"}), "cloud_service"),
            (json!({"enabled": true, "type": "keywords", "config": {"inputs_config": half}}), "keywords"),
            (
                json!({"enabled": true, "type": "keywords", "config": {"keywords": "\n", "inputs_config": half}}),
                "keywords",
            ),
            (json!({"enabled": true, "type": "keywords", "config": {"keywords": "a"}}), "outputs_config"),
            (
                json!({"enabled": true, "type": "keywords",
                       "config": {"keywords": "a", "outputs_config": {"enabled": true}}}),
                "preset_response",
            ),
            (
                json!({"enabled": true, "type": "api", "config": {"inputs_config": half}}),
                "api_based_extension_id",
            ),
        ] {
            let (name, why) = read(&features(feature.clone())).unwrap_err();
            assert_eq!(name, "sensitive_word_avoidance");
            assert!(why.contains(named), "{feature}: {why}");
        }
    }
}
