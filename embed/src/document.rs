//! Events as documents `{"type", "data"}`: the types and fields of graphon's events, made from those of the native API.
//! [`TYPES`] is the table; docs/embed.md shows it to users, with the differences.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value as Json, json};
use tidemill_common::value::JsonMap;
use tidemill_common::wire::event::kind;

/// How times are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Times {
    /// ISO 8601 in UTC, such as `2024-01-01T00:00:00.000000Z`.
    #[default]
    Iso,
    /// Unix seconds with their fraction.
    Unix,
}

/// An event of a document.
struct Type {
    /// The type in the native API.
    native: &'static str,
    /// The type in the document.
    name: &'static str,
    /// The fields of `data`, in order. One that an event lacks is null.
    fields: &'static [&'static str],
}

const fn event(native: &'static str, name: &'static str, fields: &'static [&'static str]) -> Type {
    Type { native, name, fields }
}

const NODE_END: &[&str] = &[
    "id",
    "node_id",
    "node_type",
    "node_version",
    "node_run_result",
    "in_iteration_id",
    "in_loop_id",
    "start_at",
];
const NODE_FAILED: &[&str] = &[
    "id",
    "node_id",
    "node_type",
    "node_version",
    "node_run_result",
    "error",
    "in_iteration_id",
    "in_loop_id",
    "start_at",
];
const BODY_STARTED: &[&str] = &["id", "node_id", "node_title", "start_at", "inputs", "metadata"];
const BODY_NEXT: &[&str] = &["id", "node_id", "node_title", "index"];
const BODY_SUCCEEDED: &[&str] = &["id", "node_id", "node_title", "outputs", "steps", "metadata"];
const BODY_FAILED: &[&str] = &["id", "node_id", "node_title", "error", "steps", "metadata"];

/// The events whose fields differ from the native API. All others have the same type and the same fields, except for
/// their times.
const TYPES: [Type; 22] = [
    event(kind::GRAPH_RUN_STARTED, "graph_run_started", &["reason"]),
    event(kind::GRAPH_RUN_SUCCEEDED, "graph_run_succeeded", &["outputs"]),
    event(kind::GRAPH_RUN_PARTIAL_SUCCEEDED, "graph_run_partial_succeeded", &["exceptions_count", "outputs"]),
    event(kind::GRAPH_RUN_FAILED, "graph_run_failed", &["error", "exceptions_count"]),
    event(kind::GRAPH_RUN_ABORTED, "graph_run_aborted", &["reason", "outputs"]),
    event(kind::GRAPH_RUN_PAUSED, "graph_run_paused", &["reasons", "outputs"]),
    event(
        kind::NODE_RUN_STARTED,
        "node_run_started",
        &[
            "id",
            "node_id",
            "node_type",
            "node_title",
            "node_version",
            "predecessor_node_id",
            "in_iteration_id",
            "in_loop_id",
            "start_at",
        ],
    ),
    event(kind::NODE_RUN_SUCCEEDED, "node_run_succeeded", NODE_END),
    event(kind::NODE_RUN_FAILED, "node_run_failed", NODE_FAILED),
    event(kind::NODE_RUN_EXCEPTION, "node_run_exception", NODE_FAILED),
    event(
        kind::NODE_RUN_STREAM_CHUNK,
        "node_run_stream_chunk",
        &["id", "node_id", "node_type", "selector", "chunk", "is_final"],
    ),
    event(
        kind::NODE_RUN_RETRY,
        "node_run_retry",
        &["id", "node_id", "node_type", "node_title", "error", "retry_index", "start_at"],
    ),
    event(
        kind::NODE_RUN_PAUSE_REQUESTED,
        "node_run_pause_requested",
        &["id", "node_id", "node_type", "reason"],
    ),
    event(kind::NODE_RUN_ITERATION_STARTED, "iteration_started", BODY_STARTED),
    event(kind::NODE_RUN_ITERATION_NEXT, "iteration_next", BODY_NEXT),
    event(kind::NODE_RUN_ITERATION_SUCCEEDED, "iteration_succeeded", BODY_SUCCEEDED),
    event(kind::NODE_RUN_ITERATION_FAILED, "iteration_failed", BODY_FAILED),
    event(kind::NODE_RUN_LOOP_STARTED, "loop_started", BODY_STARTED),
    event(kind::NODE_RUN_LOOP_NEXT, "loop_next", BODY_NEXT),
    event(kind::NODE_RUN_LOOP_SUCCEEDED, "loop_succeeded", BODY_SUCCEEDED),
    event(kind::NODE_RUN_LOOP_FAILED, "loop_failed", BODY_FAILED),
    event(
        "node_run_agent_log",
        "agent_log",
        &["id", "node_id", "message_id", "label", "status", "data", "parent_id", "error", "metadata"],
    ),
];

/// The fields that hold a time in Unix seconds, in all events and in their pauses.
const TIMES: [&str; 5] = ["start_at", "finished_at", "expiration_time", "opened_at", "expires_at"];

/// The document of a native event.
pub(crate) fn of(native: &str, data: &Json, times: Times) -> Json {
    let Some(known) = TYPES.iter().find(|known| known.native == native) else {
        let mut data = data.clone();
        write_times(&mut data, times);
        return json!({"type": native, "data": data});
    };
    let field = |name: &&str| {
        let value = match *name {
            "node_run_result" => result(&data["node_run_result"]),
            name if TIMES.contains(&name) => time(&data[name], times),
            name => data[name].clone(),
        };
        ((*name).to_owned(), value)
    };
    json!({"type": known.name, "data": known.fields.iter().map(field).collect::<JsonMap>()})
}

/// Writes all times of an event that has its native form.
fn write_times(data: &mut Json, times: Times) {
    match data {
        Json::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    name if TIMES.contains(&name) => *value = time(value, times),
                    "pause" | "pauses" => write_times(value, times),
                    _ => {}
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| write_times(item, times)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// A time that the native event has in Unix seconds. What is no time, such as null, stays.
fn time(seconds: &Json, times: Times) -> Json {
    let micros = seconds.as_f64().map(|seconds| (seconds * 1e6).round());
    let moment = micros.and_then(|micros| DateTime::<Utc>::from_timestamp_micros(micros as i64));
    match (times, moment) {
        (Times::Iso, Some(moment)) => moment.to_rfc3339_opts(SecondsFormat::Micros, true).into(),
        (Times::Iso, None) | (Times::Unix, _) => seconds.clone(),
    }
}

/// The result of a node: the native one, with the usage as numbers. Without a model the usage is all zeros.
fn result(native: &Json) -> Json {
    const FIELDS: [&str; 9] = [
        "status",
        "inputs",
        "process_data",
        "outputs",
        "metadata",
        "edge_source_handle",
        "error",
        "error_type",
        "retry_index",
    ];
    let mut result: JsonMap = FIELDS.iter().map(|name| ((*name).to_owned(), native[*name].clone())).collect();
    let usage = &native["llm_usage"];
    let count = |name: &str| usage[name].as_u64().unwrap_or_default();
    result.insert(
        "llm_usage".into(),
        json!({
            "prompt_tokens": count("prompt_tokens"),
            "completion_tokens": count("completion_tokens"),
            "total_tokens": count("total_tokens"),
            "prompt_price": price(&usage["prompt_price"]),
            "completion_price": price(&usage["completion_price"]),
            "total_price": price(&usage["total_price"]),
            "currency": usage["currency"].as_str().unwrap_or("USD"),
            "latency": usage["latency"].as_f64().unwrap_or_default(),
        }),
    );
    Json::Object(result)
}

/// A price as a number; natively it is a decimal text.
fn price(native: &Json) -> f64 {
    native.as_f64().or_else(|| native.as_str()?.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields of a node that every native event about one has.
    fn about(more: Json) -> Json {
        let mut data = json!({
            "id": "x", "node_id": "n", "node_type": "llm", "node_title": "N", "node_version": "1",
            "in_iteration_id": null, "in_loop_id": "lp", "frame": "lp#0",
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            data[name] = value.clone();
        }
        data
    }

    fn ended(status: &str, more: Json) -> Json {
        let mut data = about(json!({
            "start_at": 1_704_067_200.25, "finished_at": 1_704_067_201.0,
            "node_run_result": {
                "status": status, "inputs": {"a": 1}, "process_data": {}, "outputs": {"text": "hi"},
                "metadata": {"total_tokens": 3},
                "llm_usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "prompt_unit_price": "1",
                    "prompt_price": "0.5", "completion_price": "0.25", "total_price": "0.75", "currency": "EUR",
                    "latency": 0.5, "time_to_first_token": null},
                "edge_source_handle": "source", "error": "", "error_type": "", "retry_index": 0, "worker": "w",
            },
        }));
        for (name, value) in more.as_object().into_iter().flatten() {
            data[name] = value.clone();
        }
        data
    }

    fn shown_end(status: &str, more: Json) -> Json {
        let mut data = json!({
            "id": "x", "node_id": "n", "node_type": "llm", "node_version": "1",
            "node_run_result": {
                "status": status, "inputs": {"a": 1}, "process_data": {}, "outputs": {"text": "hi"},
                "metadata": {"total_tokens": 3},
                "llm_usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "prompt_price": 0.5,
                    "completion_price": 0.25, "total_price": 0.75, "currency": "EUR", "latency": 0.5},
                "edge_source_handle": "source", "error": "", "error_type": "", "retry_index": 0,
            },
            "in_iteration_id": null, "in_loop_id": "lp", "start_at": "2024-01-01T00:00:00.250000Z",
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            data[name] = value.clone();
        }
        data
    }

    /// Native type and data, and the type and data of the document.
    fn rows() -> Vec<(&'static str, Json, &'static str, Json)> {
        let begun =
            json!({"start_at": 1_704_067_200, "inputs": {"list": [1]}, "metadata": {"iteration_length": 1}});
        let shown_begun = json!({"id": "x", "node_id": "n", "node_title": "N", "start_at": "2024-01-01T00:00:00.000000Z",
            "inputs": {"list": [1]}, "metadata": {"iteration_length": 1}});
        let next = json!({"id": "x", "node_id": "n", "node_title": "N", "index": 1});
        let body = json!({"outputs": {"o": 1}, "steps": 2, "error": "", "metadata": {}, "finished_at": 1});
        let shown_body = json!({"id": "x", "node_id": "n", "node_title": "N", "outputs": {"o": 1}, "steps": 2, "metadata": {}});
        let broken = json!({"error": "no", "steps": 2, "metadata": {}, "outputs": {}});
        let shown_broken =
            json!({"id": "x", "node_id": "n", "node_title": "N", "error": "no", "steps": 2, "metadata": {}});
        let failed = json!({"error": "no"});
        let reason = json!({"TYPE": "hitl_required", "session_id": "p", "node_id": "n", "node_title": "N"});
        let log = json!({"message_id": "m", "label": "l", "status": "success", "data": {"a": 1}, "parent_id": null,
            "error": null, "metadata": {}, "node_execution_id": "x"});
        vec![
            (
                "graph_run_started",
                json!({"reason": "initial"}),
                "graph_run_started",
                json!({"reason": "initial"}),
            ),
            (
                "graph_run_succeeded",
                json!({"outputs": {"a": 1}, "warnings": []}),
                "graph_run_succeeded",
                json!({"outputs": {"a": 1}}),
            ),
            (
                "graph_run_partial_succeeded",
                json!({"exceptions_count": 1, "outputs": {}}),
                "graph_run_partial_succeeded",
                json!({"exceptions_count": 1, "outputs": {}}),
            ),
            (
                "graph_run_failed",
                json!({"error": "no", "exceptions_count": 0}),
                "graph_run_failed",
                json!({"error": "no", "exceptions_count": 0}),
            ),
            (
                "graph_run_aborted",
                json!({"reason": "enough", "outputs": {}}),
                "graph_run_aborted",
                json!({"reason": "enough", "outputs": {}}),
            ),
            (
                "graph_run_paused",
                json!({"reasons": [reason], "pauses": [{"pause_id": "p"}], "outputs": {}}),
                "graph_run_paused",
                json!({"reasons": [reason], "outputs": {}}),
            ),
            (
                "node_run_started",
                about(
                    json!({"predecessor_node_id": "s", "start_at": 1_704_067_200.5, "extras": {}, "is_virtual": false}),
                ),
                "node_run_started",
                json!({"id": "x", "node_id": "n", "node_type": "llm", "node_title": "N", "node_version": "1",
                    "predecessor_node_id": "s", "in_iteration_id": null, "in_loop_id": "lp",
                    "start_at": "2024-01-01T00:00:00.500000Z"}),
            ),
            (
                "node_run_succeeded",
                ended("succeeded", json!({})),
                "node_run_succeeded",
                shown_end("succeeded", json!({})),
            ),
            (
                "node_run_failed",
                ended("failed", failed.clone()),
                "node_run_failed",
                shown_end("failed", failed.clone()),
            ),
            (
                "node_run_exception",
                ended("exception", failed.clone()),
                "node_run_exception",
                shown_end("exception", failed),
            ),
            (
                "node_run_stream_chunk",
                about(json!({"selector": ["n", "text"], "chunk": "hi", "is_final": false})),
                "node_run_stream_chunk",
                json!({"id": "x", "node_id": "n", "node_type": "llm", "selector": ["n", "text"], "chunk": "hi",
                    "is_final": false}),
            ),
            (
                "node_run_retry",
                ended("retry", json!({"error": "no", "retry_index": 1})),
                "node_run_retry",
                json!({"id": "x", "node_id": "n", "node_type": "llm", "node_title": "N", "error": "no", "retry_index": 1,
                    "start_at": "2024-01-01T00:00:00.250000Z"}),
            ),
            (
                "node_run_pause_requested",
                about(json!({"reason": reason, "pause": {"pause_id": "p"}})),
                "node_run_pause_requested",
                json!({"id": "x", "node_id": "n", "node_type": "llm", "reason": reason}),
            ),
            ("node_run_iteration_started", about(begun.clone()), "iteration_started", shown_begun.clone()),
            (
                "node_run_iteration_next",
                about(json!({"index": 1, "pre_iteration_output": null})),
                "iteration_next",
                next.clone(),
            ),
            ("node_run_iteration_succeeded", about(body.clone()), "iteration_succeeded", shown_body.clone()),
            ("node_run_iteration_failed", about(broken.clone()), "iteration_failed", shown_broken.clone()),
            ("node_run_loop_started", about(begun), "loop_started", shown_begun),
            ("node_run_loop_next", about(json!({"index": 1, "pre_loop_output": {}})), "loop_next", next),
            ("node_run_loop_succeeded", about(body), "loop_succeeded", shown_body),
            ("node_run_loop_failed", about(broken), "loop_failed", shown_broken),
            (
                "node_run_agent_log",
                about(log),
                "agent_log",
                json!({"id": "x", "node_id": "n", "message_id": "m", "label": "l", "status": "success", "data": {"a": 1},
                    "parent_id": null, "error": null, "metadata": {}}),
            ),
        ]
    }

    #[test]
    fn every_type_of_the_table_has_its_fields() {
        let rows = rows();
        for (native, data, name, expected) in &rows {
            let shown = of(native, data, Times::Iso);
            assert_eq!(shown, json!({"type": name, "data": expected}), "{native}");
            let order = |value: &Json| value.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
            let of_table = TYPES.iter().find(|known| known.native == *native).map(|known| known.fields);
            assert_eq!(
                order(&shown["data"]),
                of_table.map(|fields| fields.iter().map(|f| (*f).into()).collect())
            );
        }
        let tested: Vec<&str> = rows.iter().map(|row| row.0).collect();
        assert_eq!(tested, TYPES.map(|known| known.native), "a type has no row in this test");
    }

    #[test]
    fn other_events_keep_their_fields_and_get_their_times() {
        let expired = about(json!({"expiration_time": 1_704_067_200}));
        let shown = of("node_run_human_input_form_timeout", &expired, Times::Iso);
        assert_eq!(shown["type"], "node_run_human_input_form_timeout");
        assert_eq!(shown["data"]["expiration_time"], "2024-01-01T00:00:00.000000Z");
        assert_eq!(shown["data"]["frame"], "lp#0");
        let edge =
            json!({"edge_id": "e", "source_node_id": "a", "target_node_id": "b", "source_handle": "source"});
        assert_eq!(
            of("graph_edge_skipped", &edge, Times::Iso),
            json!({"type": "graph_edge_skipped", "data": edge})
        );
    }

    #[test]
    fn times_can_be_unix_numbers() {
        let shown = of("node_run_succeeded", &ended("succeeded", json!({})), Times::Unix);
        assert_eq!(shown["data"]["start_at"], 1_704_067_200.25);
        assert_eq!(time(&Json::Null, Times::Iso), Json::Null);
    }

    #[test]
    fn a_node_without_a_model_has_a_usage_of_zeros() {
        let shown = result(&json!({"status": "succeeded", "llm_usage": null}));
        assert_eq!(
            shown["llm_usage"],
            json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "prompt_price": 0.0,
                "completion_price": 0.0, "total_price": 0.0, "currency": "USD", "latency": 0.0})
        );
    }
}
