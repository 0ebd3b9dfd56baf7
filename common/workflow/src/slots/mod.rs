//! Slots: the fields that a node's input lacks by its JSON schema, and the sources for them: the schema's
//! defaults, a model, a person. This module is pure; the worker calls the model and asks the person.
//!
//! [`schema`] compiles schemas (draft 7 plus the types `date` and `timestamp`) and replaces their properties.
//! [`missing`] finds absent and invalid fields. [`mod@pointer`] names places in a value. [`fill`] fills in
//! what was found. [`answer`] reads the answers of models and people. [`prompt`] builds the prompts.

pub mod answer;
pub mod fill;
pub mod missing;
pub mod pointer;
pub mod prompt;
pub mod schema;
#[cfg(test)]
mod tests;

use serde_json::{Value as Json, json};

use tidemill_base::value::JsonMap;

pub use fill::Filled;
pub use missing::Missing;
pub use schema::{Schema, SchemaError, with_overrides};

/// The result of the search for missing fields.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SlotOutput {
    /// The fields filled in now, nested as in the input.
    pub slot_data: JsonMap,
    /// The fields that are still missing, as an object schema whose properties are pointers; `None` when
    /// nothing is missing.
    pub remaining_schema: Option<Json>,
    /// The names of the fields filled in now: `city`, `body/city`.
    pub filled_fields: Vec<String>,
}

impl SlotOutput {
    /// Returns the result as a JSON object.
    pub fn object(&self) -> JsonMap {
        let Self { slot_data, remaining_schema, filled_fields } = self;
        let fields = [
            ("slot_data", Json::Object(slot_data.clone())),
            ("remaining_schema", remaining_schema.clone().unwrap_or(Json::Null)),
            ("filled_fields", json!(filled_fields)),
        ];
        fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
    /// Parses the object of [`SlotOutput::object`]; an empty schema counts as `None`.
    pub fn read(object: &JsonMap) -> Self {
        let slot_data = object.get("slot_data").and_then(Json::as_object).cloned().unwrap_or_default();
        let schema = object.get("remaining_schema");
        let remaining_schema = schema.filter(|schema| schema.as_object().is_some_and(|map| !map.is_empty()));
        let names = object.get("filled_fields").and_then(Json::as_array).into_iter().flatten();
        let filled_fields = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        Self { slot_data, remaining_schema: remaining_schema.cloned(), filled_fields }
    }
}
