//! Merges one JSON object into another.

use serde_json::Value as Json;

use super::JsonMap;

/// Returns `under` with the values of `over` merged in: objects are merged recursively, all other values are
/// replaced, lists too.
pub fn merged(under: &JsonMap, over: &JsonMap) -> JsonMap {
    let mut all = under.clone();
    for (key, value) in over {
        let value = match (all.get(key), value) {
            (Some(Json::Object(under)), Json::Object(over)) => Json::Object(merged(under, over)),
            _ => value.clone(),
        };
        all.insert(key.clone(), value);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lp_a02_objects_are_merged_and_all_else_is_replaced() {
        let map = |value: Json| value.as_object().cloned().expect("an object");
        let under = map(json!({"temperature": 0.7, "opts": {"a": 1, "l": [1, 2]}, "o": {"x": 1}}));
        let over = map(json!({"temperature": 0.1, "opts": {"b": 2, "l": [3]}, "o": 5, "n": {}}));
        let expected = json!({"temperature": 0.1, "opts": {"a": 1, "l": [3], "b": 2}, "o": 5, "n": {}});
        assert_eq!(Json::Object(merged(&under, &over)), expected);
        assert_eq!(merged(&under, &JsonMap::new()), under);
    }
}
