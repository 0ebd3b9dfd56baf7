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
mod tests;
