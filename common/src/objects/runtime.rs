//! `rt`: values about the steps of a run that no node owns.

use serde_json::Value as Json;

use crate::value::JsonMap;

/// Merges a change into `rt` as JSON Merge Patch (RFC 7396) does: objects go into one another, null takes away,
/// anything else stands in place of what was there. So two branches that fill different fields of one object both count.
pub fn merge(into: &mut JsonMap, change: &JsonMap) {
    for (key, value) in change {
        match value {
            Json::Null => {
                into.remove(key);
            }
            Json::Object(inner) => {
                let place = into.entry(key.clone()).or_insert_with(|| Json::Object(JsonMap::new()));
                if !place.is_object() {
                    *place = Json::Object(JsonMap::new());
                }
                if let Json::Object(place) = place {
                    merge(place, inner);
                }
            }
            Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_go_into_one_another_and_null_takes_away() {
        for (before, change, behind) in [
            (json!({}), json!({"answer": "a"}), json!({"answer": "a"})),
            (json!({"answer": "a"}), json!({"answer": "b"}), json!({"answer": "b"})),
            (
                json!({"filled": {"a": {"x": 1}}}),
                json!({"filled": {"b": {"y": 2}}}),
                json!({"filled": {"a": {"x": 1}, "b": {"y": 2}}}),
            ),
            (json!({"facts": ["a"]}), json!({"facts": ["b"]}), json!({"facts": ["b"]})),
            (
                json!({"a": 1, "b": {"c": 1, "d": 2}}),
                json!({"a": null, "b": {"c": null}}),
                json!({"b": {"d": 2}}),
            ),
            (json!({"a": 1}), json!({"a": {"b": null}}), json!({"a": {}})),
        ] {
            let mut map = before.as_object().cloned().unwrap();
            merge(&mut map, change.as_object().unwrap());
            assert_eq!(Json::Object(map), behind);
        }
    }
}
