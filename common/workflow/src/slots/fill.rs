//! Fills values that were found into the input.

use serde_json::Value as Json;

use super::SlotOutput;
use super::missing::{Missing, pointer_schema};
use super::pointer::{is_within, merge, name, put};
use super::schema::Schema;
use tidemill_base::value::JsonMap;

/// Deepest nesting of defaults that are filled in.
const DEPTH_MAX: usize = 16;

/// An input, and the fields filled into it.
#[derive(Debug, Clone, PartialEq)]
pub struct Filled {
    /// The input so far.
    pub data: Json,
    /// The fields that are still missing.
    pub missing: Vec<Missing>,
    /// The pointers of the filled fields, in order.
    pub places: Vec<String>,
}

impl Filled {
    /// Starts with the given input.
    pub fn begin(schema: &Schema, data: JsonMap) -> Self {
        let data = Json::Object(data);
        Self { missing: schema.missing(&data), data, places: Vec::new() }
    }

    /// True when no field is missing.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Fills missing fields with the defaults of the schema.
    pub fn take_defaults(&mut self, schema: &Schema) {
        let defaults: Vec<(String, Json)> = self
            .missing
            .iter()
            .filter_map(|field| Some((field.pointer.clone(), field.schema.get("default")?.clone())))
            .collect();
        self.take_each(schema, defaults);
    }

    /// Takes those values of an answer that are missing and valid; ignores all others.
    pub fn take_missing(&mut self, schema: &Schema, answer: &Json) {
        let found: Vec<(String, Json)> = self
            .missing
            .iter()
            .filter_map(|field| Some((field.pointer.clone(), answer.pointer(&field.pointer)?.clone())))
            .collect();
        self.take_each(schema, found);
    }

    /// Takes all values of an answer, valid or not.
    pub fn take_all(&mut self, schema: &Schema, answer: Json) {
        let before = std::mem::take(&mut self.missing);
        merge(&mut self.data, answer);
        self.missing = schema.missing(&self.data);
        let filled = before.into_iter().map(|field| field.pointer);
        self.places.extend(filled.filter(|place| !is_missing(&self.missing, place)));
    }

    fn take_each(&mut self, schema: &Schema, values: Vec<(String, Json)>) {
        for (place, value) in values {
            let mut with = self.data.clone();
            if !put(&mut with, &place, value) {
                continue;
            }
            let missing = with_defaults(schema, &mut with, &place);
            if !is_missing(&missing, &place) {
                (self.data, self.missing) = (with, missing);
                self.places.push(place);
            }
        }
    }

    /// Returns the result.
    pub fn output(&self) -> SlotOutput {
        let mut slot_data = Json::Object(JsonMap::new());
        for place in &self.places {
            if let Some(value) = self.data.pointer(place) {
                put(&mut slot_data, place, value.clone());
            }
        }
        SlotOutput {
            slot_data: object(slot_data),
            remaining_schema: pointer_schema(&self.missing),
            filled_fields: self.places.iter().map(|place| name(place)).collect(),
        }
    }

    /// Returns the input with missing fields as null: the initial values of a form.
    pub fn current(&self) -> JsonMap {
        let mut current = self.data.clone();
        for field in &self.missing {
            put(&mut current, &field.pointer, Json::Null);
        }
        object(current)
    }

    /// Returns the names of the missing fields.
    pub fn missing_names(&self) -> Vec<String> {
        self.missing.iter().map(|field| name(&field.pointer)).collect()
    }
}

/// Fills defaults inside one place and returns the fields that are still missing. An object from a model or a
/// person may leave out fields that have defaults.
fn with_defaults(schema: &Schema, data: &mut Json, place: &str) -> Vec<Missing> {
    let mut missing = schema.missing(data);
    // A default may be an object that lacks fields itself.
    for _ in 0..DEPTH_MAX {
        let within =
            missing.iter().filter(|field| field.pointer != place && is_within(&field.pointer, place));
        let absent = within.filter(|field| data.pointer(&field.pointer).is_none());
        let defaults: Vec<(String, Json)> = absent
            .filter_map(|field| Some((field.pointer.clone(), field.schema.get("default")?.clone())))
            .collect();
        if defaults.is_empty() {
            break;
        }
        for (place, value) in defaults {
            put(data, &place, value);
        }
        missing = schema.missing(data);
    }
    missing
}

fn is_missing(missing: &[Missing], place: &str) -> bool {
    missing.iter().any(|field| is_within(&field.pointer, place) || is_within(place, &field.pointer))
}

/// Returns the object, or an empty one for other values.
fn object(value: Json) -> JsonMap {
    match value {
        Json::Object(map) => map,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => JsonMap::new(),
    }
}
