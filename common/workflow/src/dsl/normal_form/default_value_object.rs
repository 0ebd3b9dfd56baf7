//! Rewrites `default_value: {text: x}` to the list of `{key, type, value}`.

use serde_json::{Value as Json, json};

use tidemill_base::value::{JsonMap, SegmentType, infer_type};

pub(super) fn rewrite(data: &mut JsonMap) {
    let Some(Json::Object(short)) = data.get("default_value") else { return };
    let list = short.iter().map(|(key, value)| json!({"key": key, "type": type_name(value), "value": value}));
    let list = list.collect();
    data.insert("default_value".into(), Json::Array(list));
}

/// Returns Dify's type name of a value for that list; an empty list fits any list type.
fn type_name(value: &Json) -> &'static str {
    match infer_type(value) {
        SegmentType::ArrayAny if value.as_array().is_some_and(Vec::is_empty) => "array[string]",
        other => other.exposed_name(),
    }
}
