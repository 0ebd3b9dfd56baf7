//! Checks the secret of a webhook (`tidemill.secret`, not in Dify): a secret environment variable of the workflow. A
//! request gives it as a bearer key or in the header `X-Webhook-Secret`. It is compared in constant time, and never
//! passed to the run or to a log.

use axum::http::{HeaderMap, HeaderName, header};
use sha2::{Digest, Sha256};
use tidemill_common::graph::Graph;
use tidemill_common::nodes::trigger_webhook::TriggerWebhookData;

use crate::api::error::ApiError;

/// The header for the secret.
const OWN: HeaderName = HeaderName::from_static("x-webhook-secret");

/// Accepts a request that gives the secret, or when there is no secret. Returns the header that contained it.
///
/// # Errors
/// 401.
pub(super) fn check(
    data: &TriggerWebhookData,
    graph: &Graph,
    headers: &HeaderMap,
) -> Result<Option<HeaderName>, ApiError> {
    let Some(name) = &data.secret else { return Ok(None) };
    let secret = graph.environment_variable(name).and_then(|variable| variable.value.value.as_str());
    // An import refuses an empty secret; if there is one in spite of that, no request fits it.
    let secret = secret.filter(|secret| !secret.is_empty());
    for header in [OWN, header::AUTHORIZATION] {
        let Some(given) = headers.get(&header).map(|value| value.as_bytes()) else { continue };
        let given = if header == OWN { given } else { bearer(given) };
        if secret.is_some_and(|secret| is_same(secret.as_bytes(), given)) {
            return Ok(Some(header));
        }
    }
    Err(ApiError::unauthorized(
        "the webhook's secret is missing or wrong (X-Webhook-Secret, or Authorization: Bearer)",
    ))
}

fn bearer(value: &[u8]) -> &[u8] {
    const SCHEME: &[u8] = b"bearer ";
    match value.split_at_checked(SCHEME.len()) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(SCHEME) => key.trim_ascii(),
        Some(_) | None => b"",
    }
}

/// Compares the digests, which have the same length, and always all bytes of them. So the time depends on neither text.
fn is_same(secret: &[u8], given: &[u8]) -> bool {
    let (secret, given) = (Sha256::digest(secret), Sha256::digest(given));
    secret.iter().zip(given.iter()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_key_is_the_text_after_the_scheme() {
        for (value, key) in
            [("Bearer k", "k"), ("bearer  k ", "k"), ("Basic k", ""), ("Bearer", ""), ("k", "")]
        {
            assert_eq!(bearer(value.as_bytes()), key.as_bytes(), "{value}");
        }
    }

    #[test]
    fn only_the_complete_secret_is_accepted() {
        for (given, same) in [("hunter2", true), ("hunter", false), ("hunter22", false), ("", false)] {
            assert_eq!(is_same(b"hunter2", given.as_bytes()), same, "{given}");
        }
    }
}
