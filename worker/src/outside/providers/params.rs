//! Parameters that APIs write in different ways.

use serde_json::{Map, Value as Json};

use crate::outside::providers::errors::{ErrorClass, ModelError};

/// The name of a structured answer (Dify's).
pub(super) const ANSWER: &str = "llm_response";

/// Removes the schema of a structured answer from the parameters and returns it. Workflows store it as JSON text in
/// `json_schema` and set `response_format` to `json_schema` (Dify); without that the schema is ignored.
pub(super) fn take_schema(label: &str, params: &mut Map<String, Json>) -> Result<Option<Json>, ModelError> {
    let schema = params.shift_remove("json_schema");
    if params.get("response_format").and_then(Json::as_str) != Some("json_schema") {
        return Ok(None);
    }
    match schema {
        Some(Json::String(text)) => serde_json::from_str(&text).map(Some).map_err(|error| {
            let cause = format!("the parameter json_schema is not JSON: {error}");
            ModelError::new(label, ErrorClass::BadRequest, &cause)
        }),
        other => Ok(other),
    }
}

/// Unwraps a schema from OpenAI's form `{"name": …, "schema": …}`.
pub(super) fn bare_schema(schema: Json) -> Json {
    match schema {
        Json::Object(mut map) if map.get("schema").is_some_and(Json::is_object) => {
            map.shift_remove("schema").unwrap_or(Json::Null)
        }
        other => other,
    }
}

/// The arguments of a call as an object, for APIs that accept nothing else. The model may have written invalid JSON.
pub(super) fn arguments_object(text: &str) -> Json {
    match serde_json::from_str(text) {
        Ok(object @ Json::Object(_)) => object,
        Ok(Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) | Err(_) => {
            Json::Object(Map::new())
        }
    }
}

/// A text field of an object; empty if it is missing.
pub(super) fn text<'a>(object: &'a Json, key: &str) -> &'a str {
    object.get(key).and_then(Json::as_str).unwrap_or("")
}
