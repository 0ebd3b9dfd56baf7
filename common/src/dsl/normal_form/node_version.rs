//! `version: 2` for `version: "2"`: it is compared as text.

use serde_json::Value as Json;

use crate::value::JsonMap;

pub(super) fn rewrite(data: &mut JsonMap) {
    if let Some(version @ Json::Number(_)) = data.get_mut("version") {
        *version = Json::String(version.to_string());
    }
}
