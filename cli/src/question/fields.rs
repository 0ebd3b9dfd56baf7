//! Describes named values that a user is asked for in words: their path, what their schema requires, and which values
//! are known already. Users at a terminal never see a JSON schema.

use serde_json::Value as Json;
use tidemill_common::nodes::PauseRequest;

use crate::output::text::one_line;

/// Longest known value that is shown in full, in characters.
const SHOWN_CHARS: usize = 120;

/// The requested values by the name that they have in the answer.
pub(super) fn properties(asked: &PauseRequest) -> impl Iterator<Item = (&String, &Json)> {
    asked.schema.get("properties").and_then(Json::as_object).into_iter().flatten()
}

/// The name of a value as users write it: `query.country` for the pointer `/query/country`.
pub(super) fn path(name: &str) -> String {
    match name.strip_prefix('/') {
        Some(rest) => {
            let parts = rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~"));
            one_line(&parts.collect::<Vec<_>>().join("."))
        }
        None => one_line(name),
    }
}

/// Finds the value that a user names, by its name or by its path.
pub(super) fn meant<'a>(asked: &'a PauseRequest, name: &str) -> Option<(&'a String, &'a Json)> {
    let is_named = |(known, _): &(&String, &Json)| known.as_str() == name;
    properties(asked).find(is_named).or_else(|| properties(asked).find(|(known, _)| path(known) == name))
}

/// Describes a schema in words: `Two letters; text of 2 characters`.
pub(super) fn described(schema: &Json) -> String {
    let number = |key: &str| schema.get(key).and_then(Json::as_f64);
    let mut parts = Vec::new();
    if let Some(text) = schema.get("description").and_then(Json::as_str).filter(|text| !text.is_empty()) {
        parts.push(text.to_owned());
    }
    match schema.get("enum").and_then(Json::as_array) {
        Some(known) => {
            parts.push(format!("one of {}", known.iter().map(shown).collect::<Vec<_>>().join(", ")))
        }
        None => {
            let kind = kind(schema);
            let of = match (number("minLength"), number("maxLength")) {
                (Some(least), Some(most)) if least == most => format!(" of {most} characters"),
                (Some(least), Some(most)) => format!(" of {least} to {most} characters"),
                (Some(least), None) => format!(" of {least} characters or more"),
                (None, Some(most)) => format!(" of at most {most} characters"),
                (None, None) => String::new(),
            };
            let between = match (number("minimum"), number("maximum")) {
                (Some(least), Some(most)) => format!(" from {least} to {most}"),
                (Some(least), None) => format!(", {least} or more"),
                (None, Some(most)) => format!(", at most {most}"),
                (None, None) => String::new(),
            };
            if !kind.is_empty() {
                parts.push(format!("{kind}{of}{between}"));
            }
        }
    }
    for (key, word) in [("format", "as"), ("pattern", "like")] {
        if let Some(text) = schema.get(key).and_then(Json::as_str) {
            parts.push(format!("{word} {text}"));
        }
    }
    if let Some(default) = schema.get("default") {
        parts.push(format!("else {}", shown(default)));
    }
    one_line(&parts.join("; "))
}

/// Returns the type of value in words.
fn kind(schema: &Json) -> String {
    let word = |ty: &Json| match ty.as_str() {
        Some("string") => "text",
        Some("integer") => "whole number",
        Some("number") => "number",
        Some("boolean") => "true or false",
        Some("array") => "list, as JSON",
        Some("object") => "object, as JSON",
        Some("null") => "nothing",
        _ => "",
    };
    match schema.get("type") {
        Some(Json::Array(several)) => several.iter().map(word).collect::<Vec<_>>().join(" or "),
        Some(one) => word(one).to_owned(),
        None => String::new(),
    }
}

/// Lists the missing and the known values, one per line.
pub(super) fn summary(asked: &PauseRequest) -> String {
    let required = asked.schema.get("required").and_then(Json::as_array);
    let is_needed =
        |name: &str| required.is_none_or(|names| names.iter().any(|known| known.as_str() == Some(name)));
    let mut text = String::new();
    if asked.details.get("round").and_then(Json::as_u64).is_some_and(|round| round > 1) {
        text.push_str("  (asked again: a value was missing or not valid)\n");
    }
    for (name, schema) in properties(asked) {
        let described = described(schema);
        let described = if described.is_empty() { String::new() } else { format!(": {described}") };
        let optional = if is_needed(name) { "" } else { " (may be left out)" };
        text.push_str(&format!("  - {}{described}{optional}\n", path(name)));
    }
    let mut known = Vec::new();
    leaves("", asked.details.get("current").unwrap_or(&Json::Null), &mut known);
    for (at, value) in known {
        text.push_str(&format!("  {at} is {}\n", cut(&value)));
    }
    if let Some(error) = asked.details.get("slot_error").and_then(Json::as_str) {
        text.push_str(&format!("  a model could not find the values: {}\n", one_line(error)));
    }
    text
}

/// Collects the values in an object with their paths.
fn leaves(at: &str, value: &Json, found: &mut Vec<(String, String)>) {
    match value {
        Json::Null => {}
        Json::Object(map) => {
            for (name, value) in map {
                let name = one_line(name);
                leaves(&if at.is_empty() { name } else { format!("{at}.{name}") }, value, found);
            }
        }
        plain @ (Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) => {
            found.push((at.to_owned(), shown(plain)));
        }
    }
}

/// Formats a value as users write it.
pub(super) fn shown(value: &Json) -> String {
    one_line(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schemas_are_described_in_words() {
        for (schema, expected) in [
            (
                json!({"type": "string", "minLength": 2, "maxLength": 2, "description": "Two letters"}),
                "Two letters; text of 2 characters",
            ),
            (json!({"type": "integer", "minimum": 1, "maximum": 9}), "whole number from 1 to 9"),
            (json!({"type": ["number", "null"], "minimum": 0.5}), "number or nothing, 0.5 or more"),
            (json!({"enum": ["C", "F"], "default": "C"}), "one of C, F; else C"),
            (json!({"type": "string", "format": "date"}), "text; as date"),
            (json!({"type": "array", "items": {}}), "list, as JSON"),
            (json!({}), ""),
        ] {
            assert_eq!(described(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn pointers_are_shown_as_paths() {
        for (name, expected) in
            [("/query/country", "query.country"), ("/a~1b/c~0d", "a/b.c~d"), ("city", "city")]
        {
            assert_eq!(path(name), expected);
        }
    }
}
