//! What an `api` step may say, as far as it is known before it runs.

use serde_json::Value as Json;

/// A time limit is longer than this, in seconds.
pub const TIMEOUT_OVER_SECONDS: f64 = 30.0;

/// Whether this is a time limit that an `api` step may have.
pub fn is_timeout(value: &Json) -> bool {
    value.as_f64().is_some_and(|seconds| seconds > TIMEOUT_OVER_SECONDS)
}
