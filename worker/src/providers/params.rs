//! Parameters that several APIs spell in their own way.

use serde_json::{Map, Value as Json};

use super::errors::{ErrorClass, ModelError};

/// Name of the answer that a schema describes (Dify's).
pub(super) const ANSWER: &str = "llm_response";

/// Takes the JSON schema of the answer out of the parameters, if one is asked for. Workflows hold it as JSON text in
/// `json_schema` beside the word `json_schema` in `response_format` (Dify); without that word it means nothing.
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

/// The schema alone, out of the form `{"name": …, "schema": …}` that OpenAI wants.
pub(super) fn bare_schema(schema: Json) -> Json {
    match schema {
        Json::Object(mut map) if map.get("schema").is_some_and(Json::is_object) => {
            map.shift_remove("schema").unwrap_or(Json::Null)
        }
        other => other,
    }
}

/// The arguments of a call as an object, for APIs that take nothing else. What the model wrote may be no JSON.
pub(super) fn arguments_object(text: &str) -> Json {
    match serde_json::from_str(text) {
        Ok(object @ Json::Object(_)) => object,
        Ok(Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) | Err(_) => {
            Json::Object(Map::new())
        }
    }
}

/// A text within an object; empty when it is not there.
pub(super) fn text<'a>(object: &'a Json, key: &str) -> &'a str {
    object.get(key).and_then(Json::as_str).unwrap_or("")
}
