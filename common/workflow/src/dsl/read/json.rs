//! The JSON reader: strict JSON, with the line of every value. `serde_json` decodes texts and escapes. The
//! standard library parses numbers, since it rounds exactly and a stored number must come back unchanged.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::{Number, Value as Json};

use super::tree::{Content, Entry, Ix, Tree, too_deep};
use super::yaml::duplicate_key;
use super::{INVALID_YAML, ParseOptions};
use crate::dsl::{Diagnostic, Problems};

/// Parses one JSON text.
pub(super) fn read(text: &str, limits: &ParseOptions, problems: &mut Problems) -> Result<Tree, Diagnostic> {
    // Duplicates are reported only if the text is JSON; otherwise the YAML reader reports the problems.
    let mut duplicates = Vec::new();
    let mut reader =
        Reader { text, at: 0, line: 1, tree: Tree::default(), limits, duplicates: &mut duplicates };
    reader.skip_space();
    let root = reader.value(0)?;
    reader.skip_space();
    if reader.at < text.len() {
        return Err(reader.wrong("the end of the file"));
    }
    reader.tree.root = Some(root);
    let tree = reader.tree;
    for (key, line) in duplicates {
        duplicate_key(problems, &key, line);
    }
    Ok(tree)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    tree: Tree,
    limits: &'a ParseOptions,
    duplicates: &'a mut Vec<(Rc<str>, u32)>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) = self.peek() {
            self.line += u32::from(byte == b'\n');
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn wrong(&self, wanted: &str) -> Diagnostic {
        let message = format!("invalid JSON: expected {wanted} at byte {}", self.at);
        Diagnostic::at_line(INVALID_YAML, Some(self.line), message)
    }

    // The recursion is bounded by depth_max.
    fn value(&mut self, depth: usize) -> Result<Ix, Diagnostic> {
        if depth > self.limits.depth_max {
            return Err(too_deep(Some(self.line), self.limits));
        }
        let line = self.line;
        let content = match self.peek() {
            Some(b'{') => self.mapping(depth)?,
            Some(b'[') => self.sequence(depth)?,
            Some(b'"') => Content::Scalar(Json::String(self.string()?)),
            Some(_) | None => Content::Scalar(self.word()?),
        };
        self.tree.add(line, content, self.limits)
    }

    fn sequence(&mut self, depth: usize) -> Result<Content, Diagnostic> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(Content::Sequence(items));
        }
        loop {
            self.skip_space();
            items.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take(b']') {
                return Ok(Content::Sequence(items));
            }
            if !self.take(b',') {
                return Err(self.wrong("`,` or `]`"));
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Content, Diagnostic> {
        self.at += 1;
        let mut entries: Vec<Entry> = Vec::new();
        let mut places: HashMap<Rc<str>, usize> = HashMap::new();
        self.skip_space();
        if self.take(b'}') {
            return Ok(Content::Mapping(entries));
        }
        loop {
            self.skip_space();
            let key_line = self.line;
            let key: Rc<str> = self.string()?.into();
            self.skip_space();
            if !self.take(b':') {
                return Err(self.wrong("`:`"));
            }
            self.skip_space();
            let entry = Entry { key: key.clone(), key_line, value: self.value(depth + 1)? };
            match places.get(&key) {
                Some(&at) => {
                    self.duplicates.push((key, key_line));
                    entries[at] = entry;
                }
                None => {
                    places.insert(key, entries.len());
                    entries.push(entry);
                }
            }
            self.skip_space();
            if self.take(b'}') {
                return Ok(Content::Mapping(entries));
            }
            if !self.take(b',') {
                return Err(self.wrong("`,` or `}`"));
            }
        }
    }

    fn string(&mut self) -> Result<String, Diagnostic> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong("a text in double quotes"));
        }
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut end = start + 1;
        while let Some(&byte) = bytes.get(end) {
            match byte {
                b'"' => break,
                b'\\' => end += 2,
                _ => end += 1,
            }
        }
        // Quotes and backslashes are ASCII, but the byte after a backslash may begin a longer character.
        let literal = self.text.get(start..=end).ok_or_else(|| self.wrong("the closing quote"))?;
        let text = serde_json::from_str(literal).map_err(|_| self.wrong("a well-formed text"))?;
        self.at = end + 1;
        Ok(text)
    }

    /// Reads a number, `null`, `true` or `false`.
    fn word(&mut self) -> Result<Json, Diagnostic> {
        let rest = &self.text[self.at..];
        let length = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || b"+-.".contains(b)).count();
        let word = &rest[..length];
        let value = match word {
            "null" => Json::Null,
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            other => number(other).ok_or_else(|| self.wrong("a value"))?,
        };
        self.at += length;
        Ok(value)
    }
}

fn number(text: &str) -> Option<Json> {
    // serde_json checks the grammar; only its rounding of floats is not used.
    let read: Number = serde_json::from_str(text).ok()?;
    if read.is_f64() {
        Number::from_f64(text.parse().ok()?).map(Json::Number)
    } else {
        Some(Json::Number(read))
    }
}
