//! Parses a document as OpenAPI 3, and follows the references inside it.

use serde_json::Value as Json;
use tidemill_common::dsl::read_plain;

use crate::outside::openapi::swagger;

/// Dify's message for any other document.
pub(crate) const ONLY_OPENAPI: &str = "Only openapi is supported now.";

/// Parses a YAML or JSON document as OpenAPI 3.
///
/// # Errors
/// The reason it is not such a document, in Dify's words if Dify has some.
pub(crate) fn parsed(text: &[u8]) -> Result<Json, String> {
    let mut document = read_plain(text).map_err(|problem| problem.message)?;
    if swagger::is_one(&document) {
        document = swagger::converted(document);
    }
    // A version without quotes may be read as a number.
    if !matches!(document.get("openapi"), Some(Json::String(_) | Json::Number(_))) {
        return Err(match document.pointer("/api/url").and_then(Json::as_str) {
            Some(url) => format!("{ONLY_OPENAPI} This is a plugin's manifest: give the document of {url}"),
            None => ONLY_OPENAPI.into(),
        });
    }
    Ok(document)
}

/// Follows a `$ref` inside the document. A broken reference is returned as it is.
pub(crate) fn resolved<'a>(document: &'a Json, value: &'a Json) -> &'a Json {
    let mut at = value;
    // Real chains of references are short; a long one is a cycle.
    for _ in 0..16 {
        let Some(reference) = at.get("$ref").and_then(Json::as_str) else { return at };
        let Some(next) = reference.strip_prefix('#').and_then(|path| document.pointer(path)) else {
            return at;
        };
        at = next;
    }
    at
}
