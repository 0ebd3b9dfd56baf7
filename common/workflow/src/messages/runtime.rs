//! `rt`: values about the steps of a run that no single node owns.

use serde_json::Value as Json;

use tidemill_base::value::{JsonMap, json_size};

/// Merges a change into `rt` as JSON Merge Patch (RFC 7396) does: objects are merged, null removes a key, all
/// other values replace. So two branches that set different fields of one object do not conflict.
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

/// The texts that steps have sent to the user, concatenated.
const ANSWER: &str = "answer";
/// The length in bytes of each of the newest executions' part of the answer.
const ANSWERS: &str = "answers";
/// The number of bytes cut off at the beginning of the answer.
const ANSWER_CUT: &str = "answer_cut";
/// The total duration of the steps, in seconds.
const FULL_TIME: &str = "full_time";
/// The duration of each of the newest executions, in seconds.
const DURATIONS: &str = "durations";
/// The keys that locate the part of an execution. Nodes do not read them.
pub const PARTS: [&str; 2] = [ANSWERS, DURATIONS];
/// Number of executions whose part is known. When one of them runs again, it replaces its own part.
const PARTS_MAX: usize = 256;

/// Applies a change to `rt` and returns the written keys. A step reports the text that it sent to the user
/// (`answers`) and its duration (`durations`) under its execution id, so that a repeated execution does not
/// count twice. Only the newest `answer_bytes_max` bytes of the answer are kept.
pub fn apply(runtime: &mut JsonMap, change: &JsonMap, answer_bytes_max: usize) -> Vec<String> {
    let (of_steps, rest): (JsonMap, JsonMap) =
        change.clone().into_iter().partition(|(key, _)| PARTS.contains(&key.as_str()));
    merge(runtime, &rest);
    let mut written: Vec<String> = rest.into_iter().map(|(key, _)| key).collect();
    for (key, value) in of_steps {
        let Json::Object(parts) = value else { continue };
        for (execution, part) in parts {
            match part {
                Json::String(text) if key == ANSWERS => say(runtime, &execution, &text, answer_bytes_max),
                part => took(runtime, &execution, part.as_f64().unwrap_or_default()),
            }
        }
        let keys: &[&str] =
            if key == ANSWERS { &[ANSWER, ANSWERS, ANSWER_CUT] } else { &[FULL_TIME, DURATIONS] };
        written.extend(keys.iter().filter(|key| runtime.contains_key(**key)).map(|key| (*key).to_owned()));
    }
    written
}

/// Returns the bytes of `rt` after a change, without the keys that steps write themselves, which are bounded.
pub fn bytes_with(runtime: &JsonMap, change: &JsonMap) -> usize {
    let is_own = |key: &str| [ANSWER, ANSWERS, ANSWER_CUT, FULL_TIME, DURATIONS].contains(&key);
    let of = |map: &JsonMap| -> JsonMap {
        map.iter().filter(|(key, _)| !is_own(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let mut after = of(runtime);
    merge(&mut after, &of(change));
    after.iter().map(|(key, value)| key.len() + 4 + json_size(value)).sum()
}

fn say(runtime: &mut JsonMap, execution: &str, text: &str, bytes_max: usize) {
    let mut answer = match runtime.shift_remove(ANSWER) {
        Some(Json::String(answer)) => answer,
        _ => String::new(),
    };
    // An earlier version stored the texts themselves.
    let length = |part: &Json| part.as_str().map_or(part.as_u64().unwrap_or(0) as usize, str::len);
    let known = runtime.get(ANSWERS).and_then(Json::as_object);
    let mut parts: Vec<(String, usize)> =
        known.into_iter().flatten().map(|(execution, part)| (execution.clone(), length(part))).collect();
    let sum = |parts: &[(String, usize)]| parts.iter().map(|(_, length)| length).sum::<usize>();
    match parts.iter().position(|(known, _)| known == execution) {
        Some(at) => {
            let start = (answer.len() + sum(&parts[..at])).saturating_sub(sum(&parts));
            let end = (start + parts[at].1).min(answer.len());
            if answer.is_char_boundary(start) && answer.is_char_boundary(end) {
                answer.replace_range(start..end, text);
                parts[at].1 = text.len();
            }
        }
        None => {
            answer.push_str(text);
            parts.push((execution.to_owned(), text.len()));
        }
    }
    if answer.len() > bytes_max {
        let mut cut = answer.len() - bytes_max;
        while !answer.is_char_boundary(cut) {
            cut += 1;
        }
        answer.drain(..cut);
        let before = runtime.get(ANSWER_CUT).and_then(Json::as_u64).unwrap_or(0);
        runtime.insert(ANSWER_CUT.into(), (before + cut as u64).into());
    }
    parts.drain(..parts.len().saturating_sub(PARTS_MAX));
    let mut over = sum(&parts).saturating_sub(answer.len());
    parts.retain_mut(|(_, length)| {
        let less = over.min(*length);
        (over, *length) = (over - less, *length - less);
        less == 0 || *length > 0
    });
    let parts: JsonMap = parts.into_iter().map(|(execution, length)| (execution, length.into())).collect();
    runtime.insert(ANSWERS.into(), Json::Object(parts));
    runtime.insert(ANSWER.into(), answer.into());
}

fn took(runtime: &mut JsonMap, execution: &str, seconds: f64) {
    let number = |runtime: &JsonMap, key: &str| runtime.get(key).and_then(Json::as_f64).unwrap_or(0.0);
    let mut full_time = number(runtime, FULL_TIME) + seconds;
    let parts = runtime.entry(DURATIONS).or_insert_with(|| Json::Object(JsonMap::new()));
    if let Json::Object(parts) = parts {
        full_time -= number(parts, execution);
        parts.insert(execution.to_owned(), seconds.into());
        while parts.len() > PARTS_MAX {
            let oldest = parts.keys().next().cloned().unwrap_or_default();
            parts.shift_remove(&oldest);
        }
    }
    // Rounded to microseconds, since a sum of many values accumulates rounding errors.
    runtime.insert(FULL_TIME.into(), ((full_time * 1e6).round() / 1e6).into());
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
            let written = apply(&mut runtime, &map(change.clone()), 100);
            assert_eq!(written.contains(&"answer".to_owned()), change.get("summary").is_none());
            assert_eq!((&runtime["answer"], &runtime["full_time"]), (&json!(answer), &json!(full_time)));
        }
    }

    #[test]
    fn se_35_the_answer_and_the_parts_of_steps_are_bounded() {
        let map = |value: Json| value.as_object().cloned().unwrap();
        let mut runtime = JsonMap::new();
        for n in 0..25_000 {
            let id = format!("{n:036}");
            let change = json!({"answers": {&id: format!("é{n};")}, "durations": {&id: 0.0001}});
            apply(&mut runtime, &map(change), 1000);
        }
        let answer = runtime["answer"].as_str().unwrap();
        assert!(answer.ends_with("é24998;é24999;") && (990..=1000).contains(&answer.len()), "{answer}");
        assert_eq!(runtime["full_time"], json!(2.5));
        assert!(json_size(&Json::Object(runtime.clone())) < 40_000);
        assert!(runtime["answer_cut"].as_u64().is_some_and(|cut| cut > 100_000), "{}", runtime["answer_cut"]);
        assert_eq!(bytes_with(&runtime, &map(json!({"answers": {"x": "y"}, "a": "b"}))), 8);
        // The newest parts are still known; parts that were cut in two or dropped are not.
        let again = format!("{:036}", 24_999);
        apply(&mut runtime, &map(json!({"answers": {&again: "!"}, "durations": {&again: 1.0001}})), 1000);
        assert!(runtime["answer"].as_str().unwrap().ends_with("é24998;!"));
        assert_eq!(runtime["full_time"], json!(3.5));
    }

    #[test]
    fn data_of_an_earlier_version_is_continued() {
        let mut runtime =
            json!({"answer": "Hi you", "answers": {"a": "Hi ", "b": "you"}, "durations": {"a": 1.0},
            "full_time": 1.0})
            .as_object()
            .cloned()
            .unwrap();
        let change =
            json!({"answers": {"a": "Ho "}, "durations": {"a": 2.0, "c": 1.0}}).as_object().cloned().unwrap();
        apply(&mut runtime, &change, 100);
        assert_eq!((&runtime["answer"], &runtime["full_time"]), (&json!("Ho you"), &json!(3.0)));
        assert_eq!(runtime["answers"], json!({"a": 3, "b": 3}));
    }

    #[test]
    fn objects_are_merged_and_null_removes() {
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
