//! Finds the files in outputs, and gives them URLs.

use serde_json::Value as Json;
use tidemill_common::value::{FILE_IDENTITY, FILE_IDENTITY_KEY};
use uuid::Uuid;

use super::Projection;

impl Projection {
    /// Outputs in which files have URLs, and all these files.
    pub(super) fn with_files(&self, mut outputs: Json) -> (Json, Vec<Json>) {
        let files = among(&outputs);
        match (&self.run.links, outputs.as_object_mut()) {
            (Some(links), Some(values)) if !files.is_empty() => links.fill(values.values_mut()),
            _ => return (outputs, files),
        }
        let files = among(&outputs);
        (outputs, files)
    }
}

/// The id of a file of a message, by its place. It follows from both, so that every list has the same.
pub(crate) fn file_id(message: &str, at: usize) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("file {at} of message {message}").as_bytes()).to_string()
}

/// Returns all files among the values of an object, alone or in lists, as Dify looks for them.
pub(crate) fn among(outputs: &Json) -> Vec<Json> {
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
