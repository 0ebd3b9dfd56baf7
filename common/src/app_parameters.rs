//! What front-ends and plugins learn about an app before they show or call it: its form and its features, as Dify's
//! `GET /v1/parameters` has them. A feature that is switched on and not served here is shown as off.

use serde_json::{Value as Json, json};

use crate::config::Config;
use crate::dsl::features::{self, SPEECH_TO_TEXT, SUGGESTED, ServedFeatures, TEXT_TO_SPEECH, not_served};
use crate::dsl::moderation;
use crate::value::JsonMap;

/// Dify counts in these.
const MEGABYTE: u64 = 1024 * 1024;
const MORE_LIKE_THIS: &str = "more_like_this";
const RETRIEVER_RESOURCE: &str = "retriever_resource";
const MODERATION: &str = "sensitive_word_avoidance";
/// Features of which a plugin learns whether they are on, and these settings of them. The others may name models and keys.
const FOR_PLUGINS: [(&str, &[&str]); 5] = [
    (SUGGESTED, &[]),
    (SPEECH_TO_TEXT, &[]),
    (TEXT_TO_SPEECH, &["voice", "language"]),
    (RETRIEVER_RESOURCE, &[]),
    (MORE_LIKE_THIS, &[]),
];

/// What these settings serve and allow.
#[derive(Debug, Clone)]
pub struct AppSettings {
    features: ServedFeatures,
    moderation: moderation::Served,
    system_parameters: Json,
}

/// An app.
#[derive(Debug)]
pub struct ShownApp<'a> {
    pub features: &'a JsonMap,
    /// True for an app without a workflow of its own.
    pub is_simple: bool,
    /// The fields of its form, as [`crate::nodes::tool::form::shown`] makes them.
    pub form: Vec<Json>,
    /// True when an annotation reply is in force.
    pub has_annotation_reply: bool,
}

impl AppSettings {
    /// The part of the settings that matters here.
    pub fn of(config: &Config) -> Self {
        Self {
            features: config.features.served(),
            moderation: config.features.served_moderation(),
            system_parameters: system_parameters(config),
        }
    }

    /// The app for its front-ends: each feature as the file has it.
    pub fn shown(&self, app: ShownApp<'_>) -> Json {
        let ShownApp { features, is_simple, form, has_annotation_reply } = app;
        let feature = |name: &str, absent: Json| {
            if not_served(features, self.features).any(|one| one.name == name) {
                return json!({"enabled": false});
            }
            features.get(name).filter(|given| !given.is_null()).cloned().unwrap_or(absent)
        };
        let off = || json!({"enabled": false});
        json!({
            "opening_statement": feature("opening_statement", Json::Null),
            "suggested_questions": feature("suggested_questions", json!([])),
            SUGGESTED: feature(SUGGESTED, off()),
            SPEECH_TO_TEXT: feature(SPEECH_TO_TEXT, off()),
            TEXT_TO_SPEECH: feature(TEXT_TO_SPEECH, off()),
            RETRIEVER_RESOURCE: feature(RETRIEVER_RESOURCE, json!({"enabled": is_simple})),
            "annotation_reply": {"enabled": has_annotation_reply},
            MORE_LIKE_THIS: feature(MORE_LIKE_THIS, off()),
            "user_input_form": form,
            MODERATION: self.moderation(features),
            "file_upload": feature("file_upload", json!({"image": {
                "enabled": false, "number_limits": 3, "detail": "high", "transfer_methods": ["remote_url", "local_file"],
            }})),
            "system_parameters": self.system_parameters,
        })
    }

    /// The app for plugins: as [`Self::shown`], without what may name models and keys, and without the rules of moderation.
    pub fn for_plugins(&self, app: ShownApp<'_>) -> JsonMap {
        let Json::Object(mut shown) = self.shown(app) else { return JsonMap::new() };
        for (name, kept) in FOR_PLUGINS {
            let mut feature = JsonMap::new();
            feature.insert("enabled".into(), features::is_switched_on(&shown, name).into());
            for key in kept {
                if let Some(text) = shown[name].get(*key).filter(|value| value.is_string()) {
                    feature.insert((*key).into(), text.clone());
                }
            }
            shown.insert(name.into(), feature.into());
        }
        let kind = shown[MODERATION].get("type").and_then(Json::as_str).unwrap_or_default();
        let moderation =
            json!({"enabled": features::is_switched_on(&shown, MODERATION), "type": kind, "configs": []});
        shown.insert(MODERATION.into(), moderation);
        shown
    }

    /// The feature as the file has it if it is served: the settings may allow apps without it.
    fn moderation(&self, features: &JsonMap) -> Json {
        let is_served =
            moderation::of(features).is_some() && !moderation::is_unserved(features, &self.moderation);
        let given = features.get(MODERATION).filter(|_| is_served);
        given.cloned().unwrap_or_else(|| json!({"enabled": is_served, "type": "", "configs": []}))
    }
}

/// The limits of uploads: sizes in MB, as Dify tells them.
fn system_parameters(config: &Config) -> Json {
    let megabytes = |bytes: u64| bytes / MEGABYTE;
    json!({
        "image_file_size_limit": megabytes(config.uploads.image_bytes_max),
        "video_file_size_limit": megabytes(config.uploads.video_bytes_max),
        "audio_file_size_limit": megabytes(config.uploads.audio_bytes_max),
        "file_size_limit": megabytes(config.scheduler.upload_bytes_max),
        "workflow_file_upload_limit": config.uploads.workflow_files_max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 12] = [
        "opening_statement",
        "suggested_questions",
        "suggested_questions_after_answer",
        "speech_to_text",
        "text_to_speech",
        "retriever_resource",
        "annotation_reply",
        "more_like_this",
        "user_input_form",
        "sensitive_word_avoidance",
        "file_upload",
        "system_parameters",
    ];

    fn app(features: &JsonMap, is_simple: bool) -> ShownApp<'_> {
        ShownApp { features, is_simple, form: vec![json!({"number": {}})], has_annotation_reply: false }
    }

    #[test]
    fn an_app_without_features_has_difys_defaults_for_front_ends_and_plugins() {
        let mut config = Config::default();
        config.uploads.audio_bytes_max = 7 * MEGABYTE + 1;
        let (settings, features) = (AppSettings::of(&config), JsonMap::new());
        let off = json!({"enabled": false});
        let moderation = json!({"enabled": false, "type": "", "configs": []});
        let image = json!({
            "enabled": false, "number_limits": 3, "detail": "high", "transfer_methods": ["remote_url", "local_file"],
        });
        let limits = json!({
            "image_file_size_limit": 10, "video_file_size_limit": 100, "audio_file_size_limit": 7,
            "file_size_limit": 15, "workflow_file_upload_limit": 10,
        });
        for is_simple in [true, false] {
            let expected = json!({
                "opening_statement": null, "suggested_questions": [], "suggested_questions_after_answer": off,
                "speech_to_text": off, "text_to_speech": off, "retriever_resource": {"enabled": is_simple},
                "annotation_reply": off, "more_like_this": off, "user_input_form": [{"number": {}}],
                "sensitive_word_avoidance": moderation, "file_upload": {"image": image}, "system_parameters": limits,
            });
            assert_eq!(settings.shown(app(&features, is_simple)), expected);
            assert_eq!(Json::Object(settings.for_plugins(app(&features, is_simple))), expected);
            let shown = settings.for_plugins(app(&features, is_simple));
            assert_eq!(shown.keys().map(String::as_str).collect::<Vec<_>>(), KEYS);
        }
    }

    #[test]
    fn a_plugin_learns_no_model_no_key_and_no_rule_and_only_what_is_served_is_on() {
        let hush = || json!({"provider": "hush", "name": "hush", "completion_params": {"api_key": "hush"}});
        let features = json!({
            "opening_statement": "Hello", "suggested_questions": ["a"],
            "suggested_questions_after_answer": {"enabled": true, "model": hush(), "prompt": "hush"},
            "speech_to_text": {"enabled": true, "model": hush()},
            "text_to_speech": {"enabled": true, "voice": "nova", "language": "en", "model": hush()},
            "retriever_resource": {"enabled": true, "hush": 1}, "more_like_this": {"enabled": true, "model": hush()},
            "file_upload": {"enabled": true, "number_limits": 2},
            "annotation_reply": {"enabled": true, "embedding_model": hush()},
            "sensitive_word_avoidance": {"enabled": true, "type": "keywords", "config": {
                "keywords": "hush", "inputs_config": {"enabled": true, "preset_response": "no"},
            }},
        });
        let features = features.as_object().expect("features");
        let mut config = Config::default();
        config.features.text_to_speech = "openai/tts".into();
        let settings = AppSettings::of(&config);
        assert_eq!(settings.shown(app(features, false))["text_to_speech"]["model"]["name"], "hush");
        let shown = settings.for_plugins(app(features, false));
        assert_eq!(shown.keys().map(String::as_str).collect::<Vec<_>>(), KEYS);
        let (on, off) = (json!({"enabled": true}), json!({"enabled": false}));
        for (name, expected) in [
            ("opening_statement", json!("Hello")),
            ("suggested_questions", json!(["a"])),
            ("suggested_questions_after_answer", on.clone()),
            ("speech_to_text", off.clone()),
            ("text_to_speech", json!({"enabled": true, "voice": "nova", "language": "en"})),
            ("retriever_resource", on),
            ("more_like_this", off),
            ("file_upload", json!({"enabled": true, "number_limits": 2})),
            ("sensitive_word_avoidance", json!({"enabled": true, "type": "keywords", "configs": []})),
        ] {
            assert_eq!(shown[name], expected, "{name}");
        }
        let text = Json::Object(shown).to_string();
        assert!(!text.contains("hush"), "{text}");
    }
}
