//! Writes values as Python does: `repr` and `str` of everything that JSON can hold, and JSON as `json.dumps`
//! writes it.
//!
//! Dify is written in Python, so a list in a prompt, a number in an answer or a selector in an error message
//! look as in Python. All code that turns a value into text uses this file.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Number, Value as Json};

/// Characters that Python does not count as printable, except the plain space.
#[expect(clippy::expect_used, reason = "the pattern is a constant that the tests compile")]
static UNPRINTABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[\p{C}\p{Zl}\p{Zp}\p{Zs}--\x20]").expect("the pattern is well formed"));

/// `str(value)`: a text unchanged, all other values as in [`repr`].
pub fn str_of(value: &Json) -> Cow<'_, str> {
    match value {
        Json::String(text) => Cow::Borrowed(text),
        Json::Null => Cow::Borrowed("None"),
        Json::Bool(true) => Cow::Borrowed("True"),
        Json::Bool(false) => Cow::Borrowed("False"),
        Json::Number(_) | Json::Array(_) | Json::Object(_) => Cow::Owned(repr(value)),
    }
}

/// `repr(value)`: `None`, `True`, `1.0`, `'text'`, `[1, 'a']`, `{'k': None}`.
pub fn repr(value: &Json) -> String {
    let mut out = String::new();
    repr_into(&mut out, value);
    out
}

/// `repr` of a list of texts, such as a selector in an error message: `['node', 'name']`.
pub fn repr_texts<T: AsRef<str>>(texts: &[T]) -> String {
    let mut out = String::from("[");
    for (at, text) in texts.iter().enumerate() {
        out.push_str(if at == 0 { "" } else { ", " });
        repr_text_into(&mut out, text.as_ref());
    }
    out.push(']');
    out
}

/// Appends `repr(value)`.
pub fn repr_into(out: &mut String, value: &Json) {
    match value {
        Json::Null => out.push_str("None"),
        Json::Bool(flag) => out.push_str(if *flag { "True" } else { "False" }),
        Json::Number(number) => number_into(out, number),
        Json::String(text) => repr_text_into(out, text),
        Json::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                repr_into(out, item);
            }
            out.push(']');
        }
        Json::Object(object) => {
            out.push('{');
            for (at, (key, item)) in object.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { ", " });
                repr_text_into(out, key);
                out.push_str(": ");
                repr_into(out, item);
            }
            out.push('}');
        }
    }
}

/// Appends `repr(text)`: in single quotes, or in double quotes when the text has single and no double ones;
/// unprintable characters are escaped.
pub fn repr_text_into(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    // The slow regular expression is only needed for the few texts that are not plain ASCII.
    let plain = text.bytes().all(|b| (0x20..0x7f).contains(&b));
    let unprintable = |c: char, at: usize| {
        c.is_ascii_control()
            || (!plain && !c.is_ascii() && UNPRINTABLE.is_match(&text[at..at + c.len_utf8()]))
    };
    for (at, c) in text.char_indices() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if unprintable(c, at) => match u32::from(c) {
                code @ ..0x100 => out.push_str(&format!("\\x{code:02x}")),
                code @ 0x100..0x1_0000 => out.push_str(&format!("\\u{code:04x}")),
                code => out.push_str(&format!("\\U{code:08x}")),
            },
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// `repr(text)`.
pub fn repr_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    repr_text_into(&mut out, text);
    out
}

/// `repr` of a float: the shortest digits that read back, an exponent below `1e-04` and from `1e+16`, `inf`,
/// `nan`.
pub fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    // Rust's debug form has the same digits and the same limits for the exponent; only the exponent is
    // written differently.
    let text = format!("{value:?}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, power) = match exponent.strip_prefix('-') {
        Some(power) => ('-', power),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{power:0>2}")
}

fn number_into(out: &mut String, number: &Number) {
    match number.as_f64() {
        Some(value) if number.is_f64() => out.push_str(&float_repr(value)),
        Some(_) | None => out.push_str(&number.to_string()),
    }
}

/// The layout that [`json_into`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonLayout {
    /// One line, with `", "` and `": "` as separators.
    Line,
    /// One line without spaces.
    Compact,
    /// One item per line, indented by this number of spaces per level.
    Indent(usize),
}

/// Appends the value as Python's `json.dumps` writes it. With `ascii`, characters beyond ASCII are escaped.
pub fn json_into(out: &mut String, value: &Json, layout: JsonLayout, ascii: bool) {
    JsonWriter { out, layout, ascii }.value(value, 0);
}

/// Returns the value as one line of JSON; characters beyond ASCII are not escaped.
pub fn json_line(value: &Json) -> String {
    let mut out = String::new();
    json_into(&mut out, value, JsonLayout::Line, false);
    out
}

struct JsonWriter<'a> {
    out: &'a mut String,
    layout: JsonLayout,
    ascii: bool,
}

impl JsonWriter<'_> {
    fn value(&mut self, value: &Json, depth: usize) {
        match value {
            Json::Null => self.out.push_str("null"),
            Json::Bool(flag) => self.out.push_str(if *flag { "true" } else { "false" }),
            Json::Number(number) => number_into(self.out, number),
            Json::String(text) => self.text(text),
            Json::Array(items) if items.is_empty() => self.out.push_str("[]"),
            Json::Array(items) => {
                self.out.push('[');
                for (at, item) in items.iter().enumerate() {
                    self.separate(at, depth + 1);
                    self.value(item, depth + 1);
                }
                self.close(']', depth);
            }
            Json::Object(object) if object.is_empty() => self.out.push_str("{}"),
            Json::Object(object) => {
                self.out.push('{');
                for (at, (key, item)) in object.iter().enumerate() {
                    self.separate(at, depth + 1);
                    self.text(key);
                    self.out.push_str(if self.layout == JsonLayout::Compact { ":" } else { ": " });
                    self.value(item, depth + 1);
                }
                self.close('}', depth);
            }
        }
    }

    fn separate(&mut self, at: usize, depth: usize) {
        match self.layout {
            JsonLayout::Line => self.out.push_str(if at == 0 { "" } else { ", " }),
            JsonLayout::Compact => self.out.push_str(if at == 0 { "" } else { "," }),
            JsonLayout::Indent(_) => {
                self.out.push_str(if at == 0 { "" } else { "," });
                self.new_line(depth);
            }
        }
    }

    fn close(&mut self, bracket: char, depth: usize) {
        self.new_line(depth);
        self.out.push(bracket);
    }

    fn new_line(&mut self, depth: usize) {
        if let JsonLayout::Indent(width) = self.layout {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', width * depth));
        }
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || (self.ascii && (c == '\u{7f}' || !c.is_ascii())) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn floats_look_as_python_prints_them() {
        for (value, text) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (-0.0, "-0.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e16, "1.5e+16"),
            (1e22, "1e+22"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e-7, "1e-07"),
            (5e-324, "5e-324"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float_repr(value), text);
        }
    }

    #[test]
    fn texts_are_quoted_and_escaped_as_in_python() {
        for (text, repr) in [
            ("a", "'a'"),
            ("ü'", "\"ü'\""),
            ("'\"", "'\\'\"'"),
            ("a\"b", "'a\"b'"),
            ("\n\r\t\\", "'\\n\\r\\t\\\\'"),
            ("\u{0}\u{7f}\u{a0}\u{ad}", "'\\x00\\x7f\\xa0\\xad'"),
            ("\u{200b}\u{2028}\u{feff}\u{3000}", "'\\u200b\\u2028\\ufeff\\u3000'"),
            ("\u{e0001}", "'\\U000e0001'"),
            ("東京 🚀", "'東京 🚀'"),
        ] {
            assert_eq!(repr_text(text), repr);
        }
    }

    #[test]
    fn containers_nest() {
        let value = json!([1, "x", null, [2.0], {"d": true, "e": {}}]);
        assert_eq!(repr(&value), "[1, 'x', None, [2.0], {'d': True, 'e': {}}]");
        assert_eq!(str_of(&json!("x")), "x");
        assert_eq!(repr_texts(&["a", "b"]), "['a', 'b']");
    }

    #[test]
    fn json_has_the_separators_of_python() {
        let value = json!({"k": "é\u{1}\"", "l": [1, 2.0, []], "o": {}});
        assert_eq!(json_line(&value), r#"{"k": "é\u0001\"", "l": [1, 2.0, []], "o": {}}"#);
        let mut pretty = String::new();
        json_into(&mut pretty, &json!({"a": [1, {"b": "😀"}], "c": []}), JsonLayout::Indent(2), true);
        assert_eq!(
            pretty,
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"\\ud83d\\ude00\"\n    }\n  ],\n  \"c\": []\n}"
        );
    }

    proptest! {
        #[test]
        fn every_float_reads_back(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
            prop_assert_eq!(float_repr(value).parse::<f64>().map(f64::to_bits), Ok(value.to_bits()));
        }
    }
}
