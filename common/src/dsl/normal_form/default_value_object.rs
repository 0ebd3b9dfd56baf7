//! `default_value: {text: x}` for the list of `{key, type, value}`.

use serde_json::{Value as Json, json};

use crate::value::{JsonMap, infer_type};

pub(super) fn rewrite(data: &mut JsonMap) {
    let Some(Json::Object(short)) = data.get("default_value") else { return };
    let list = short
        .iter()
        .map(|(key, value)| json!({"key": key, "type": infer_type(value).exposed_name(), "value": value}))
        .collect();
    data.insert("default_value".into(), Json::Array(list));
}
