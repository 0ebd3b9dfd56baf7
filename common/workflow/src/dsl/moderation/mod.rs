//! Moderation: the app feature with which Dify checks what users write and what models answer.
//!
//! Keywords are decided here ([`rules`]), so they are served everywhere. The other types need a setting. A workflow that
//! relies on moderation must not run unchecked: a file whose moderation is not served is refused, unless
//! `compat.moderation_left_out` allows it to run without moderation.
//!
//! [`warn`] is for a check of a file alone. [`settle`] and [`not_served`] are for a scheduler, which knows the settings.

mod rules;

use serde_json::Value as Json;

use super::{Diagnostic, Problems, Severity};
use tidemill_base::value::JsonMap;

pub use rules::{Checker, Keywords, Moderation, OutputRules};

/// The code of all these diagnostics.
pub const CODE: &str = "features.moderation";
/// The keys of the feature: in files, and in the state of Dify's editor, which some tools export.
const SPELLINGS: [&str; 3] = ["sensitive_word_avoidance", "sensitiveWordAvoidance", "moderation"];

/// The types of moderation besides keywords that an installation serves. By default none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Served {
    /// A model for OpenAI's moderation is set.
    pub openai: bool,
    /// The ids of the API extensions that are set.
    pub extensions: Vec<String>,
}

impl Served {
    fn serves(&self, by: &Checker) -> Result<(), String> {
        match by {
            Checker::OpenAi if !self.openai => {
                Err("its type `openai_moderation` needs the setting features.moderation_openai_model".into())
            }
            Checker::Api(id) if !self.extensions.contains(id) => Err(format!(
                "its API extension {id:?} needs an address in the settings: features.moderation_extensions"
            )),
            Checker::Keywords(_) | Checker::OpenAi | Checker::Api(_) => Ok(()),
        }
    }
}

/// Returns the moderation that these features switch on and that can be decided; `None` when there is none.
pub fn of(features: &JsonMap) -> Option<Moderation> {
    rules::read(features).ok().flatten().map(|(_, rules)| rules)
}

/// The key that switches moderation on, and the reason why it is not served; `None` when it is off or served.
fn unserved(features: &JsonMap, served: &Served) -> Option<(&'static str, String)> {
    match rules::read(features) {
        Ok(None) => None,
        Ok(Some((name, rules))) => served.serves(&rules.by).err().map(|why| (name, why)),
        Err(incomplete) => Some(incomplete),
    }
}

/// True when a feature with this configuration is enabled.
pub(super) fn is_on(feature: &Json) -> bool {
    match feature {
        Json::Object(feature) => feature.get("enabled").is_some_and(is_true),
        other => is_true(other),
    }
}

/// Decides as Python does, which Dify uses: any non-empty text is true. In doubt moderation counts as
/// enabled, so that a workflow is refused and not run unchecked.
fn is_true(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(is) => *is,
        Json::Number(number) => number.as_f64() != Some(0.0),
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(fields) => !fields.is_empty(),
    }
}

/// Warns when the features enable moderation that an installation without settings for it does not serve. The current path
/// must be that of the features.
pub(super) fn warn(features: &JsonMap, problems: &mut Problems) {
    let Some((name, why)) = unserved(features, &Served::default()) else { return };
    let message = format!(
        "moderation (`{name}`) is enabled, and {why}: publishing and running this workflow is refused where that is not so, \
         unless the schedulers are configured with compat.moderation_left_out = true"
    );
    let hint = "complete it, or disable it in the file; or set compat.moderation_left_out, and the workflow runs without it: \
                nothing checks what users write and what models answer";
    problems.within(name, |problems| problems.warning_with_hint(CODE, message, hint));
}

/// Turns the warning into the result for a scheduler: none if the moderation is served, else an error, or a warning that
/// moderation is left out.
pub fn settle(found: &mut Vec<Diagnostic>, features: &JsonMap, served: &Served, is_left_out: bool) {
    let Some((name, why)) = unserved(features, served) else {
        found.retain(|found| found.code != CODE);
        return;
    };
    for warning in found.iter_mut().filter(|found| found.code == CODE) {
        if is_left_out {
            warning.message = format!(
                "moderation (`{name}`) is enabled, but left out (compat.moderation_left_out): nothing checks what users \
                 write and what models answer ({why})"
            );
            warning.hint = None;
        } else {
            (warning.severity, warning.message, warning.hint) = (Severity::Error, refusal(name, &why), None);
        }
    }
}

/// Returns the error for a published workflow whose features enable moderation that is not served; `place` is the path of
/// the features in its file. The caller checks the setting.
pub fn not_served(features: &JsonMap, served: &Served, place: &str) -> Option<Diagnostic> {
    unserved(features, served).map(|(name, why)| Diagnostic {
        severity: Severity::Error,
        code: CODE,
        path: format!("{place}.{name}"),
        line: None,
        message: refusal(name, &why),
        hint: None,
    })
}

/// True when the features enable moderation that is not served.
pub fn is_unserved(features: &JsonMap, served: &Served) -> bool {
    unserved(features, served).is_some()
}

fn refusal(name: &str, why: &str) -> String {
    format!(
        "moderation (`{name}`) is enabled, and {why}; or disable it in the workflow, or set \
         compat.moderation_left_out = true to run workflows without it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::import;
    use serde_json::json;

    fn features(of: Json) -> JsonMap {
        match of {
            Json::Object(map) => map,
            other => panic!("no features: {other}"),
        }
    }

    #[test]
    fn a_moderation_that_is_on_and_not_served_is_refused() {
        let keywords =
            json!({"keywords": "bad", "inputs_config": {"enabled": true, "preset_response": "No."}});
        for on in [
            json!({"sensitive_word_avoidance": {"enabled": true, "type": "openai_moderation", "config": keywords}}),
            // The form that the first versions of Dify wrote.
            json!({"sensitive_word_avoidance": {"enabled": true, "words": "bad", "canned_response": "No."}}),
            json!({"sensitive_word_avoidance": {"enabled": 1}}),
            json!({"sensitive_word_avoidance": {"enabled": "true"}}),
            json!({"sensitive_word_avoidance": true}),
            json!({"sensitiveWordAvoidance": {"enabled": true}}),
            json!({"moderation": {"enabled": true, "type": "openai_moderation"}}),
        ] {
            assert!(is_unserved(&features(on.clone()), &Served::default()), "{on}");
        }
        for off in [
            json!({}),
            // Keywords need no setting.
            json!({"sensitive_word_avoidance": {"enabled": true, "type": "keywords", "config": keywords}}),
            json!({"sensitive_word_avoidance": null}),
            json!({"sensitive_word_avoidance": {}}),
            json!({"sensitive_word_avoidance": {"enabled": false, "type": "keywords", "config": keywords}}),
            json!({"sensitive_word_avoidance": {"enabled": null}}),
            json!({"sensitive_word_avoidance": {"type": "keywords", "config": keywords}}),
            json!({"moderation": {"enabled": false}, "text_to_speech": {"enabled": true}}),
        ] {
            assert!(!is_unserved(&features(off.clone()), &Served::default()), "{off}");
        }
    }

    const GRAPH: &str = "
    nodes:
    - {id: start, data: {type: start, title: Begin, variables: []}}
    - {id: end, data: {type: end, title: Finish, outputs: []}}
    edges:
    - {id: e1, source: start, target: end, sourceHandle: source, targetHandle: target}
";

    fn app(enabled: &str) -> String {
        format!(
            "kind: app\nversion: 0.6.0\napp: {{mode: workflow, name: Moderated}}\nworkflow:\n  features:\n    \
             sensitive_word_avoidance:\n      enabled: {enabled}\n  graph:{GRAPH}"
        )
    }

    #[test]
    fn a_check_accepts_the_file_and_names_feature_and_setting() {
        // YAML 1.1, as Dify's reader uses it.
        for enabled in ["true", "yes"] {
            let imported = import(app(enabled).as_bytes());
            assert!(imported.is_usable(), "{:?}", imported.diagnostics);
            let [warning] = &imported.diagnostics[..] else { panic!("{:?}", imported.diagnostics) };
            assert_eq!((warning.severity, warning.code, warning.line), (Severity::Warning, CODE, Some(6)));
            assert_eq!(warning.path, "workflow.features.sensitive_word_avoidance");
            for named in ["sensitive_word_avoidance", "compat.moderation_left_out"] {
                assert!(warning.message.contains(named), "{named}: {}", warning.message);
            }
        }
        for enabled in ["false", "no"] {
            assert_eq!(import(app(enabled).as_bytes()).diagnostics, []);
        }
    }

    #[test]
    fn features_beside_a_bare_graph_count_too() {
        let features = "features: {sensitive_word_avoidance: {enabled: true}}\n";
        for file in [
            format!("{features}graph:{GRAPH}"),
            format!("{features}graph_config:{GRAPH}"),
            format!("kind: graph\n{features}workflow:\n  graph:{GRAPH}"),
            format!("kind: graph\nworkflow:\n  {features}  graph:{GRAPH}"),
            format!("{features}{}", GRAPH.replace("\n    ", "\n")),
        ] {
            let imported = import(file.as_bytes());
            let codes: Vec<&str> = imported.diagnostics.iter().map(|found| found.code).collect();
            assert_eq!((imported.is_usable(), codes), (true, vec![CODE]), "{file}");
        }
    }

    #[test]
    fn a_scheduler_refuses_it_or_says_that_it_is_left_out() {
        let found = import(app("true").as_bytes()).diagnostics;
        let settled = |is_left_out: bool| {
            let mut found = found.clone();
            settle(&mut found, &enabled(), &Served::default(), is_left_out);
            let [settled] = &found[..] else { panic!("{found:?}") };
            assert!(settled.message.contains("compat.moderation_left_out"), "{settled}");
            assert_eq!((settled.line, settled.hint.as_deref()), (Some(6), None));
            settled.severity
        };
        assert_eq!((settled(false), settled(true)), (Severity::Error, Severity::Warning));
    }

    fn enabled() -> JsonMap {
        features(json!({"sensitive_word_avoidance": {"enabled": true}}))
    }

    #[test]
    fn what_the_settings_serve_is_not_refused() {
        let check = json!({"enabled": true, "preset_response": "No."});
        let of_type = |name: &str| {
            let config = json!({"api_based_extension_id": "e1", "inputs_config": check});
            features(json!({"sensitive_word_avoidance": {"enabled": true, "type": name, "config": config}}))
        };
        let served = |openai: bool, extension: &str| Served { openai, extensions: vec![extension.into()] };
        for (name, served, named) in [
            ("openai_moderation", served(true, ""), None),
            ("openai_moderation", served(false, "e1"), Some("features.moderation_openai_model")),
            ("api", served(false, "e1"), None),
            ("api", served(true, "e2"), Some("features.moderation_extensions")),
        ] {
            let refused = not_served(&of_type(name), &served, "model_config");
            match (&refused, named) {
                (None, None) => {}
                (Some(refused), Some(named)) => {
                    assert!(refused.message.contains(named), "{refused}");
                    assert_eq!(refused.path, "model_config.sensitive_word_avoidance");
                }
                _ => panic!("{name}: {refused:?}"),
            }
            let mut found: Vec<_> =
                not_served(&enabled(), &Served::default(), "workflow.features").into_iter().collect();
            settle(&mut found, &of_type(name), &served, false);
            assert_eq!(found.is_empty(), named.is_none(), "{name}");
        }
    }
}
