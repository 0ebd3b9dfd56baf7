//! What an execution left for the record, as JSON inside facts and events: fields at their default are left out.

use serde_json::Value as Json;

use super::WireError;
use super::breakpoint::{updates_from_json, updates_json};
use super::fields::Fields;
use super::text::ObjectText;
use super::value::{NamedJson, named_from_field};
use crate::machine::changes::Record;
use crate::machine::fact::NamedValues;
use crate::nodes::{PauseRequest, SOURCE_HANDLE, Usage};
use crate::value::JsonMap;

/// Writes the fields of a record into an object that is being written.
pub(crate) fn write_record(object: &mut ObjectText, record: &Record) {
    let mut named = |key: &'static str, values: &NamedValues| {
        if !values.is_empty() {
            object.named(key, values);
        }
    };
    named("inputs", &record.inputs);
    named("process_data", &record.process_data);
    named("outputs", &record.outputs);
    if !record.rounds.is_empty() {
        object.value("metadata", &with_rounds(record));
    } else if !record.metadata.is_empty() {
        object.value("metadata", &record.metadata);
    }
    if !record.handle.is_empty() && record.handle != SOURCE_HANDLE {
        object.text("handle", &record.handle);
    }
    if let Some(usage) = &record.usage {
        // As `outputs.usage` shows it; the counters are read out of it.
        object.value("usage", &usage.record);
    }
    if !record.error.is_empty() {
        object.text("error", &record.error);
    }
    if !record.error_type.is_empty() {
        object.text("error_type", &record.error_type);
    }
    if let Some(ms) = record.retry_hint {
        object.number("retry_after_ms", ms);
    }
    if !record.updates.is_empty() {
        object.value("updates", &updates_json(&record.updates));
    }
    if let Some(pause) = &record.pause {
        object.value("pause", &pause.to_json());
    }
}

/// Metadata of a loop, with its variables after each round.
fn with_rounds(record: &Record) -> JsonMap {
    let variables = |values| serde_json::to_value(NamedJson(values)).unwrap_or_default();
    let rounds: JsonMap =
        record.rounds.iter().map(|(at, values)| (at.to_string(), variables(values))).collect();
    let mut metadata = record.metadata.clone();
    metadata.insert("loop_variable_map".into(), Json::Object(rounds));
    metadata
}

/// Reads the fields of a record out of an object.
pub(crate) fn read_record(map: &mut Fields<'_>) -> Result<Record, WireError> {
    Ok(Record {
        inputs: named_from_field(map.take("inputs"))?,
        process_data: named_from_field(map.take("process_data"))?,
        outputs: named_from_field(map.take("outputs"))?,
        metadata: map.take_map("metadata").unwrap_or_default(),
        handle: map.take_text("handle").unwrap_or_default(),
        usage: map.take_map("usage").map(read_usage),
        error: map.take_text("error").unwrap_or_default(),
        error_type: map.take_text("error_type").unwrap_or_default(),
        retry_hint: map.get("retry_after_ms").and_then(Json::as_u64),
        updates: match map.take_json("updates") {
            None => Vec::new(),
            updates => updates_from_json(updates)?,
        },
        pause: match map.take_json("pause") {
            Some(pause) => Some(Box::new(PauseRequest::from_json(&pause)?)),
            None => None,
        },
        // Only the engine ends a loop, and it has them.
        rounds: Vec::new(),
    })
}

/// A usage object as it was written.
pub(crate) fn read_usage(record: JsonMap) -> Usage {
    let count = |key: &str| record.get(key).and_then(Json::as_u64).unwrap_or(0);
    let text =
        |key: &str, default: &str| record.get(key).and_then(Json::as_str).unwrap_or(default).to_string();
    Usage {
        prompt_tokens: count("prompt_tokens"),
        completion_tokens: count("completion_tokens"),
        total_tokens: count("total_tokens"),
        total_price: text("total_price", "0.0"),
        currency: text("currency", "USD"),
        record,
    }
}
