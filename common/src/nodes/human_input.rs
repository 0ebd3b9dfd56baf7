//! A form that a person answers: what Dify checks of its configuration when a file comes in.

use std::collections::HashSet;

use serde_json::Value as Json;

use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields, kind_of};
use crate::value::JsonMap;

const ACTION_ID_CHARS_MAX: usize = 20;
const ACTION_TITLE_CHARS_MAX: usize = 100;

/// Reports what is wrong with `data` of a human-input node. The texts of Dify's errors are kept.
pub(super) fn check(data: &JsonMap, problems: &mut Problems) {
    let fields = Fields::new(data, BUILD_FAILED);
    each(&fields, "inputs", problems, input);
    each(&fields, "user_actions", problems, action);
    fields.integer("timeout", 36, 1, problems);
    if data.contains_key("timeout_unit") {
        fields.one_of("timeout_unit", &["hour", "day"], problems);
    }
}

/// Checks each item of an optional list. The check gets the names that stood before it.
fn each<'a>(
    fields: &Fields<'a>,
    key: &str,
    problems: &mut Problems,
    check: fn(&'a JsonMap, &mut HashSet<&'a str>, &mut Problems),
) {
    if fields.given(key).is_none() {
        return;
    }
    let mut seen = HashSet::new();
    for (at, item) in fields.list(key, problems).into_iter().flatten().enumerate() {
        problems.within(format!("{key}[{at}]"), |problems| match item.as_object() {
            Some(item) => check(item, &mut seen, problems),
            None => {
                problems.error(BUILD_FAILED, format!("an entry must be a mapping, not {}", kind_of(item)))
            }
        });
    }
}

fn input<'a>(item: &'a JsonMap, seen: &mut HashSet<&'a str>, problems: &mut Problems) {
    let Some(name) = Fields::new(item, BUILD_FAILED).text("output_variable_name", problems) else { return };
    if !seen.insert(name) {
        problems.error(BUILD_FAILED, format!("duplicated output_variable_name '{name}' in inputs"));
    }
    for source in ["default", "option_source"] {
        problems.within(source, |problems| variable_source(item.get(source), problems));
    }
}

fn variable_source(source: Option<&Json>, problems: &mut Problems) {
    let Some(source) = source.filter(|source| source.get("type").and_then(Json::as_str) == Some("variable"))
    else {
        return;
    };
    let selector = source.get("selector").unwrap_or(&Json::Null);
    if selector.as_array().is_none_or(|parts| parts.len() < 2) {
        let message = format!("the length of selector should be at least 2, selector={selector}");
        problems.error(BUILD_FAILED, message);
    }
}

fn action<'a>(item: &'a JsonMap, seen: &mut HashSet<&'a str>, problems: &mut Problems) {
    let fields = Fields::new(item, BUILD_FAILED);
    let (id, title) = (fields.text("id", problems), fields.text("title", problems));
    if let Some(title) = title.filter(|title| title.chars().count() > ACTION_TITLE_CHARS_MAX) {
        let message = format!(
            "the title has {} characters, at most {ACTION_TITLE_CHARS_MAX} are allowed",
            title.chars().count()
        );
        problems.error(BUILD_FAILED, message);
    }
    let Some(id) = id else { return };
    if !is_identifier(id) {
        let message = format!(
            "'{id}' is not a valid identifier. It must start with a letter or underscore, and contain only letters, numbers, or underscores."
        );
        problems.error(BUILD_FAILED, message);
    } else if id.len() > ACTION_ID_CHARS_MAX {
        problems.error(
            BUILD_FAILED,
            format!("the action id {id:?} is longer than {ACTION_ID_CHARS_MAX} characters"),
        );
    }
    if !seen.insert(id) {
        problems.error(BUILD_FAILED, format!("duplicated user action id '{id}'"));
    }
}

fn is_identifier(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::super::parse::tests::paths_of;
    use super::*;
    use serde_json::json;

    #[test]
    fn each_wrong_field_is_reported_at_its_path() {
        let field = |name: &str| json!({"output_variable_name": name, "type": "paragraph"});
        let button = |id: &str| json!({"id": id, "title": "T"});
        assert_eq!(
            paths_of(check, json!({"inputs": [field("a")], "user_actions": [button("ok")]})),
            Vec::<String>::new()
        );
        for (data, path) in [
            (json!({"inputs": 5}), "inputs"),
            (json!({"inputs": [5]}), "inputs[0]"),
            (json!({"inputs": [{}]}), "inputs[0].output_variable_name"),
            (json!({"inputs": [field("a"), field("a")]}), "inputs[1]"),
            (
                json!({"inputs": [{"output_variable_name": "a", "default": {"type": "variable", "selector": ["x"]}}]}),
                "inputs[0].default",
            ),
            (json!({"user_actions": [button("a"), button("a")]}), "user_actions[1]"),
            (json!({"user_actions": [button("1a")]}), "user_actions[0]"),
            (json!({"user_actions": [button("abcdefghijklmnopqrstu")]}), "user_actions[0]"),
            (json!({"timeout": 0}), "timeout"),
            (json!({"timeout_unit": "week"}), "timeout_unit"),
        ] {
            assert_eq!(paths_of(check, data.clone()), [path], "{data}");
        }
    }
}
