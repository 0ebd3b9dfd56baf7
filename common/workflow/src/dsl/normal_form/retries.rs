//! What a file leaves open about retries: whether `retry_config` without `retry_enabled` means tries, and whether an
//! http-request node without `retry_config` gets some.
//!
//! Settings decide both when a file is read; a stored workflow keeps what was decided then.

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::explain::{self, Rewrite};
use super::{Form, Part};
use tidemill_base::value::JsonMap;

/// The readings of retries: settings under `compat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetryReading {
    pub http_default: HttpRetryDefault,
    pub without_enabled: RetryWithoutEnabled,
}

/// The tries of an http-request node without `retry_config`: `compat.http_retry_default`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HttpRetryDefault {
    /// No tries, as Dify's server reads it.
    #[default]
    None,
    /// Three tries, 100 ms apart, as Dify's editor adds them when it opens the file.
    Editor,
}

/// The meaning of a `retry_config` that has `max_retries` and no `retry_enabled`: `compat.retry_without_enabled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryWithoutEnabled {
    /// On in a bare graph, off in an export, where Dify reads it as off.
    #[default]
    ByFile,
    On,
    Off,
}

const ENABLED: Form = Form { name: "retry-enabled", rewrite: enable, part: Part::NodeData };
const HTTP: Form = Form { name: "http-retry-default", rewrite: as_the_editor, part: Part::NodeData };
/// Said of a file with such a node, while the setting leaves it alone.
const NOTE: &str = "not rewritten: Dify's editor gives an http-request node without retry_config three tries, its server \
                    none (compat.http_retry_default)";

/// Applies the rules to a graph in canonical form.
pub(in super::super) fn apply(graph: &mut JsonMap, reading: RetryReading, is_bare: bool) {
    rules(reading, is_bare).for_each(|form| form.apply(graph));
}

/// The places that the rules change in a graph in canonical form, and a note about what they leave alone.
pub(in super::super) fn explain(graph: &JsonMap, reading: RetryReading, is_bare: bool) -> Vec<Rewrite> {
    let mut found = explain::of(&mut graph.clone(), rules(reading, is_bare));
    if reading.http_default == HttpRetryDefault::None {
        let would = explain::of(&mut graph.clone(), std::iter::once(&HTTP)).into_iter().next();
        found.extend(would.map(|one| Rewrite { note: Some(NOTE), ..one }));
    }
    found
}

fn rules(reading: RetryReading, is_bare: bool) -> impl Iterator<Item = &'static Form> {
    let enabled = match reading.without_enabled {
        RetryWithoutEnabled::ByFile => is_bare,
        RetryWithoutEnabled::On => true,
        RetryWithoutEnabled::Off => false,
    };
    let http = reading.http_default == HttpRetryDefault::Editor;
    enabled.then_some(&ENABLED).into_iter().chain(http.then_some(&HTTP))
}

fn enable(data: &mut JsonMap) {
    let Some(config) = data.get_mut("retry_config").and_then(Json::as_object_mut) else { return };
    let has_retries = config.get("max_retries").is_some_and(|retries| !retries.is_null() && *retries != 0);
    if has_retries && config.get("retry_enabled").is_none_or(Json::is_null) {
        config.insert("retry_enabled".into(), true.into());
    }
}

fn as_the_editor(data: &mut JsonMap) {
    let is_request = data.get("type").and_then(Json::as_str) == Some("http-request");
    if is_request && data.get("retry_config").is_none_or(Json::is_null) {
        let config = json!({"retry_enabled": true, "max_retries": 3, "retry_interval": 100});
        data.insert("retry_config".into(), config);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl::ParseOptions;
    use crate::graph::builder::import_within;

    const BOTH: RetryReading =
        RetryReading { http_default: HttpRetryDefault::Editor, without_enabled: RetryWithoutEnabled::On };

    /// The tries of a node after the first, in milliseconds apart; `None` without retries.
    fn tries(data: &Json, retries: RetryReading, is_bare: bool) -> Option<(u32, u64)> {
        let start = json!({"id": "s", "data": {"type": "start", "variables": []}});
        let graph = json!({
            "nodes": [start, {"id": "t", "data": data}], "edges": [{"source": "s", "target": "t"}],
        });
        let file = match is_bare {
            true => json!({"graph": graph}),
            false => {
                json!({"kind": "app", "version": "0.6.0", "app": {"mode": "workflow"}, "workflow": {"graph": graph}})
            }
        };
        let options = ParseOptions { retries, ..ParseOptions::default() };
        let imported = import_within(file.to_string().as_bytes(), &options);
        let graph = imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics));
        let retry = graph.node(graph.find("t").unwrap()).retry;
        retry.enabled.then_some((retry.retries_max, retry.interval_ms))
    }

    #[test]
    fn retries_without_the_switch_are_on_in_a_bare_graph_and_off_in_an_export() {
        let template = |config: Json| json!({"type": "template-transform", "template": "x", "variables": [], "retry_config": config});
        let reading = |without_enabled| RetryReading { without_enabled, ..RetryReading::default() };
        let (by_file, on, off) =
            (RetryWithoutEnabled::ByFile, RetryWithoutEnabled::On, RetryWithoutEnabled::Off);
        let code = |config: Json| {
            let mut data = json!({"type": "code", "code_language": "python3", "code": "def main():\n  return {}", "variables": [], "outputs": {}});
            data["retry_config"] = config;
            data
        };
        for (config, setting, is_bare, expected) in [
            (json!({"max_retries": 2, "retry_interval": 5}), by_file, true, Some((2, 5))),
            (json!({"max_retries": 2, "retry_interval": 5}), by_file, false, None),
            (json!({"max_retries": 2, "retry_enabled": null}), by_file, true, Some((2, 0))),
            (json!({"max_retries": 2, "retry_enabled": false}), by_file, true, None),
            (json!({"max_retries": 0}), by_file, true, None),
            (json!({}), by_file, true, None),
            (json!({"max_retries": 2}), on, false, Some((2, 0))),
            (json!({"max_retries": 2}), off, true, None),
            (json!({"max_retries": 2, "retry_enabled": true}), off, true, Some((2, 0))),
        ] {
            assert_eq!(
                tries(&code(config.clone()), reading(setting), is_bare),
                expected,
                "{config} {setting:?} {is_bare}"
            );
        }
        assert_eq!(
            tries(&template(json!({"max_retries": 2})), reading(by_file), true),
            None,
            "it has no retries"
        );
    }

    #[test]
    fn requests_without_retries_get_the_editors_only_by_the_setting() {
        let request = |config: Json| {
            let mut data = json!({"type": "http-request", "method": "get", "url": "http://h", "headers": "", "params": "",
                "authorization": {"type": "no-auth"}, "body": {"type": "none", "data": []}});
            data["retry_config"] = config;
            data
        };
        let absent = || {
            let mut data = request(Json::Null);
            data.as_object_mut().unwrap().shift_remove("retry_config");
            data
        };
        let off = json!({"retry_enabled": false, "max_retries": 3});
        for is_bare in [true, false] {
            assert_eq!(tries(&absent(), RetryReading::default(), is_bare), None);
            assert_eq!(tries(&absent(), BOTH, is_bare), Some((3, 100)));
            assert_eq!(tries(&request(off.clone()), BOTH, is_bare), None);
        }
    }

    #[test]
    fn what_was_changed_is_explained_and_what_was_left_alone_is_noted_once() {
        let graph = json!({"nodes": [
            {"id": "a", "data": {"type": "http-request"}}, {"id": "b", "data": {"type": "http-request"}},
            {"id": "c", "data": {"type": "code", "retry_config": {"max_retries": 1}}},
        ]});
        let graph = graph.as_object().unwrap();
        let found = |reading, is_bare| {
            let found = explain(graph, reading, is_bare);
            found.into_iter().map(|one| (one.rule, one.path, one.note.is_some())).collect::<Vec<_>>()
        };
        let (enabled, http) = ("retry-enabled", "http-retry-default");
        let place = |at: u8| format!("nodes[{at}].data.retry_config");
        assert_eq!(
            found(RetryReading::default(), true),
            [(enabled, "nodes[2].data.retry_config.retry_enabled".into(), false), (http, place(0), true)]
        );
        assert_eq!(
            found(BOTH, false),
            [
                (enabled, "nodes[2].data.retry_config.retry_enabled".to_owned(), false),
                (http, place(0), false),
                (http, place(1), false)
            ]
        );
    }
}
