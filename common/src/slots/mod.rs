//! Slots: what the input of a node lacks, by the JSON schema of that input, and where it comes from: the schema's defaults,
//! a model, a person. All of it is pure; who asks the model and the person is the worker.
//!
//! [`schema`] compiles a schema, with the types `date` and `timestamp` besides those of draft 7, and replaces properties of
//! it; [`missing`] finds what is absent or invalid; [`mod@pointer`] names places in a value; [`fill`] puts in what was found;
//! [`answer`] reads what a model or a person has said; [`prompt`] is what the model is asked.

pub mod answer;
pub mod fill;
pub mod missing;
pub mod pointer;
pub mod prompt;
pub mod schema;
#[cfg(test)]
mod tests;

use serde_json::{Value as Json, json};

use crate::value::JsonMap;

pub use fill::Filled;
pub use missing::Missing;
pub use schema::{Schema, SchemaError, with_overrides};

/// What came of looking for missing fields.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SlotOutput {
    /// What was filled in now, nested as it is in the input.
    pub slot_data: JsonMap,
    /// What is missing still: an object schema whose properties are pointers; none when nothing is.
    pub remaining_schema: Option<Json>,
    /// The names of the fields filled in now: `city`, `body/city`.
    pub filled_fields: Vec<String>,
}

impl SlotOutput {
    /// As an object.
    pub fn object(&self) -> JsonMap {
        let Self { slot_data, remaining_schema, filled_fields } = self;
        let fields = [
            ("slot_data", Json::Object(slot_data.clone())),
            ("remaining_schema", remaining_schema.clone().unwrap_or(Json::Null)),
            ("filled_fields", json!(filled_fields)),
        ];
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
    /// Reads what [`SlotOutput::object`] writes; an empty schema asks for nothing.
    pub fn read(object: &JsonMap) -> Self {
        let slot_data = object.get("slot_data").and_then(Json::as_object).cloned().unwrap_or_default();
        let schema = object.get("remaining_schema");
        let remaining_schema = schema.filter(|schema| schema.as_object().is_some_and(|map| !map.is_empty()));
        let names = object.get("filled_fields").and_then(Json::as_array).into_iter().flatten();
        let filled_fields = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        Self { slot_data, remaining_schema: remaining_schema.cloned(), filled_fields }
    }
}
