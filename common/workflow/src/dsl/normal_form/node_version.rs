//! Rewrites `version: 2` to `version: "2"`, since versions are compared as text.

use serde_json::Value as Json;

use tidemill_base::value::JsonMap;

pub(super) fn rewrite(data: &mut JsonMap) {
    if let Some(version @ Json::Number(_)) = data.get_mut("version") {
        *version = Json::String(version.to_string());
    }
}
