//! The durability that a request asks for: the field `durability` on `/api/v1`, a header on `/v1`.

use axum::http::HeaderMap;
use tidemill_common::store::Durability;
use tidemill_common::value::JsonMap;

use super::error::ApiError;
use super::request::take_text;

/// The header.
const HEADER: &str = "tidemill-durability";

/// Reads the header.
///
/// # Errors
/// 400 `invalid_param` for an unknown level.
pub(super) fn of_header(headers: &HeaderMap) -> Result<Option<Durability>, ApiError> {
    let Some(value) = headers.get(HEADER) else { return Ok(None) };
    level("Tidemill-Durability", value.to_str().unwrap_or_default()).map(Some)
}

/// Takes the field out of an object.
///
/// # Errors
/// 400 `invalid_param` for an unknown level.
pub(super) fn take(map: &mut JsonMap) -> Result<Option<Durability>, ApiError> {
    take_text(map, "durability")?.map(|text| level("durability", &text)).transpose()
}

fn level(place: &str, text: &str) -> Result<Durability, ApiError> {
    let known = Durability::ALL.map(Durability::name).join(", ");
    let wrong = || ApiError::invalid_param(format!("{place} must be one of {known}"));
    Durability::from_name(text).ok_or_else(wrong)
}
