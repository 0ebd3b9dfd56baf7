//! Finds the files in outputs.

use serde_json::Value as Json;
use tidemill_common::value::{FILE_IDENTITY, FILE_IDENTITY_KEY};

/// Returns all files among the values of an object, alone or in lists, as Dify looks for them.
pub(super) fn among(outputs: &Json) -> Vec<Json> {
    let values = outputs.as_object().into_iter().flat_map(|map| map.values());
    values
        .flat_map(|value| match value {
            Json::Array(items) => items.as_slice(),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {
                std::slice::from_ref(value)
            }
        })
        .filter(|value| value.get(FILE_IDENTITY_KEY).and_then(Json::as_str) == Some(FILE_IDENTITY))
        .cloned()
        .collect()
}
