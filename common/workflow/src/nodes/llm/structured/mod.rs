//! Replies in JSON with a given schema: checks the model's ability, builds the request, and validates the reply.
//!
//! The failures and their messages are Dify's. The reply is validated against the same schema that was sent.

mod ask;
mod check;

use serde_json::Value as Json;

use super::ModelConfig;
use super::message::ModelFacts;
use check::Check;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::JsonMap;
use tidemill_base::value::json_repair::repair;

/// The feature of models that accept a schema in the request.
const FEATURE: &str = "structured-output";

/// A schema for a reply.
#[derive(Debug)]
pub struct Schema {
    json: Json,
    check: Check,
}

/// Checks the model's ability: features that the settings declare must include it. A model that is only known by the
/// table, or not at all, is asked in words.
///
/// # Errors
/// `LLMNodeError`, stage `capability`.
pub fn check_capability(model: &ModelConfig, facts: &ModelFacts) -> Result<(), NodeFailure> {
    if !facts.is_declared || facts.has(FEATURE) {
        return Ok(());
    }
    let name = format!("{}/{}", model.provider_label(), model.name);
    Err(failure(format!("Structured output is not supported by model {name} (stage=capability)")))
}

impl Schema {
    /// Reads the schema of a node's `structured_output`.
    ///
    /// # Errors
    /// `LLMNodeError`, stage `schema`: not an object, or not a valid JSON schema (draft 7).
    pub fn read(structured_output: &JsonMap) -> Result<Self, NodeFailure> {
        let invalid = |path: &str, what: &str| {
            failure(format!("Invalid structured output schema (stage=schema, path={path}): {what}"))
        };
        let json = structured_output.get("schema").cloned().unwrap_or_default();
        if !json.is_object() {
            return Err(invalid("$.schema", "expected a JSON object"));
        }
        let check = Check::new(&json).map_err(|mistake| invalid(&mistake.path, &mistake.message))?;
        Ok(Self { json, check })
    }

    /// The object in a reply, if it is valid.
    ///
    /// # Errors
    /// `LLMNodeError`, stage `result`.
    pub fn output(&self, reply: &str) -> Result<JsonMap, NodeFailure> {
        let Some(output) = object_in(reply) else {
            let error = format!("Failed to parse structured output: {reply}");
            return Err(failure(format!(
                "Failed to parse structured output (stage=result, path=$): {error}"
            )));
        };
        let value = Json::Object(output);
        if let Some(mistake) = self.check.mistake(&value) {
            let (path, message) = (mistake.path, mistake.message);
            return Err(failure(format!(
                "Structured output validation failed (stage=result, path={path}): {message}"
            )));
        }
        let Json::Object(output) = value else { return Ok(JsonMap::new()) };
        Ok(output)
    }
}

/// Parses a text as an object. Invalid JSON is repaired; from a list the first object is used, or an empty one.
fn object_in(text: &str) -> Option<JsonMap> {
    match serde_json::from_str(text) {
        Ok(Json::Object(object)) => return Some(object),
        Ok(Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) | Err(_) => {}
    }
    match repair(text).ok()? {
        Json::Object(object) => Some(object),
        Json::Array(items) => {
            let first = items.into_iter().find_map(|item| match item {
                Json::Object(object) => Some(object),
                Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => None,
            });
            Some(first.unwrap_or_default())
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
    }
}

fn failure(message: String) -> NodeFailure {
    NodeFailure::new("LLMNodeError", message)
}

#[cfg(test)]
mod tests;
