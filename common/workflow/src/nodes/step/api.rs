//! Static checks of an `api` step.

use serde_json::Value as Json;

/// A timeout must be longer than this, in seconds.
pub const TIMEOUT_OVER_SECONDS: f64 = 30.0;

/// True for a valid timeout of an `api` step.
pub fn is_timeout(value: &Json) -> bool {
    value.as_f64().is_some_and(|seconds| seconds > TIMEOUT_OVER_SECONDS)
}
