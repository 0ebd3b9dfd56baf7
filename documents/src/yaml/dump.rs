//! Writes YAML in the layout of PyYAML's dumper: block style, lists in mappings not indented, quotes only where needed,
//! long texts folded at column 80.

use serde_json::Value as Json;
use tidemill_common::dsl::resolve_plain;
use tidemill_common::value::pyrepr::float_repr;

use super::{MERGE, Yaml, is_literal};

/// Column at which long texts are folded.
const WIDTH: usize = 80;

pub(super) fn dump(documents: &[Yaml]) -> String {
    let mut out = Writer::default();
    for (at, document) in documents.iter().enumerate() {
        if at > 0 {
            out.push("---\n");
        }
        match document {
            Yaml::List(items) if !items.is_empty() => out.list(items, 0),
            Yaml::Map(entries) if !entries.is_empty() => out.map(entries, 0),
            scalar @ (Yaml::Scalar(_) | Yaml::Literal(_) | Yaml::List(_) | Yaml::Map(_)) => {
                let plain = out.scalar(scalar, 2, true);
                // PyYAML ends a document that is only a plain scalar with `...`.
                out.push(if plain { "\n...\n" } else { "\n" });
            }
        }
    }
    out.text
}

#[derive(Default)]
struct Writer {
    text: String,
    /// Number of characters in the current line.
    column: usize,
}

impl Writer {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.column = match text.rfind('\n') {
            Some(at) => text[at + 1..].chars().count(),
            None => self.column + text.chars().count(),
        };
    }

    fn new_line(&mut self, indent: usize) {
        self.push("\n");
        self.push(&" ".repeat(indent));
    }

    /// Writes the items of a list. The first item begins at the current position.
    fn list(&mut self, items: &[Yaml], indent: usize) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.push(&" ".repeat(indent));
            }
            self.push("- ");
            match item {
                Yaml::List(inner) if !inner.is_empty() => self.list(inner, indent + 2),
                Yaml::Map(inner) if !inner.is_empty() => self.map(inner, indent + 2),
                scalar @ (Yaml::Scalar(_) | Yaml::Literal(_) | Yaml::List(_) | Yaml::Map(_)) => {
                    self.scalar(scalar, indent + 2, true);
                    self.push("\n");
                }
            }
        }
    }

    /// Writes the entries of a mapping. The first entry begins at the current position.
    fn map(&mut self, entries: &[(Yaml, Yaml)], indent: usize) {
        for (at, (key, value)) in entries.iter().enumerate() {
            if at > 0 {
                self.push(&" ".repeat(indent));
            }
            self.scalar(key, indent + 2, false);
            self.push(":");
            match value {
                Yaml::List(inner) if !inner.is_empty() => {
                    self.new_line(indent);
                    self.list(inner, indent);
                }
                Yaml::Map(inner) if !inner.is_empty() => {
                    self.new_line(indent + 2);
                    self.map(inner, indent + 2);
                }
                scalar @ (Yaml::Scalar(_) | Yaml::Literal(_) | Yaml::List(_) | Yaml::Map(_)) => {
                    self.push(" ");
                    self.scalar(scalar, indent + 2, true);
                    self.push("\n");
                }
            }
        }
    }

    /// Writes a scalar. Returns true if it needs no quotes. With `fold` it may be folded; keys are not.
    fn scalar(&mut self, value: &Yaml, indent: usize, fold: bool) -> bool {
        let text = match value {
            Yaml::List(_) => return self.fixed("[]", false),
            Yaml::Map(_) => return self.fixed("{}", false),
            Yaml::Literal(text) => return self.fixed(&text.replacen(['T', 't'], " ", 1), true),
            Yaml::Scalar(Json::String(text)) => text,
            Yaml::Scalar(Json::Number(number)) if number.is_f64() => {
                return self.fixed(&float(number.as_f64().unwrap_or_default()), true);
            }
            Yaml::Scalar(other) => return self.fixed(&other.to_string(), true),
        };
        match style(text, fold) {
            Style::Plain => self.words(text, indent, fold, "", |word| word.to_owned()),
            Style::Single => self.single(text, indent, fold),
            Style::Double => self.double(text, indent, fold),
        }
        style(text, fold) == Style::Plain
    }

    fn fixed(&mut self, text: &str, plain: bool) -> bool {
        self.push(text);
        plain
    }

    /// Writes words. A line may break at a single space between two words.
    fn words(&mut self, text: &str, indent: usize, fold: bool, quote: &str, shown: impl Fn(&str) -> String) {
        self.push(quote);
        let chars: Vec<char> = text.chars().collect();
        let mut at = 0;
        while at < chars.len() {
            let is_blank = chars[at] == ' ';
            let end = (at..chars.len()).find(|&i| (chars[i] == ' ') != is_blank).unwrap_or(chars.len());
            let inside = at > 0 && end < chars.len();
            if is_blank && end - at == 1 && fold && self.column > WIDTH && inside {
                self.new_line(indent);
            } else {
                self.push(&shown(&chars[at..end].iter().collect::<String>()));
            }
            at = end;
        }
        self.push(quote);
    }

    /// Writes text in single quotes. A line break becomes an empty line.
    fn single(&mut self, text: &str, indent: usize, fold: bool) {
        self.push("'");
        let lines: Vec<&str> = text.split('\n').collect();
        for (at, line) in lines.iter().enumerate() {
            if at > 0 {
                // The first of several breaks is written twice. The indentation follows only before the next words.
                if !lines[at - 1].is_empty() || at == 1 {
                    self.push("\n");
                }
                self.push("\n");
                if !line.is_empty() || at + 1 == lines.len() {
                    self.push(&" ".repeat(indent));
                }
            }
            self.words(line, indent, fold, "", |word| word.replace('\'', "''"));
        }
        self.push("'");
    }

    /// Writes text in double quotes, with escapes.
    fn double(&mut self, text: &str, indent: usize, fold: bool) {
        self.push("\"");
        let chars: Vec<char> = text.chars().collect();
        for (at, &c) in chars.iter().enumerate() {
            let inside = at > 0 && at + 1 < chars.len();
            if c == ' ' && fold && inside && self.column > WIDTH {
                self.push("\\");
                self.new_line(indent);
                // Escape a space at the beginning of a line, so that it does not look like indentation.
                self.push("\\ ");
                continue;
            }
            self.push(&escaped(c));
        }
        self.push("\"");
    }
}

fn escaped(c: char) -> String {
    match c {
        '\0' => "\\0".into(),
        '\x07' => "\\a".into(),
        '\x08' => "\\b".into(),
        '\t' => "\\t".into(),
        '\n' => "\\n".into(),
        '\x0b' => "\\v".into(),
        '\x0c' => "\\f".into(),
        '\r' => "\\r".into(),
        '\x1b' => "\\e".into(),
        '"' => "\\\"".into(),
        '\\' => "\\\\".into(),
        '\u{85}' => "\\N".into(),
        '\u{a0}' => "\\_".into(),
        '\u{2028}' => "\\L".into(),
        '\u{2029}' => "\\P".into(),
        c if is_printable(c) => c.into(),
        c if u32::from(c) <= 0xff => format!("\\x{:02X}", u32::from(c)),
        c if u32::from(c) <= 0xffff => format!("\\u{:04X}", u32::from(c)),
        c => format!("\\U{:08X}", u32::from(c)),
    }
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && c != '\u{feff}'
}

fn float(value: f64) -> String {
    let text = float_repr(value);
    match text.split_once('e') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0e{exponent}"),
        Some(_) | None => text,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Single,
    Double,
}

/// Returns the simplest style in which the text can be read back unchanged.
fn style(text: &str, value: bool) -> Style {
    let is_break = |c: char| matches!(c, '\n' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let chars: Vec<char> = text.chars().collect();
    let special = chars.iter().any(|c| !is_printable(*c));
    let blank_before_break = chars.windows(2).any(|pair| pair[0] == ' ' && is_break(pair[1]));
    let multiline = chars.iter().any(|c| is_break(*c));
    if special || blank_before_break || (multiline && !value) {
        return Style::Double;
    }
    let outer_blank = text.starts_with(' ') || text.ends_with(' ');
    if text.is_empty() || multiline || outer_blank || has_sign(&chars) || reads_as_other(text) {
        // Single quotes also lose a space after a line break.
        let blank_after_break = chars.windows(2).any(|pair| is_break(pair[0]) && pair[1] == ' ');
        let other_break = chars.iter().any(|c| is_break(*c) && *c != '\n');
        return if blank_after_break || other_break { Style::Double } else { Style::Single };
    }
    Style::Plain
}

/// Returns true if the text has a character with a YAML meaning at its position.
fn has_sign(chars: &[char]) -> bool {
    let text: String = chars.iter().take(3).collect();
    if text == "---" || text == "..." {
        return true;
    }
    chars.iter().enumerate().any(|(at, &c)| {
        let ends_word = chars.get(at + 1).is_none_or(|next| next.is_whitespace());
        match c {
            '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
            | '`'
                if at == 0 =>
            {
                true
            }
            '?' | '-' if at == 0 => ends_word,
            ':' => ends_word,
            '#' => chars[at - 1].is_whitespace(),
            _ => false,
        }
    })
}

/// Returns true if the text without quotes would be read as another type.
fn reads_as_other(text: &str) -> bool {
    text == MERGE || text == "=" || is_literal(text) || !resolve_plain(text).is_string()
}
