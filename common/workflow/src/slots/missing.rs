//! Finds the fields that a value lacks by its schema: absent ones and invalid ones.

use jsonschema::error::ValidationErrorKind;
use serde_json::{Value as Json, json};

use super::pointer::{is_within, join};
use super::schema::Schema;
use tidemill_base::value::JsonMap;

/// A field that is absent or invalid.
#[derive(Debug, Clone, PartialEq)]
pub struct Missing {
    pub pointer: String,
    /// The schema of the field.
    pub schema: Json,
    /// The validator's message.
    pub problem: String,
}

impl Schema {
    /// Returns the absent and invalid fields in the order of discovery. If one field is inside another, only
    /// the outer one is returned. Keys that the schema does not know are accepted.
    pub fn missing(&self, value: &Json) -> Vec<Missing> {
        let mut found: Vec<(String, String)> = Vec::new();
        for error in self.validator.iter_errors(value) {
            let at = error.instance_path().to_string();
            let at = match error.kind() {
                ValidationErrorKind::Required { property } => {
                    property.as_str().map_or_else(|| at.clone(), |property| join(&at, property))
                }
                ValidationErrorKind::AdditionalProperties { .. } => continue,
                _ => at,
            };
            if !found.iter().any(|(known, _)| *known == at) {
                found.push((at, error.to_string()));
            }
        }
        let outermost = |at: &str| !found.iter().any(|(other, _)| other != at && is_within(at, other));
        let kept = found.iter().filter(|(at, _)| outermost(at));
        kept.map(|(at, problem)| Missing {
            pointer: at.clone(),
            schema: self.at(at),
            problem: problem.clone(),
        })
        .collect()
    }
}

/// Returns the schema of an object with these fields under their pointers; `None` when there are none.
pub fn pointer_schema(missing: &[Missing]) -> Option<Json> {
    if missing.is_empty() {
        return None;
    }
    let properties: JsonMap =
        missing.iter().map(|field| (field.pointer.clone(), field.schema.clone())).collect();
    let required: Vec<&str> = missing.iter().map(|field| field.pointer.as_str()).collect();
    Some(json!({"type": "object", "properties": properties, "required": required}))
}
