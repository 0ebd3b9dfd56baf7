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

/// What of `rt` follows from what steps have left under their executions, after such a change: `answer` are the texts of
/// `answers` one behind the other, `full_time` is the sum of `durations`. A step that is done again has replaced its own
/// part, so that nothing counts twice. Gives the keys that were written.
pub fn of_steps(runtime: &mut JsonMap, change: &JsonMap) -> Vec<String> {
    let mut written = Vec::new();
    if let Some(Json::Object(answers)) = runtime.get("answers").filter(|_| change.contains_key("answers")) {
        let answer: String = answers.values().filter_map(Json::as_str).collect();
        runtime.insert("answer".into(), answer.into());
        written.push("answer".into());
    }
    if let Some(Json::Object(durations)) =
        runtime.get("durations").filter(|_| change.contains_key("durations"))
    {
        let sum: f64 = durations.values().filter_map(Json::as_f64).sum();
        runtime.insert("full_time".into(), ((sum * 1000.0).round() / 1000.0).into());
        written.push("full_time".into());
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn se_a24_the_answer_holds_the_text_of_each_execution_once() {
        let map = |value: Json| value.as_object().cloned().unwrap();
        let mut runtime = JsonMap::new();
        for (change, answer, full_time) in [
            (json!({"answers": {"a": "He"}, "durations": {"a": 1.5}}), "He", 1.5),
            (json!({"answers": {"b": "!"}, "durations": {"b": 0.25}}), "He!", 1.75),
            (json!({"answers": {"a": "Hello"}, "durations": {"a": 2.0}}), "Hello!", 2.25),
            (json!({"summary": "x"}), "Hello!", 2.25),
        ] {
            merge(&mut runtime, &map(change.clone()));
            let written = of_steps(&mut runtime, &map(change.clone()));
            assert_eq!(written.is_empty(), change.get("summary").is_some());
            assert_eq!((&runtime["answer"], &runtime["full_time"]), (&json!(answer), &json!(full_time)));
        }
    }

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
