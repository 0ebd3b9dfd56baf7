//! The three text forms of a value, as Dify shows it: plain in prompts and templates, markdown in answers,
//! masked in logs.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::pyrepr::{JsonLayout, json_into, json_line, repr, str_of};
use super::selector::file_attribute;
use super::{Segment, SegmentType};

impl Segment {
    /// Returns the text for prompts, templates, conditions and requests. Null, files and empty lists are
    /// empty; secrets are not masked.
    pub fn text(&self) -> Cow<'_, str> {
        match self.ty {
            SegmentType::None | SegmentType::File | SegmentType::ArrayFile => Cow::Borrowed(""),
            SegmentType::Object => Cow::Owned(json_line(&self.value)),
            ty if ty.is_array() && self.is_falsy() => Cow::Borrowed(""),
            SegmentType::ArrayString => Cow::Owned(json_line(&self.value)),
            SegmentType::String
            | SegmentType::Secret
            | SegmentType::Integer
            | SegmentType::Float
            | SegmentType::Boolean
            | SegmentType::ArrayAny
            | SegmentType::ArrayNumber
            | SegmentType::ArrayObject
            | SegmentType::ArrayBoolean => str_of(&self.value),
        }
    }

    /// Returns the text for answers: lists as bullet points, objects indented, files as links.
    pub fn markdown(&self) -> Cow<'_, str> {
        match self.ty {
            SegmentType::Object => Cow::Owned(indented(&self.value)),
            SegmentType::File => Cow::Owned(file_markdown(&self.value)),
            SegmentType::ArrayFile => Cow::Owned(lines(&self.value, file_markdown)),
            SegmentType::ArrayAny
            | SegmentType::ArrayString
            | SegmentType::ArrayNumber
            | SegmentType::ArrayObject
            | SegmentType::ArrayBoolean => {
                Cow::Owned(lines(&self.value, |item| format!("- {}", str_of(item))))
            }
            SegmentType::None
            | SegmentType::String
            | SegmentType::Secret
            | SegmentType::Integer
            | SegmentType::Float
            | SegmentType::Boolean => self.text(),
        }
    }

    /// Returns the text for logs: secrets masked, lists in Python's notation.
    pub fn log(&self) -> Cow<'_, str> {
        match self.ty {
            SegmentType::Secret => mask(&str_of(&self.value)).into(),
            SegmentType::Object => Cow::Owned(indented(&self.value)),
            SegmentType::ArrayAny
            | SegmentType::ArrayString
            | SegmentType::ArrayNumber
            | SegmentType::ArrayObject
            | SegmentType::ArrayBoolean => Cow::Owned(repr(&self.value)),
            SegmentType::None
            | SegmentType::String
            | SegmentType::Integer
            | SegmentType::Float
            | SegmentType::Boolean
            | SegmentType::File
            | SegmentType::ArrayFile => self.text(),
        }
    }
}

/// Masks a secret for logs. A short one (up to eight characters) becomes twenty stars; a longer one keeps its
/// first six and last two characters.
pub fn mask(secret: &str) -> String {
    let length = secret.chars().count();
    match length {
        0 => String::new(),
        1..=8 => "*".repeat(20),
        _ => {
            let head: String = secret.chars().take(6).collect();
            let tail: String = secret.chars().skip(length - 2).collect();
            format!("{head}{}{tail}", "*".repeat(12))
        }
    }
}

fn indented(value: &Json) -> String {
    let mut out = String::new();
    json_into(&mut out, value, JsonLayout::Indent(2), false);
    out
}

fn lines(value: &Json, line: impl Fn(&Json) -> String) -> String {
    let items: Vec<String> = value.as_array().into_iter().flatten().map(line).collect();
    items.join("\n")
}

fn file_markdown(file: &Json) -> String {
    let attribute = |key: &str| match file_attribute(file, key) {
        Some(Json::String(text)) => text,
        Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) | None => {
            String::new()
        }
    };
    let (name, mut url) = (attribute("name"), attribute("url"));
    if url.is_empty() {
        // A file that is stored here has no URL, so its link is its reference.
        url = file.get("reference").and_then(Json::as_str).unwrap_or_default().to_owned();
    }
    match attribute("type").as_str() {
        "image" => format!("![{name}]({url})"),
        _ if name.is_empty() => format!("[{url}]({url})"),
        _ => format!("[{name}]({url})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_type_has_three_texts() {
        for (value, text, markdown, log) in [
            (json!(null), "", "", ""),
            (json!("tëxt"), "tëxt", "tëxt", "tëxt"),
            (json!(42), "42", "42", "42"),
            (json!(3.0), "3.0", "3.0", "3.0"),
            (json!(true), "True", "True", "True"),
            (
                json!({"k": "vé", "l": [1]}),
                r#"{"k": "vé", "l": [1]}"#,
                "{\n  \"k\": \"vé\",\n  \"l\": [\n    1\n  ]\n}",
                "{\n  \"k\": \"vé\",\n  \"l\": [\n    1\n  ]\n}",
            ),
            (json!([]), "", "", "[]"),
            (json!(["a", "ü'"]), r#"["a", "ü'"]"#, "- a\n- ü'", r#"['a', "ü'"]"#),
            (json!([1, 2.5]), "[1, 2.5]", "- 1\n- 2.5", "[1, 2.5]"),
            (json!([true, false]), "[True, False]", "- True\n- False", "[True, False]"),
            (
                json!(["x", 1.0, {"k": "v"}]),
                "['x', 1.0, {'k': 'v'}]",
                "- x\n- 1.0\n- {'k': 'v'}",
                "['x', 1.0, {'k': 'v'}]",
            ),
            (json!([["a"], [null]]), "[['a'], [None]]", "- ['a']\n- [None]", "[['a'], [None]]"),
        ] {
            let segment = Segment::infer(value);
            assert_eq!((&*segment.text(), &*segment.markdown(), &*segment.log()), (text, markdown, log));
        }
    }

    #[test]
    fn files_are_links_in_answers_only() {
        let file = |kind: &str, name: Json| json!({"dify_model_identity": "__dify__file__", "type": kind, "filename": name, "remote_url": "http://x/f"});
        let one = Segment::restore_files(file("document", json!("d.txt")));
        assert_eq!((&*one.text(), &*one.markdown(), &*one.log()), ("", "[d.txt](http://x/f)", ""));
        let nameless = Segment::restore_files(json!([file("image", Json::Null), file("audio", Json::Null)]));
        assert_eq!(nameless.markdown(), "![](http://x/f)\n[http://x/f](http://x/f)");
        assert_eq!(nameless.text(), "");
    }

    #[test]
    fn secrets_are_masked_in_logs_only() {
        for (secret, shown) in
            [("", ""), ("12345678", "********************"), ("sk-1234567890", "sk-123************90")]
        {
            let segment = Segment::new(SegmentType::Secret, json!(secret));
            assert_eq!((&*segment.text(), &*segment.markdown(), &*segment.log()), (secret, secret, shown));
        }
    }
}
