//! An assigner that has `items` is of the second version whatever its `version` says, as Dify chooses it.

use serde_json::Value as Json;

use crate::value::JsonMap;

pub(super) fn rewrite(data: &mut JsonMap) {
    let is_assigner = data.get("type").and_then(Json::as_str) == Some("assigner");
    if is_assigner && data.contains_key("items") {
        data.insert("version".into(), "2".into());
    }
}
