//! Sets an assigner that has `items` to version 2, whatever its `version` says, as Dify does.

use serde_json::Value as Json;

use tidemill_base::value::JsonMap;

pub(super) fn rewrite(data: &mut JsonMap) {
    let is_assigner = data.get("type").and_then(Json::as_str) == Some("assigner");
    if is_assigner && data.contains_key("items") {
        data.insert("version".into(), "2".into());
    }
}
