//! `default_value` of a node: the outputs used when the node has failed and its error strategy is to continue with
//! defaults.

use serde_json::{Number, Value as Json};

use super::condition::INVALID_NODE_DATA;
use super::condition::parse::each;
use crate::dsl::Problems;
use tidemill_base::value::coerce::parse_python_float;
use tidemill_base::value::pyrepr::str_of;
use tidemill_base::value::{JsonMap, Segment};

/// The declared type of a default.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Declared {
    String,
    Number,
    Object,
    ArrayNumber,
    ArrayString,
    ArrayObject,
    ArrayFile,
}

impl Declared {
    fn read(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Self::String,
            "number" => Self::Number,
            "object" => Self::Object,
            "array[number]" => Self::ArrayNumber,
            "array[string]" => Self::ArrayString,
            "array[object]" => Self::ArrayObject,
            "array[file]" => Self::ArrayFile,
            _ => return None,
        })
    }
}

/// Reads a list of `{key, type, value}`; the caller has put `default_value` into the path of `problems`. Numbers,
/// objects and lists can be written as text, as Dify's editor does. Problems carry Dify's messages.
pub fn parse(list: &Json, problems: &mut Problems) -> Option<Vec<(String, Segment)>> {
    each(Some(list), problems, parse_one)
}

fn parse_one(data: &JsonMap, problems: &mut Problems) -> Option<(String, Segment)> {
    let text = |key: &str| data.get(key).and_then(Json::as_str);
    let (Some(key), Some(name)) = (text("key"), text("type")) else {
        problems.error(INVALID_NODE_DATA, "a default value needs the texts key and type");
        return None;
    };
    let Some(declared) = Declared::read(name) else {
        let hint =
            "the types are: string, number, object, array[number], array[string], array[object], array[file]";
        let message = format!("type {name:?} is not a type of default values");
        problems.error_with_hint(INVALID_NODE_DATA, message, hint);
        return None;
    };
    match fitting(declared, data.get("value").unwrap_or(&Json::Null)) {
        Ok(value) => Some((key.to_owned(), Segment::restore_files(value))),
        Err(message) => {
            problems.error(INVALID_NODE_DATA, message);
            None
        }
    }
}

/// Converts the value from text where needed and checks it against the declared type.
fn fitting(declared: Declared, given: &Json) -> Result<Json, String> {
    let value = match (declared, given) {
        (Declared::String | Declared::ArrayFile, _) => given.clone(),
        (Declared::Number, Json::String(text)) => parse_python_float(text)
            .ok()
            .and_then(Number::from_f64)
            .map(Json::Number)
            .ok_or_else(|| format!("Cannot convert to number: {text}"))?,
        (_, Json::String(text)) => {
            serde_json::from_str(text).map_err(|_| format!("Invalid JSON format for value: {text}"))?
        }
        (
            Declared::Number
            | Declared::Object
            | Declared::ArrayNumber
            | Declared::ArrayString
            | Declared::ArrayObject,
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_),
        ) => given.clone(),
    };
    // In Python booleans are numbers.
    let is_number: fn(&Json) -> bool = |value| value.is_number() || value.is_boolean();
    let shaped = |fits: bool, class: &str| {
        if fits { Ok(()) } else { Err(format!("Value must be {class} type for {}", str_of(&value))) }
    };
    let items = |fits: fn(&Json) -> bool, class: &str| {
        let Json::Array(items) = &value else { return shaped(false, "list") };
        let all = items.iter().all(fits);
        if all { Ok(()) } else { Err(format!("All elements must be {class} for {}", str_of(&value))) }
    };
    match declared {
        Declared::String => shaped(value.is_string(), "str")?,
        Declared::Number => shaped(is_number(&value), "number")?,
        Declared::Object => shaped(value.is_object(), "dict")?,
        Declared::ArrayNumber => items(is_number, "number")?,
        Declared::ArrayString => items(Json::is_string, "str")?,
        Declared::ArrayObject => items(Json::is_object, "dict")?,
        Declared::ArrayFile => {}
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_are_read_from_text_and_checked_against_their_type() {
        for (ty, given, expected) in [
            ("string", json!("x"), Ok(json!("x"))),
            ("string", json!("5"), Ok(json!("5"))),
            ("string", json!(5), Err("Value must be str type for 5")),
            ("string", json!(null), Err("Value must be str type for None")),
            ("number", json!(5), Ok(json!(5))),
            ("number", json!("5"), Ok(json!(5.0))),
            ("number", json!("many"), Err("Cannot convert to number: many")),
            ("number", json!([1]), Err("Value must be number type for [1]")),
            ("object", json!("{\"a\": 1}"), Ok(json!({"a": 1}))),
            ("object", json!("[1]"), Err("Value must be dict type for [1]")),
            ("object", json!("{"), Err("Invalid JSON format for value: {")),
            ("array[number]", json!("[1, 2.5]"), Ok(json!([1, 2.5]))),
            ("array[number]", json!(["1"]), Err("All elements must be number for ['1']")),
            ("array[string]", json!(["a"]), Ok(json!(["a"]))),
            ("array[string]", json!("\"a\""), Err("Value must be list type for a")),
            ("array[object]", json!([{}, 1]), Err("All elements must be dict for [{}, 1]")),
            ("array[file]", json!("anything"), Ok(json!("anything"))),
            ("boolean", json!(true), Err("type \"boolean\" is not a type of default values")),
        ] {
            let mut problems = Problems::new();
            let found = parse(&json!([{"key": "k", "type": ty, "value": given}]), &mut problems);
            let problems = problems.into_vec();
            match expected {
                Ok(value) => {
                    let expected = Segment::restore_files(value);
                    assert_eq!(found, Some(vec![("k".to_owned(), expected)]), "{ty} {given}: {problems:?}");
                }
                Err(message) => {
                    assert_eq!((found, problems[0].message.as_str()), (None, message), "{ty} {given}");
                }
            }
        }
    }
}
