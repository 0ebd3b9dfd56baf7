//! Replies that are JSON of a given schema: whether the model can, what it is asked, and what becomes of its reply.
//!
//! The failures and their words are Dify's; the schema that is sent is the one that the reply is held to.

mod ask;
mod check;

use serde_json::Value as Json;

use super::ModelConfig;
use super::message::ModelFacts;
use crate::failure::NodeFailure;
use crate::value::JsonMap;
use crate::value::json_repair::repair;
use check::Check;

/// The feature of models that take a schema with the request.
const FEATURE: &str = "structured-output";

/// A schema that a reply must fit.
#[derive(Debug)]
pub struct Schema {
    json: Json,
    check: Check,
}

/// Whether the model can do it: unknown features are given the chance, known ones must name it.
///
/// # Errors
/// `LLMNodeError`, stage `capability`.
pub fn check_capability(model: &ModelConfig, facts: &ModelFacts) -> Result<(), NodeFailure> {
    if facts.features.is_none() || facts.has(FEATURE) {
        return Ok(());
    }
    let name = format!("{}/{}", model.provider_label(), model.name);
    Err(failure(format!("Structured output is not supported by model {name} (stage=capability)")))
}

impl Schema {
    /// Reads the schema of a node's `structured_output`.
    ///
    /// # Errors
    /// `LLMNodeError`, stage `schema`: no object, or no JSON schema (draft 7).
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

    /// The object that a reply holds, if it fits.
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

/// The object that a text is; a text that is none is repaired, and of a list the first object is taken, or an empty one.
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
