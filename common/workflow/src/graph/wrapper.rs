//! Reads the fields that every node has besides the configuration of its type: title, version, error
//! strategy, default values, retry, and the engine's own `tidemill` block.

use serde_json::Value as Json;

use super::{Approval, ErrorStrategy, NodeSettings, RetryConfig, children, settings};
use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields};
use crate::nodes::hooks::Hooks;
use crate::nodes::{ExecutionType, NodeKind, default_value, is_own_form};
use tidemill_base::value::{JsonMap, Segment};

/// The wrapper of one node.
#[derive(Debug, Default)]
pub(super) struct Wrapper {
    pub(super) title: String,
    pub(super) version: String,
    pub(super) error_strategy: Option<ErrorStrategy>,
    pub(super) retry: RetryConfig,
    /// The same for the nodes inside it, whatever its own type.
    pub(super) child_retry: RetryConfig,
    pub(super) settings: NodeSettings,
    pub(super) hooks: Hooks,
    pub(super) confirm: Option<Box<Approval>>,
    pub(super) may_be_rejected: bool,
}

/// Reads the wrapper from `data`.
pub(super) fn read(data: &JsonMap, kind: Option<NodeKind>, problems: &mut Problems) -> Wrapper {
    let defaults = default_values(data, problems);
    let (retry, child_retry) = retry(data, kind, problems);
    Wrapper {
        title: text(data, "title", "", problems),
        version: text(data, "version", "1", problems),
        error_strategy: error_strategy(data, defaults, problems),
        retry,
        child_retry,
        settings: settings::read(data, kind, problems),
        hooks: hooks(data, kind, problems),
        confirm: confirm(data, kind, problems),
        may_be_rejected: may_be_rejected(data, kind),
    }
}

/// True when a person may be asked before or during the node's work, and may reject it. Node forms that do
/// not exist in Dify always count.
fn may_be_rejected(data: &JsonMap, kind: Option<NodeKind>) -> bool {
    kind.is_some_and(|kind| is_own_form(kind, data))
        || ["require_confirm", "enable_filling"]
            .iter()
            .any(|key| data.get(*key).is_some_and(|value| *value != false))
}

/// Reads the hooks. A node without a job cannot run them.
fn hooks(data: &JsonMap, kind: Option<NodeKind>, problems: &mut Problems) -> Hooks {
    let hooks = Hooks::parse(data, problems);
    let name = kind.map_or("", NodeKind::wire);
    let has_no_job = kind.is_some_and(|kind| {
        kind.spec().execution == ExecutionType::Container
            || matches!(kind, NodeKind::IterationStart | NodeKind::LoopStart | NodeKind::LoopEnd)
    });
    if hooks.is_empty() || !has_no_job {
        return hooks;
    }
    problems.within("hooks", |problems| {
        problems.warning("hooks.not_told", format!("hooks have no effect on a node of type {name}"));
    });
    Hooks::default()
}

fn text(data: &JsonMap, key: &str, default: &str, problems: &mut Problems) -> String {
    match data.get(key) {
        Some(Json::String(text)) => text.clone(),
        None => default.into(),
        Some(_) => {
            Fields::new(data, BUILD_FAILED).wrong(key, "a text", problems);
            default.into()
        }
    }
}

fn error_strategy(
    data: &JsonMap,
    defaults: Vec<(String, Segment)>,
    problems: &mut Problems,
) -> Option<ErrorStrategy> {
    let fields = Fields::new(data, BUILD_FAILED);
    fields.given("error_strategy")?;
    match fields.one_of("error_strategy", &["fail-branch", "default-value"], problems)? {
        "fail-branch" => Some(ErrorStrategy::FailBranch),
        _ => Some(ErrorStrategy::DefaultValue(defaults)),
    }
}

/// Dify checks default values even when the strategy does not use them.
fn default_values(data: &JsonMap, problems: &mut Problems) -> Vec<(String, Segment)> {
    match data.get("default_value") {
        None | Some(Json::Null) => Vec::new(),
        Some(list) => {
            let read = problems.within("default_value", |problems| default_value::parse(list, problems));
            read.unwrap_or_default()
        }
    }
}

fn retry(data: &JsonMap, kind: Option<NodeKind>, problems: &mut Problems) -> (RetryConfig, RetryConfig) {
    let outer = Fields::new(data, BUILD_FAILED);
    let Some(config) = outer.given("retry_config") else { return Default::default() };
    let Some(config) = config.as_object() else {
        outer.wrong("retry_config", "a mapping", problems);
        return Default::default();
    };
    problems.within("retry_config", |problems| {
        let fields = Fields::new(config, BUILD_FAILED);
        let is_own = kind.is_some_and(|kind| is_own_form(kind, data));
        let retries_max = fields.integer("max_retries", 0, 0, problems).unwrap_or(0);
        let unless_said = retries_max > 0 && is_own;
        let said = fields.given("retry_enabled");
        let wanted = match said {
            Some(_) => fields.boolean("retry_enabled", unless_said, problems).unwrap_or(false),
            None => unless_said,
        };
        let interval_ms = fields.integer("retry_interval", 0, 0, problems).unwrap_or(0);
        // Dify's editor keeps `max_retries` of a node whose retries are switched off. Old exports write `enabled`.
        let is_off = said.is_some() || fields.given("enabled") == Some(&Json::Bool(false));
        if retries_max > 0 && !wanted && !is_off {
            problems.warning_with_hint(
                "retry.not_enabled",
                "`max_retries` has no effect without `retry_enabled: true`",
                "set `retry_enabled: true`, or remove `max_retries`",
            );
        }
        let honoured = kind.is_none_or(|kind| kind.spec().retries);
        let has_children =
            data.get(children::FIELD).and_then(Json::as_array).is_some_and(|list| !list.is_empty());
        if wanted && retries_max > 0 && !honoured && !has_children {
            let name = kind.map_or("", NodeKind::wire);
            problems.warning("retry.not_honoured", format!("a node of type {name} is never tried again"));
        }
        let inside = RetryConfig {
            enabled: wanted,
            retries_max: u32::try_from(retries_max).unwrap_or(u32::MAX),
            interval_ms: interval_ms.unsigned_abs(),
        };
        (RetryConfig { enabled: wanted && honoured, ..inside }, inside)
    })
}

/// Reads `require_confirm`: true, or a mapping with `risk` and `reason`.
fn confirm(data: &JsonMap, kind: Option<NodeKind>, problems: &mut Problems) -> Option<Box<Approval>> {
    const FIELD: &str = "require_confirm";
    let outer = Fields::new(data, BUILD_FAILED);
    let empty = JsonMap::new();
    let given = match outer.given(FIELD)? {
        Json::Object(map) => map,
        _ => match outer.boolean(FIELD, false, problems)? {
            true => &empty,
            false => return None,
        },
    };
    if !kind.is_some_and(can_be_confirmed) {
        let name = kind.map_or("", NodeKind::wire);
        let message = format!("`{FIELD}` has no effect on a node of type {name}");
        problems.within(FIELD, |problems| problems.warning("settings.no_effect", message));
        return None;
    }
    problems.within(FIELD, |problems| {
        let fields = Fields::new(given, BUILD_FAILED);
        let risk = match fields.given("risk") {
            Some(_) => fields.one_of("risk", &["low", "medium", "high"], problems)?,
            None => "medium",
        };
        let reason = fields.given("reason").and_then(|_| fields.text("reason", problems));
        Some(Box::new(Approval { risk: risk.into(), reason: reason.unwrap_or_default().into() }))
    })
}

/// True when the type does something that a person can approve: not types that ask a person themselves, begin
/// a run, or only mark a place.
fn can_be_confirmed(kind: NodeKind) -> bool {
    let does = matches!(kind.spec().execution, ExecutionType::Executable | ExecutionType::Branch);
    let asks = matches!(kind, NodeKind::HumanInput | NodeKind::UserInteraction);
    let marks = matches!(kind, NodeKind::IterationStart | NodeKind::LoopStart | NodeKind::LoopEnd);
    does && !asks && !marks
}

/// Returns the id of the container that `data` names under `key`. `isInIteration` and similar keys are
/// ignored.
pub(super) fn owner<'a>(data: &'a JsonMap, key: &str) -> Option<&'a str> {
    data.get(key).and_then(Json::as_str).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_data(data: Json) -> (Wrapper, Vec<(&'static str, String)>) {
        let mut problems = Problems::new();
        let wrapper = read(data.as_object().unwrap(), Some(NodeKind::Code), &mut problems);
        (wrapper, problems.into_vec().into_iter().map(|p| (p.code, p.message)).collect())
    }

    #[test]
    fn a_wrapper_is_read_with_its_defaults_and_its_settings() {
        let (wrapper, problems) = read_data(json!({
            "title": "T", "error_strategy": "default-value",
            "default_value": [{"key": "text", "type": "string", "value": "x"}],
            "retry_config": {"retry_enabled": "true", "max_retries": "3", "retry_interval": 100},
            "tidemill": {"queue": "gpu", "runs_on": "worker", "queue_timeout_ms": 5},
        }));
        assert_eq!(problems, []);
        assert_eq!((wrapper.title.as_str(), wrapper.version.as_str()), ("T", "1"));
        assert_eq!(wrapper.retry, RetryConfig { enabled: true, retries_max: 3, interval_ms: 100 });
        assert_eq!((&*wrapper.settings.queue, wrapper.settings.on_worker), ("gpu", true));
        assert_eq!(wrapper.settings.queue_timeout_ms, Some(5));
        let expected = ErrorStrategy::DefaultValue(vec![("text".into(), Segment::string("x"))]);
        assert_eq!(wrapper.error_strategy, Some(expected));
    }

    #[test]
    fn every_wrong_field_of_a_wrapper_is_reported() {
        for (data, code) in [
            (json!({"title": 5}), BUILD_FAILED),
            (json!({"error_strategy": "retry"}), BUILD_FAILED),
            (json!({"default_value": 5}), BUILD_FAILED),
            (json!({"default_value": [5]}), BUILD_FAILED),
            (json!({"default_value": [{"type": "string"}]}), BUILD_FAILED),
            (json!({"retry_config": []}), BUILD_FAILED),
            (json!({"retry_config": {"max_retries": -1}}), BUILD_FAILED),
            (json!({"retry_config": {"max_retries": 2}}), "retry.not_enabled"),
        ] {
            let (_, problems) = read_data(data.clone());
            assert_eq!(problems.iter().map(|p| p.0).collect::<Vec<_>>(), [code], "{data}: {problems:?}");
        }
    }

    #[test]
    fn retries_that_the_file_switches_off_are_no_problem() {
        for switch in ["retry_enabled", "enabled"] {
            let (wrapper, problems) =
                read_data(json!({"retry_config": {switch: false, "max_retries": 3, "retry_interval": 100}}));
            assert_eq!((wrapper.retry.enabled, problems), (false, vec![]), "{switch}");
        }
    }

    #[test]
    fn our_own_node_forms_retry_unless_disabled() {
        let profile = json!({"profile_id": "fast", "prompt": "Hi"});
        for (config, enabled) in [
            (json!({"max_retries": 2}), true),
            (json!({"max_retries": 2, "retry_enabled": null}), true),
            (json!({"max_retries": 2, "retry_enabled": true}), true),
            (json!({"max_retries": 2, "retry_enabled": false}), false),
        ] {
            let mut data = profile.as_object().unwrap().clone();
            data.insert("retry_config".into(), config.clone());
            let mut problems = Problems::new();
            let wrapper = read(&data, Some(NodeKind::Llm), &mut problems);
            assert_eq!((wrapper.retry.enabled, wrapper.retry.retries_max), (enabled, 2), "{config}");
            assert_eq!(problems.into_vec(), [], "{config}");
        }
    }

    #[test]
    fn only_types_that_retry_do() {
        let data = json!({"retry_config": {"retry_enabled": true, "max_retries": 2}});
        let mut problems = Problems::new();
        let wrapper = read(data.as_object().unwrap(), Some(NodeKind::IfElse), &mut problems);
        assert!(!wrapper.retry.enabled);
        assert_eq!(problems.into_vec()[0].code, "retry.not_honoured");
    }
}
