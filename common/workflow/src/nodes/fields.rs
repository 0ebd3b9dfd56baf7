//! Readers for a node's configuration, as strict and as lenient as Dify: a missing field or a wrong type is reported
//! with its path; unknown keys are ignored.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::dsl::Problems;
use tidemill_base::value::{JsonMap, Segment, Selector, Variables};

/// Dify's code for a node whose `data` cannot be used.
pub const INVALID_NODE_DATA: &str = crate::dsl::fields::BUILD_FAILED;

/// The name of a JSON value's type, for messages.
pub fn type_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "a mapping",
    }
}

/// Reads a required field. `read` gets the value and reports problems at the field's path.
pub fn required<T>(
    data: &JsonMap,
    key: &str,
    problems: &mut Problems,
    read: impl FnOnce(&Json, &mut Problems) -> Option<T>,
) -> Option<T> {
    problems.within(key, |problems| match data.get(key) {
        Some(value) => read(value, problems),
        None => {
            problems.error(INVALID_NODE_DATA, format!("the field {key} is required"));
            None
        }
    })
}

/// A text. Numbers are refused.
pub fn text(value: &Json, problems: &mut Problems) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            wrong(value, "a text", problems)
        }
    }
}

/// A mapping.
pub fn mapping<'a>(value: &'a Json, problems: &mut Problems) -> Option<&'a JsonMap> {
    match value {
        Json::Object(map) => Some(map),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            wrong(value, "a mapping", problems)
        }
    }
}

/// A boolean; as on Dify also `0`, `1` and the usual words.
pub fn flag(value: &Json, problems: &mut Problems) -> Option<bool> {
    let known = match value {
        Json::Bool(flag) => Some(*flag),
        Json::Number(number) if number.as_f64() == Some(1.0) => Some(true),
        Json::Number(number) if number.as_f64() == Some(0.0) => Some(false),
        Json::String(text) => match text.to_lowercase().as_str() {
            "1" | "true" | "t" | "yes" | "y" | "on" => Some(true),
            "0" | "false" | "f" | "no" | "n" | "off" => Some(false),
            _ => None,
        },
        Json::Null | Json::Number(_) | Json::Array(_) | Json::Object(_) => None,
    };
    known.or_else(|| wrong(value, "true or false", problems))
}

/// A list whose items are read by `read`. All items are read, so that all problems are reported; one bad item makes the
/// list invalid.
pub fn list<T>(
    value: &Json,
    problems: &mut Problems,
    mut read: impl FnMut(&Json, &mut Problems) -> Option<T>,
) -> Option<Vec<T>> {
    let Json::Array(items) = value else { return wrong(value, "a list", problems) };
    let read_all: Vec<Option<T>> = items
        .iter()
        .enumerate()
        .map(|(at, item)| problems.within(format!("[{at}]"), |problems| read(item, problems)))
        .collect();
    read_all.into_iter().collect()
}

/// A selector: a list of texts of any length.
pub fn selector(value: &Json, problems: &mut Problems) -> Option<Selector> {
    list(value, problems, text)
}

/// The values of selectors under the node's own names, in the order of first appearance. A missing value is null; of
/// two with the same name the last wins.
pub fn named_values(wanted: &[(String, Selector)], variables: &dyn Variables) -> Vec<(String, Segment)> {
    let mut values: Vec<(String, Segment)> = Vec::with_capacity(wanted.len());
    for (name, selector) in wanted {
        let value = variables.found(selector).map_or_else(Segment::none, Cow::into_owned);
        set(&mut values, name, value);
    }
    values
}

/// Sets the value of a name; replaces an existing value in place.
pub fn set(values: &mut Vec<(String, Segment)>, name: &str, value: Segment) {
    match values.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value,
        None => values.push((name.into(), value)),
    }
}

/// Reports that the value has the wrong type.
pub fn wrong<T>(value: &Json, wanted: &str, problems: &mut Problems) -> Option<T> {
    problems.error(INVALID_NODE_DATA, format!("must be {wanted}, not {}", type_name(value)));
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_bad_item_of_a_list_is_reported_at_its_place() {
        let mut problems = Problems::new();
        let data = json!({"l": ["a", 1, "b", null]});
        let read = required(data.as_object().expect("a mapping"), "l", &mut problems, selector);
        assert_eq!(read, None);
        let found: Vec<String> =
            problems.into_vec().into_iter().map(|d| format!("{} {}", d.path, d.message)).collect();
        assert_eq!(found, ["l[1] must be a text, not a number", "l[3] must be a text, not null"]);
    }

    #[test]
    fn truth_values_may_be_written_in_words_and_numbers() {
        for (value, read) in [
            (json!(true), Some(true)),
            (json!("False"), Some(false)),
            (json!("1"), Some(true)),
            (json!(0), Some(false)),
            (json!(2), None),
            (json!("maybe"), None),
            (json!(null), None),
        ] {
            let mut problems = Problems::new();
            assert_eq!(flag(&value, &mut problems), read, "{value}");
            assert_eq!(problems.has_errors(), read.is_none());
        }
    }
}
