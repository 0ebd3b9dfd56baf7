//! Reads `data.tidemill`, the engine's own settings of a node: where it runs, how long it may take, and how
//! it is tried again. Dify has no such key.

use serde_json::Value as Json;

use super::{Backoff, NodeSettings};
use crate::dsl::fields::{Fields, shown};
use crate::dsl::{Problems, suggest};
use crate::nodes::llm::profile;
use crate::nodes::step::is_step;
use crate::nodes::{NodeKind, is_own_form};
use tidemill_base::value::JsonMap;

const SETTINGS: [&str; 8] = [
    "queue",
    "runs_on",
    "execution_timeout_ms",
    "queue_timeout_ms",
    "backoff",
    "honour_retry_after",
    "not_retryable",
    "idempotency_key",
];
const BACKOFF: [&str; 3] = ["multiplier", "max_interval_ms", "jitter"];
const INVALID: &str = "settings.invalid";
const UNKNOWN_KEY: &str = "settings.unknown_key";
const NO_EFFECT: &str = "settings.no_effect";
const QUEUE_CHARS_MAX: usize = 64;

/// Reads the block from `data`. An invalid setting is reported and keeps its default.
pub(super) fn read(data: &JsonMap, kind: Option<NodeKind>, problems: &mut Problems) -> NodeSettings {
    let outer = Fields::new(data, INVALID);
    // Nodes in Tidemill's own forms honour the wait that the remote side asks for, unless they disable it.
    let is_own = kind.is_some_and(|kind| is_own_form(kind, data));
    let default =
        NodeSettings { passing_only: is_own, honour_retry_after: is_own, ..NodeSettings::default() };
    let Some(block) = outer.given("tidemill") else { return default };
    let Some(block) = block.as_object() else {
        outer.wrong("tidemill", "a mapping", problems);
        return default;
    };
    problems.within("tidemill", |problems| {
        let known: Vec<&'static str> = SETTINGS.iter().chain(own_settings(kind)).copied().collect();
        unknown_keys(block, &known, problems);
        let fields = Fields::new(block, INVALID);
        let runs_on =
            fields.given("runs_on").and_then(|_| fields.one_of("runs_on", &["auto", "worker"], problems));
        NodeSettings {
            queue: queue(&fields, problems).map_or_else(|| default.queue.clone(), Into::into),
            on_worker: runs_on == Some("worker"),
            execution_timeout_ms: positive(&fields, "execution_timeout_ms", problems),
            queue_timeout_ms: positive(&fields, "queue_timeout_ms", problems),
            backoff: backoff(&fields, problems),
            honour_retry_after: match fields.given("honour_retry_after") {
                Some(_) => flag(&fields, "honour_retry_after", problems),
                None => default.honour_retry_after,
            },
            not_retryable: not_retryable(&fields, problems),
            passing_only: default.passing_only,
            idempotency_key: idempotency_key(&fields, data, kind, problems),
        }
    })
}

/// Returns settings that a node type reads itself.
fn own_settings(kind: Option<NodeKind>) -> &'static [&'static str] {
    match kind {
        Some(NodeKind::TriggerWebhook) => &["secret"],
        Some(NodeKind::TriggerSchedule) => &["catch_up"],
        _ => &[],
    }
}

fn unknown_keys(block: &JsonMap, known: &[&'static str], problems: &mut Problems) {
    for key in block.keys().filter(|key| !known.contains(&key.as_str())) {
        let hint = suggest::hint(key, known.iter().copied())
            .unwrap_or_else(|| format!("the settings are {}", known.join(", ")));
        problems.within(key.as_str(), |problems| {
            problems.warning_with_hint(UNKNOWN_KEY, format!("unknown setting `{key}`"), hint);
        });
    }
}

/// Reads the queue's name. It becomes part of a Redis key, so only simple names are allowed.
fn queue<'a>(fields: &Fields<'a>, problems: &mut Problems) -> Option<&'a str> {
    fields.given("queue")?;
    let name = fields.text("queue", problems)?;
    let simple = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > QUEUE_CHARS_MAX || !name.chars().all(simple) {
        problems.within("queue", |problems| {
            let message =
                format!("the queue's name must be 1 to {QUEUE_CHARS_MAX} of letters, digits, `-`, `_`, `.`");
            problems.error(INVALID, message);
        });
        return None;
    }
    Some(name)
}

fn positive(fields: &Fields<'_>, key: &str, problems: &mut Problems) -> Option<u64> {
    fields.given(key)?;
    fields.integer(key, 0, 1, problems).map(i64::unsigned_abs)
}

fn flag(fields: &Fields<'_>, key: &str, problems: &mut Problems) -> bool {
    fields.given(key).is_some() && fields.boolean(key, false, problems).unwrap_or(false)
}

fn backoff(fields: &Fields<'_>, problems: &mut Problems) -> Option<Backoff> {
    let Some(block) = fields.given("backoff")?.as_object() else {
        fields.wrong("backoff", "a mapping", problems);
        return None;
    };
    problems.within("backoff", |problems| {
        unknown_keys(block, &BACKOFF, problems);
        let fields = Fields::new(block, INVALID);
        let default = Backoff::default();
        Some(Backoff {
            multiplier: number(&fields, "multiplier", (1.0, None), problems).unwrap_or(default.multiplier),
            max_interval_ms: positive(&fields, "max_interval_ms", problems),
            jitter: number(&fields, "jitter", (0.0, Some(1.0)), problems).unwrap_or(default.jitter),
        })
    })
}

/// Reads a number between two bounds (inclusive); `None` when it is absent or invalid.
fn number(
    fields: &Fields<'_>,
    key: &str,
    (least, most): (f64, Option<f64>),
    problems: &mut Problems,
) -> Option<f64> {
    let value = fields.given(key)?;
    let within = |number: &f64| *number >= least && most.is_none_or(|most| *number <= most);
    let number = value.as_f64().filter(within);
    if number.is_none() {
        let bounds = match most {
            Some(most) => format!("from {least} to {most}"),
            None => format!("of at least {least}"),
        };
        let message = format!("`{key}` must be a number {bounds}, not {}", shown(value));
        problems.within(key, |problems| problems.error(INVALID, message));
    }
    number
}

fn not_retryable(fields: &Fields<'_>, problems: &mut Problems) -> Vec<String> {
    let Some(value) = fields.given("not_retryable") else { return Vec::new() };
    let Json::Array(items) = value else {
        fields.wrong("not_retryable", "a list of error types", problems);
        return Vec::new();
    };
    let mut types = Vec::with_capacity(items.len());
    problems.within("not_retryable", |problems| {
        for (at, item) in items.iter().enumerate() {
            match item.as_str().filter(|name| !name.is_empty()) {
                Some(name) => types.push(name.to_owned()),
                None => problems.within(format!("[{at}]"), |problems| {
                    problems.error(INVALID, format!("an error type must be a text, not {}", shown(item)));
                }),
            }
        }
    });
    types
}

/// Only nodes that make calls can send the key. An unknown type is reported elsewhere.
fn idempotency_key(
    fields: &Fields<'_>,
    data: &JsonMap,
    kind: Option<NodeKind>,
    problems: &mut Problems,
) -> bool {
    let wanted = flag(fields, "idempotency_key", problems);
    let calls_out = |kind: NodeKind| match kind {
        NodeKind::HttpRequest | NodeKind::Tool | NodeKind::Api | NodeKind::Call => true,
        // A library node may make any call.
        NodeKind::Llm => profile::is_form_of(data) || data.get("node").is_some(),
        kind => is_step(kind, data) && data.get("node").is_some(),
    };
    if let Some(kind) = kind.filter(|&kind| wanted && !calls_out(kind)) {
        problems.within("idempotency_key", |problems| {
            let name = kind.wire();
            problems.warning(
                NO_EFFECT,
                format!("`idempotency_key` has no effect on a node of type {name}: it has an effect only on http-request, tool, api, call and on tools of an llm with a profile"),
            );
        });
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl::Diagnostic;
    use serde_json::json;

    fn read_block(kind: NodeKind, block: &Json) -> (NodeSettings, Vec<Diagnostic>) {
        let mut problems = Problems::new();
        let data = JsonMap::from_iter([("tidemill".to_owned(), block.clone())]);
        let settings = read(&data, Some(kind), &mut problems);
        (settings, problems.into_vec())
    }

    #[test]
    fn a_block_is_read_whole() {
        let (settings, problems) = read_block(
            NodeKind::HttpRequest,
            &json!({
                "queue": "gpu", "runs_on": "worker", "execution_timeout_ms": 7, "queue_timeout_ms": "5",
                "backoff": {"multiplier": 2, "max_interval_ms": 1000, "jitter": 0.25},
                "honour_retry_after": true, "not_retryable": ["InvokeAuthorizationError"], "idempotency_key": "yes",
            }),
        );
        assert_eq!(problems, []);
        let expected = NodeSettings {
            queue: "gpu".into(),
            on_worker: true,
            execution_timeout_ms: Some(7),
            queue_timeout_ms: Some(5),
            backoff: Some(Backoff { multiplier: 2.0, max_interval_ms: Some(1000), jitter: 0.25 }),
            honour_retry_after: true,
            not_retryable: vec!["InvokeAuthorizationError".into()],
            passing_only: false,
            idempotency_key: true,
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn absent_and_null_settings_keep_their_defaults() {
        let nulls = json!({
            "queue": null, "runs_on": null, "execution_timeout_ms": null, "backoff": null, "honour_retry_after": null,
            "not_retryable": null, "idempotency_key": null,
        });
        for block in [json!(null), json!({}), nulls] {
            assert_eq!(read_block(NodeKind::Code, &block), (NodeSettings::default(), vec![]), "{block}");
        }
        let (settings, problems) = read_block(NodeKind::Code, &json!({"backoff": {"jitter": null}}));
        assert_eq!((settings.backoff, problems), (Some(Backoff::default()), vec![]));
    }

    #[test]
    fn every_wrong_setting_is_reported_at_its_place() {
        for (block, code, path) in [
            (json!([]), INVALID, "tidemill"),
            (json!({"queue": "a:b"}), INVALID, "tidemill.queue"),
            (json!({"runs_on": "gpu"}), INVALID, "tidemill.runs_on"),
            (json!({"execution_timeout_ms": 0}), INVALID, "tidemill.execution_timeout_ms"),
            (json!({"que": "a"}), UNKNOWN_KEY, "tidemill.que"),
            (json!({"backoff": 2}), INVALID, "tidemill.backoff"),
            (json!({"backoff": {"multiplier": 0.5}}), INVALID, "tidemill.backoff.multiplier"),
            (json!({"backoff": {"multiplier": "2"}}), INVALID, "tidemill.backoff.multiplier"),
            (json!({"backoff": {"max_interval_ms": 0}}), INVALID, "tidemill.backoff.max_interval_ms"),
            (json!({"backoff": {"jitter": 1.5}}), INVALID, "tidemill.backoff.jitter"),
            (json!({"backoff": {"jitter": -0.1}}), INVALID, "tidemill.backoff.jitter"),
            (json!({"backoff": {"factor": 2}}), UNKNOWN_KEY, "tidemill.backoff.factor"),
            (json!({"honour_retry_after": "perhaps"}), INVALID, "tidemill.honour_retry_after"),
            (json!({"not_retryable": "X"}), INVALID, "tidemill.not_retryable"),
            (json!({"not_retryable": ["X", 5]}), INVALID, "tidemill.not_retryable[1]"),
            (json!({"not_retryable": [""]}), INVALID, "tidemill.not_retryable[0]"),
            (json!({"idempotency_key": 5}), INVALID, "tidemill.idempotency_key"),
            (json!({"idempotency_key": true}), NO_EFFECT, "tidemill.idempotency_key"),
        ] {
            let (_, problems) = read_block(NodeKind::Code, &block);
            let found: Vec<_> = problems.iter().map(|p| (p.code, p.path.as_str())).collect();
            assert_eq!(found, [(code, path)], "{block}: {problems:?}");
        }
    }

    #[test]
    fn our_own_node_forms_retry_temporary_failures_and_honour_retry_after() {
        for (block, honours) in [(json!({}), true), (json!({"honour_retry_after": false}), false)] {
            let data = json!({"profile_id": "fast", "prompt": "Hi", "tidemill": block});
            let settings = read(data.as_object().unwrap(), Some(NodeKind::Llm), &mut Problems::new());
            assert_eq!((settings.passing_only, settings.honour_retry_after), (true, honours));
        }
        let dify = json!({"model": {}, "prompt_template": []});
        let settings = read(dify.as_object().unwrap(), Some(NodeKind::Llm), &mut Problems::new());
        assert_eq!((settings.passing_only, settings.honour_retry_after), (false, false));
    }

    #[test]
    fn nodes_that_call_out_may_send_an_idempotency_key() {
        for kind in [NodeKind::HttpRequest, NodeKind::Tool, NodeKind::Api, NodeKind::Call] {
            let (settings, problems) = read_block(kind, &json!({"idempotency_key": true}));
            assert_eq!((settings.idempotency_key, problems), (true, vec![]), "{kind:?}");
        }
        // Calls of a model do not carry the key; calls of tools do.
        let of_llm = |more: Json| {
            let mut data = json!({"tidemill": {"idempotency_key": true}}).as_object().cloned().unwrap();
            data.extend(more.as_object().cloned().unwrap());
            let mut problems = Problems::new();
            read(&data, Some(NodeKind::Llm), &mut problems);
            problems.into_vec().len()
        };
        assert_eq!(of_llm(json!({"profile_id": "p", "prompt": "x"})), 0);
        assert_eq!((of_llm(json!({"prompt_template": []})), of_llm(json!({"user_prompt": "x"}))), (1, 1));
    }
}
