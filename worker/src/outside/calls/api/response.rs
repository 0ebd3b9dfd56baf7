//! Reads an answer. Pure.

use reqwest::header::HeaderMap;
use serde_json::{Value as Json, json};
use tidemill_common::nodes::step::CallError;

use crate::outside::providers::retry::Hints;

/// Statuses of a successful call.
const SUCCESS: [u16; 16] = [200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 301, 302, 303, 304, 307, 308];

/// Returns the status and the answer.
///
/// # Errors
/// The status is not a success, or the body is not JSON.
pub(super) fn read(code: u16, body: &str, accept_text: bool) -> Result<(u16, Json), CallError> {
    if !SUCCESS.contains(&code) {
        let error = CallError::of("ApiStatusError", format!("the API answers with status {code}"));
        return Err(error.with(json!({"http_code": code, "api_response_data": body})));
    }
    if body.trim().is_empty() {
        return Ok((code, json!({})));
    }
    match serde_json::from_str(body) {
        Ok(result) => Ok((code, result)),
        Err(_) if accept_text => Ok((code, body.into())),
        Err(error) => {
            let message = format!(
                "the API answers with something that is not JSON ({error}); accept_text takes it as text"
            );
            let error = CallError::of("ApiResponseNotJson", message);
            Err(error.with(json!({"http_code": code, "api_response_data": body})))
        }
    }
}

/// The wait the server asks for, in milliseconds.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let after = Hints::of(headers, chrono::Utc::now().timestamp_millis()).after?;
    u64::try_from(after.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn se_a16_answers_mean_what_their_codes_and_bodies_say() {
        assert_eq!(read(200, r#"{"a":1}"#, false).unwrap(), (200, json!({"a": 1})));
        assert_eq!(read(204, "", false).unwrap(), (204, json!({})));
        for code in [200, 208, 226, 301, 304, 308] {
            assert!(read(code, "{}", false).is_ok(), "{code}");
        }
        for code in [0, 100, 209, 300, 305, 400, 404, 429, 500] {
            let error = read(code, "gone", false).unwrap_err();
            assert_eq!(error.error_type, "ApiStatusError");
            assert_eq!(Json::Object(error.data), json!({"http_code": code, "api_response_data": "gone"}));
        }
        let error = read(200, "<html>", false).unwrap_err();
        assert_eq!((error.error_type.as_str(), error.retryable), ("ApiResponseNotJson", false));
        assert_eq!(read(200, "<html>", true).unwrap().1, "<html>");
        assert_eq!(read(200, "[1]", true).unwrap().1, json!([1]));
    }
}
