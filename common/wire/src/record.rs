//! The record of an execution as JSON inside facts and events. Fields at their default are left out.

use serde_json::Value as Json;

use super::WireError;
use crate::codec::fields::{Field, Fields};
use crate::codec::text::ObjectText;
use crate::codec::value::{NamedJson, named_from_field};
use crate::state::changes::{written_from_json, written_json};
use crate::state::messages::{effects_json, read_effects};
use crate::warnings;
use tidemill_base::value::JsonMap;
use tidemill_engine::state::NamedValues;
use tidemill_engine::state::record::Record;
use tidemill_workflow::nodes::{SOURCE_HANDLE, Usage, Wasted};

/// Writes the fields of a record into an object.
pub(crate) fn write_record(object: &mut ObjectText, record: &Record) {
    write_completed(object, record, None);
}

/// Like [`write_record`]; `completed` adds to the metadata why a loop ended.
pub(crate) fn write_completed(object: &mut ObjectText, record: &Record, completed: Option<&str>) {
    let mut named = |key: &'static str, values: &NamedValues| {
        if !values.is_empty() {
            object.named(key, values);
        }
    };
    named("inputs", &record.inputs);
    named("process_data", &record.process_data);
    named("outputs", &record.outputs);
    write_metadata(object, record, completed);
    if !record.handle.is_empty() && record.handle != SOURCE_HANDLE {
        object.text("handle", &record.handle);
    }
    if let Some(usage) = &record.usage {
        // In the form of `outputs.usage`; readers take the counters from it.
        object.value("usage", &usage.record);
    }
    if let Some(wasted) = &record.wasted {
        let Wasted { provider, model, usage } = &**wasted;
        object.open("wasted");
        object.text("provider", provider);
        object.text("model", model);
        object.value("usage", &usage.record);
        object.close();
    }
    if !record.error.is_empty() {
        object.text("error", &record.error);
    }
    if !record.error_type.is_empty() {
        object.text("error_type", &record.error_type);
    }
    if !record.worker.is_empty() {
        object.text("worker", &record.worker);
    }
    if let Some(ms) = record.retry_hint {
        object.number("retry_after_ms", ms);
    }
    if record.passing {
        object.value("passing", &true);
    }
    if !record.updates.is_empty() {
        object.value("updates", &written_json(&record.updates));
    }
    if let Some(pause) = &record.pause {
        object.value("pause", &crate::state::pause::to_json(pause));
    }
    if let Some(effects) = &record.effects {
        object.value("effects", &effects_json(effects));
    }
    if !record.warnings.is_empty() {
        object.value("warnings", &warnings::list_json(&record.warnings));
    }
}

fn write_metadata(object: &mut ObjectText, record: &Record, completed: Option<&str>) {
    let Record { metadata, durations, rounds, .. } = record;
    if metadata.is_empty() && durations.is_none() && rounds.is_empty() && completed.is_none() {
        return;
    }
    object.open("metadata");
    metadata.iter().for_each(|(name, value)| object.foreign(name, value));
    if let Some(durations) = durations {
        object.open(durations.name);
        durations.seconds.iter().for_each(|(at, seconds)| object.numbered(*at, seconds));
        object.close();
    }
    if let Some(reason) = completed {
        object.text("completed_reason", reason);
    }
    if !rounds.is_empty() {
        object.open("loop_variable_map");
        rounds.iter().for_each(|(at, values)| object.numbered(*at, &NamedJson(values)));
        object.close();
    }
    object.close();
}

/// Takes the fields of a record out of an object.
pub(crate) fn read_record(map: &mut Fields<'_>) -> Result<Record, WireError> {
    let mut record = Record::default();
    map.each_mut().try_for_each(|(name, field)| read_field(&mut record, name, std::mem::take(field)))?;
    Ok(record)
}

/// Reads one field of a record; other names are ignored. Fields that only the engine writes at a container's
/// end are not read here.
pub(super) fn read_field(record: &mut Record, name: &str, field: Field<'_>) -> Result<(), WireError> {
    match name {
        "inputs" => record.inputs = named_from_field(Some(field))?,
        "process_data" => record.process_data = named_from_field(Some(field))?,
        "outputs" => record.outputs = named_from_field(Some(field))?,
        "metadata" => record.metadata = field.into_object().unwrap_or_default(),
        "handle" => record.handle = field.into_text().unwrap_or_default(),
        "usage" => record.usage = field.into_object().map(Usage::from_record).map(Box::new),
        "wasted" => record.wasted = field.into_object().and_then(wasted).map(Box::new),
        "error" => record.error = field.into_text().unwrap_or_default(),
        "error_type" => record.error_type = field.into_text().unwrap_or_default(),
        "worker" => record.worker = field.into_text().unwrap_or_default(),
        "passing" => record.passing = field.into_json().as_bool().unwrap_or(false),
        "retry_after_ms" => record.retry_hint = field.into_json().as_u64(),
        "updates" => record.updates = written_from_json(field.into_json())?,
        "pause" => record.pause = Some(Box::new(crate::state::pause::from_json(&field.into_json())?)),
        "effects" => {
            let effects = field.into_object().map(|effects| read_effects(&effects));
            record.effects = effects.transpose()?.map(Box::new);
        }
        "warnings" => record.warnings = warnings::read_list(&field.into_json()),
        _ => {}
    }
    Ok(())
}

fn wasted(mut map: JsonMap) -> Option<Wasted> {
    let text = |key: &str| map.get(key).and_then(Json::as_str).unwrap_or_default().to_string();
    let (provider, model) = (text("provider"), text("model"));
    match map.remove("usage") {
        Some(Json::Object(usage)) => Some(Wasted { provider, model, usage: Usage::from_record(usage) }),
        _ => None,
    }
}
