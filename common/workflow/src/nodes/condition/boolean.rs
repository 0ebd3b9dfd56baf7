//! Converts the expected value of a condition on a boolean: Dify reads the expected text as JSON.

use serde_json::Value as Json;

use super::compare::class_name;
use tidemill_base::value::pyjson::at;
use tidemill_base::value::pyrepr::str_of;

/// The expected value as a boolean, a list item by item; null stays null.
///
/// # Errors
/// Python's message, when a text is not JSON, or is JSON but neither a boolean nor a whole number.
pub(super) fn converted(expected: &Json) -> Result<Json, String> {
    Ok(match expected {
        Json::Null => Json::Null,
        Json::Array(items) => Json::Array(items.iter().map(truth).collect::<Result<_, _>>()?),
        Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => truth(expected)?,
    })
}

fn truth(value: &Json) -> Result<Json, String> {
    let unexpected =
        || Err(format!("unexpected value: type=<class '{}'>, value={}", class_name(value), str_of(value)));
    match value {
        Json::Bool(_) => Ok(value.clone()),
        Json::Number(n) if !n.is_f64() => Ok(Json::Bool(n.as_i64() != Some(0))),
        Json::String(text) => match decode(text)? {
            Some(truth) => Ok(Json::Bool(truth)),
            None => unexpected(),
        },
        Json::Null | Json::Number(_) | Json::Array(_) | Json::Object(_) => unexpected(),
    }
}

/// Reads a text like Python's `json.loads`. `None` for JSON that is neither a boolean nor a whole number.
fn decode(text: &str) -> Result<Option<bool>, String> {
    let space = [' ', '\t', '\n', '\r'];
    let body = text.trim_start_matches(space);
    let begin = text.len() - body.len();
    for (word, truth) in [
        ("true", Some(true)),
        ("false", Some(false)),
        ("null", None),
        ("NaN", None),
        ("Infinity", None),
        ("-Infinity", None),
    ] {
        if let Some(rest) = body.strip_prefix(word) {
            return nothing_after(text, rest).map(|()| truth);
        }
    }
    if let Some((length, whole)) = number(body) {
        let (digits, rest) = body.split_at(length);
        nothing_after(text, rest)?;
        return Ok(whole.then(|| digits.bytes().any(|b| b.is_ascii_digit() && b != b'0')));
    }
    // For texts, lists and objects the syntax only changes the error's message.
    if body.starts_with(['"', '[', '{']) && serde_json::from_str::<serde::de::IgnoredAny>(body).is_ok() {
        return Ok(None);
    }
    Err(at("Expecting value", text, begin))
}

/// The length of the JSON number at the text's beginning, and true when it is a whole number.
fn number(text: &str) -> Option<(usize, bool)> {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut end = usize::from(text.starts_with('-'));
    end += match digits(end) {
        0 => return None,
        _ if text[end..].starts_with('0') => 1,
        many => many,
    };
    let integer = end;
    if text[end..].starts_with('.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let many = digits(end + 1 + sign);
        end += if many > 0 { 1 + sign + many } else { 0 };
    }
    Some((end, end == integer))
}

fn nothing_after(text: &str, rest: &str) -> Result<(), String> {
    let rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
    if rest.is_empty() { Ok(()) } else { Err(at("Extra data", text, text.len() - rest.len())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_are_read_as_json() {
        for (text, truth) in
            [("true", true), (" false\n", false), ("1", true), ("0", false), ("-0", false), ("-7", true)]
        {
            assert_eq!(converted(&json!(text)), Ok(json!(truth)), "{text}");
        }
        for (text, message) in [
            ("True", "Expecting value: line 1 column 1 (char 0)"),
            ("yes", "Expecting value: line 1 column 1 (char 0)"),
            ("", "Expecting value: line 1 column 1 (char 0)"),
            (" \n x", "Expecting value: line 2 column 2 (char 3)"),
            ("-", "Expecting value: line 1 column 1 (char 0)"),
            ("truely", "Extra data: line 1 column 5 (char 4)"),
            ("01", "Extra data: line 1 column 2 (char 1)"),
            ("1 é 2", "Extra data: line 1 column 3 (char 2)"),
            ("1.0", "unexpected value: type=<class 'str'>, value=1.0"),
            ("1e3", "unexpected value: type=<class 'str'>, value=1e3"),
            ("null", "unexpected value: type=<class 'str'>, value=null"),
            ("\"x\"", "unexpected value: type=<class 'str'>, value=\"x\""),
            ("[1]", "unexpected value: type=<class 'str'>, value=[1]"),
        ] {
            assert_eq!(converted(&json!(text)), Err(message.into()), "{text}");
        }
    }

    #[test]
    fn lists_are_converted_item_by_item_and_null_is_left_alone() {
        assert_eq!(converted(&json!(["true", "0"])), Ok(json!([true, false])));
        assert_eq!(converted(&json!(null)), Ok(json!(null)));
        assert_eq!(converted(&json!(false)), Ok(json!(false)));
        assert!(converted(&json!(["x"])).is_err());
    }
}
