//! Parses a program's output into the object that `main` returned, with Dify's steps and messages.
//!
//! The result is between two marks; other output is ignored. Python writes some values that JSON does not have; they
//! are replaced before parsing.

use serde_json::{Number, Value as Json};

use tidemill_base::failure::NodeFailure;
use tidemill_base::value::{JsonMap, pyjson};

/// The mark before and after the result in a program's output.
pub const MARK: &str = "<<RESULT>>";
/// Characters of an output without a result that the message shows.
const SHOWN_CHARS: usize = 200;

/// The result in a program's output. With `texts_become_numbers` every text in scientific notation with a signed exponent
/// becomes a number, as on Dify; otherwise only where the output is declared as a number ([`super::check`]).
///
/// # Errors
/// No result, invalid JSON, or not an object. On Dify these are exceptions that leave the node (`WorkflowNodeError`).
pub fn read(stdout: &str, texts_become_numbers: bool) -> Result<JsonMap, NodeFailure> {
    let text = between_marks(stdout).ok_or_else(|| {
        let shown: String = stdout.chars().take(SHOWN_CHARS).collect();
        NodeFailure::escaped(format!(
            "Failed to parse result: no result tag found in response. Response: {shown}..."
        ))
    })?;
    let parsed = pyjson::loads(text).or_else(|_| pyjson::loads(&mended(text)));
    let value =
        parsed.map_err(|detail| NodeFailure::escaped(format!("Failed to parse JSON response: {detail}.")))?;
    let value = if texts_become_numbers { with_floats(value) } else { value };
    match value {
        Json::Object(map) => Ok(map),
        other => {
            Err(NodeFailure::escaped(format!("Result must be a dict, got {}", python_type_name(&other))))
        }
    }
}

/// The name of a value's type in Python.
pub(super) fn python_type_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "NoneType",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_f64() => "float",
        Json::Number(_) => "int",
        Json::String(_) => "str",
        Json::Array(_) => "list",
        Json::Object(_) => "dict",
    }
}

/// The text between the first and the last mark.
fn between_marks(stdout: &str) -> Option<&str> {
    let begin = stdout.find(MARK)? + MARK.len();
    let end = stdout.rfind(MARK)?;
    stdout.get(begin..end)
}

/// Turns texts in scientific notation with a signed exponent into numbers, at any depth, as Dify does.
fn with_floats(value: Json) -> Json {
    match value {
        Json::String(text) => match scientific(&text) {
            Some(float) => Json::Number(float),
            None => Json::String(text),
        },
        Json::Array(items) => items.into_iter().map(with_floats).collect(),
        Json::Object(map) => map.into_iter().map(|(key, item)| (key, with_floats(item))).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) => value,
    }
}

/// Parses digits, optionally with a point among or after them, and an exponent with a sign.
pub(super) fn scientific(text: &str) -> Option<Number> {
    // Python's `$` also matches before a line break at the end.
    let text = text.strip_suffix('\n').unwrap_or(text);
    let (digits, exponent) = text.split_once(['e', 'E'])?;
    let (whole, fraction) = {
        let digits = digits.strip_prefix('-').unwrap_or(digits);
        digits.split_once('.').unwrap_or((digits, ""))
    };
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let power = exponent.strip_prefix(['+', '-'])?;
    let fits = !whole.is_empty()
        && !power.is_empty()
        && all_digits(whole)
        && all_digits(fraction)
        && all_digits(power);
    let value: f64 = text.parse().ok().filter(|_| fits)?;
    Number::from_f64(value.clamp(f64::MIN, f64::MAX))
}

/// Replaces values that only Python reads by the nearest JSON: NaN by null, infinite or too large numbers by the
/// largest float, and half a surrogate pair by the replacement character.
fn mended(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let taken = match next {
            '"' => string(rest, &mut out),
            'N' | 'I' | '-' | '0'..='9' => word(rest, &mut out),
            other => {
                out.push(other);
                other.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    out
}

/// Copies a number or a word outside texts; returns its length in bytes.
fn word(rest: &str, out: &mut String) -> usize {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let word = &rest[..end];
    match (word, word.parse::<f64>()) {
        ("NaN", _) => out.push_str("null"),
        (_, Ok(value)) if value.is_infinite() => {
            let largest = if value > 0.0 { f64::MAX } else { f64::MIN };
            out.push_str(&format!("{largest:e}"));
        }
        (_, Ok(_) | Err(_)) => out.push_str(word),
    }
    end
}

/// Copies a text with its quotes; returns its length in bytes.
fn string(rest: &str, out: &mut String) -> usize {
    let unit = |at: usize| {
        let digits = rest.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let (mut at, mut escaped) = (1, false);
    out.push('"');
    while let Some(c) = rest[at..].chars().next() {
        if !escaped && let Some(first) = unit(at) {
            let second = unit(at + 6).filter(|second| (0xDC00..0xE000).contains(second));
            let pair = (0xD800..0xDC00).contains(&first) && second.is_some();
            let lone = (0xD800..0xE000).contains(&first) && !pair;
            let length = if pair { 12 } else { 6 };
            out.push_str(if lone { "\\ufffd" } else { &rest[at..at + length] });
            at += length;
            continue;
        }
        out.push(c);
        at += c.len_utf8();
        if c == '"' && !escaped {
            return at;
        }
        escaped = c == '\\' && !escaped;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_result_is_between_the_first_and_the_last_mark() {
        for (stdout, wanted) in [
            ("noise\n<<RESULT>>{\"a\": 1}<<RESULT>>\nmore", Ok(json!({"a": 1}))),
            (
                "x<<RESULT>>1<<RESULT>>{}<<RESULT>>",
                Err("Failed to parse JSON response: Extra data: line 1 column 2 (char 1)."),
            ),
            (
                "<<RESULT>>undefined<<RESULT>>",
                Err("Failed to parse JSON response: Expecting value: line 1 column 1 (char 0)."),
            ),
            ("<<RESULT>>[1]<<RESULT>>", Err("Result must be a dict, got list")),
            ("<<RESULT>>null<<RESULT>>", Err("Result must be a dict, got NoneType")),
            (
                "<<RESULT>>",
                Err("Failed to parse result: no result tag found in response. Response: <<RESULT>>..."),
            ),
            ("", Err("Failed to parse result: no result tag found in response. Response: ...")),
        ] {
            let read = read(stdout, false).map(Json::Object).map_err(|failure| failure.message);
            assert_eq!(read, wanted.map_err(str::to_owned), "{stdout}");
        }
    }

    #[test]
    fn texts_in_scientific_notation_with_a_signed_exponent_become_numbers() {
        for (text, wanted) in [
            ("1e+3", json!(1000.0)),
            ("2E-4", json!(0.0002)),
            ("-1.5e+10", json!(-1.5e10)),
            ("1.e+2", json!(100.0)),
            ("1e+3\n", json!(1000.0)),
            ("1e+999", json!(f64::MAX)),
            ("1e3", json!("1e3")),
            ("+1e+3", json!("+1e+3")),
            (".5e+3", json!(".5e+3")),
            ("x1e+3", json!("x1e+3")),
            ("1e+", json!("1e+")),
            ("1.2.3e+4", json!("1.2.3e+4")),
        ] {
            let nested = with_floats(json!({"a": [text]}));
            assert_eq!(nested, json!({"a": [wanted]}), "{text}");
        }
    }

    #[test]
    fn a_text_stays_text_unless_all_become_numbers() {
        let printed = format!(r#"{MARK}{{"t": "12e+3", "in": {{"list": ["1e-5"]}}, "n": 1e-07}}{MARK}"#);
        let read = |become_numbers| read(&printed, become_numbers).map(Json::Object);
        assert_eq!(read(false), Ok(json!({"t": "12e+3", "in": {"list": ["1e-5"]}, "n": 1e-7})));
        assert_eq!(read(true), Ok(json!({"t": 12000.0, "in": {"list": [1e-5]}, "n": 1e-7})));
    }

    #[test]
    fn values_that_only_python_reads_become_the_nearest_json() {
        for (text, wanted) in [
            (
                r#"{"a": NaN, "b": Infinity, "c": -Infinity}"#,
                json!({"a": null, "b": f64::MAX, "c": f64::MIN}),
            ),
            (r#"{"a": "NaN Infinity \" NaN"}"#, json!({"a": "NaN Infinity \" NaN"})),
            (
                r#"{"a": "\ud800x", "b": "\ud83d\ude00", "c": "\\ud800"}"#,
                json!({"a": "\u{fffd}x", "b": "😀", "c": "\\ud800"}),
            ),
            (&format!("{{\"a\": 1{}}}", "0".repeat(400)), json!({"a": f64::MAX})),
        ] {
            let text = format!("{MARK}{text}{MARK}");
            assert_eq!(read(&text, false).map(Json::Object), Ok(wanted), "{text}");
        }
    }
}
