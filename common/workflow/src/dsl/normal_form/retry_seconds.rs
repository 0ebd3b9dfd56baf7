//! Rewrites `retry_interval_seconds` to `retry_interval` (milliseconds), which wins when both are present.

use serde_json::{Value as Json, json};

use tidemill_base::value::JsonMap;

pub(super) fn rewrite(data: &mut JsonMap) {
    let Some(config) = data.get_mut("retry_config").and_then(Json::as_object_mut) else { return };
    let Some(seconds) = config.get("retry_interval_seconds").and_then(Json::as_f64).filter(|s| *s >= 0.0)
    else {
        return;
    };
    config.shift_remove("retry_interval_seconds");
    // The cast saturates.
    let ms = (seconds * 1000.0).round() as u64;
    config.entry("retry_interval").or_insert(json!(ms));
}
