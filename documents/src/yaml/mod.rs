//! YAML: reads it like PyYAML's safe loader and writes it like PyYAML's dumper ([`dump`]), because Dify loads and dumps
//! YAML files.

mod dump;

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::Value as Json;
use tidemill_common::dsl::resolve_plain;

use crate::ExtractError;

/// Most values after the expansion of aliases.
const VALUES_MAX: usize = 1_000_000;
/// Deepest nesting. The code that writes values is recursive.
const DEPTH_MAX: usize = 100;

/// A YAML value.
#[derive(Debug, Clone, PartialEq)]
enum Yaml {
    /// A value without parts.
    Scalar(Json),
    /// A date or a number that JSON cannot express, in its original spelling.
    Literal(String),
    List(Vec<Yaml>),
    /// Entries in the order of the file.
    Map(Vec<(Yaml, Yaml)>),
}

/// Returns all documents of the text in the layout of PyYAML.
pub(crate) fn extract(text: &str) -> Result<String, ExtractError> {
    let documents = load(text).map_err(ExtractError::Broken)?;
    Ok(dump::dump(&documents))
}

/// A collection that is still being read.
struct Open {
    anchor: usize,
    content: Yaml,
    key: Option<Yaml>,
    /// Values of `<<` keys.
    merged: Vec<Yaml>,
}

#[derive(Default)]
struct Builder {
    documents: Vec<Yaml>,
    open: Vec<Open>,
    anchors: HashMap<usize, Yaml>,
    values: usize,
}

fn load(text: &str) -> Result<Vec<Yaml>, String> {
    let mut builder = Builder::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| error.to_string())?;
        builder.take(event).map_err(|reason| format!("{reason} in line {}", span.start.line()))?;
    }
    Ok(builder.documents)
}

impl Builder {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.anchors.clear();
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(&text, style, tag.as_deref())?;
                self.keep(anchor, &value);
                self.place(value)
            }
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).cloned().ok_or("an alias names no anchor before it")?;
                self.values += count(&value);
                self.place(value)
            }
            Event::SequenceStart(anchor, tag) => {
                known_tag(tag.as_deref(), &["seq"])?;
                self.begin(anchor, Yaml::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                known_tag(tag.as_deref(), &["map"])?;
                self.begin(anchor, Yaml::Map(Vec::new()))
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(Open { anchor, mut content, merged, .. }) = self.open.pop() else { return Ok(()) };
                merge(&mut content, merged)?;
                self.keep(anchor, &content);
                self.place(content)
            }
        }
    }

    fn begin(&mut self, anchor: usize, content: Yaml) -> Result<(), String> {
        if self.open.len() >= DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} levels"));
        }
        self.open.push(Open { anchor, content, key: None, merged: Vec::new() });
        Ok(())
    }

    fn keep(&mut self, anchor: usize, value: &Yaml) {
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
    }

    fn place(&mut self, value: Yaml) -> Result<(), String> {
        self.values += 1;
        if self.values > VALUES_MAX {
            return Err(format!("more than {VALUES_MAX} values"));
        }
        let Some(top) = self.open.last_mut() else {
            self.documents.push(value);
            return Ok(());
        };
        match (&mut top.content, top.key.take()) {
            (Yaml::List(items), _) => items.push(value),
            (Yaml::Map(_), None) => match value {
                Yaml::List(_) | Yaml::Map(_) => return Err("found unhashable key".into()),
                key @ (Yaml::Scalar(_) | Yaml::Literal(_)) => top.key = Some(key),
            },
            (Yaml::Map(_), Some(Yaml::Literal(key))) if key == MERGE => match value {
                Yaml::List(items) => top.merged.extend(items),
                one @ (Yaml::Map(_) | Yaml::Scalar(_) | Yaml::Literal(_)) => top.merged.push(one),
            },
            (Yaml::Map(entries), Some(key)) => entries.push((key, value)),
            (Yaml::Scalar(_) | Yaml::Literal(_), _) => {}
        }
        Ok(())
    }
}

/// The key whose value is merged into the mapping.
const MERGE: &str = "<<";

/// Puts the merged entries before the own ones. If a key occurs several times, its first place and its last value
/// count.
fn merge(content: &mut Yaml, merged: Vec<Yaml>) -> Result<(), String> {
    let Yaml::Map(own) = content else { return Ok(()) };
    let mut entries = Vec::new();
    // The first of several mappings wins, so it is added last.
    for one in merged.into_iter().rev() {
        let Yaml::Map(of_one) = one else {
            return Err("expected a mapping or list of mappings for merging".into());
        };
        entries.extend(of_one);
    }
    entries.append(own);
    let mut places: HashMap<String, usize> = HashMap::new();
    for (key, value) in entries {
        match places.get(&format!("{key:?}")) {
            Some(at) => own[*at].1 = value,
            None => {
                places.insert(format!("{key:?}"), own.len());
                own.push((key, value));
            }
        }
    }
    Ok(())
}

fn count(value: &Yaml) -> usize {
    match value {
        Yaml::Scalar(_) | Yaml::Literal(_) => 1,
        Yaml::List(items) => 1 + items.iter().map(count).sum::<usize>(),
        Yaml::Map(entries) => 1 + entries.iter().map(|(_, value)| 1 + count(value)).sum::<usize>(),
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Yaml, String> {
    known_tag(tag, &["str", "int", "float", "bool", "null", "timestamp"])?;
    let is_text = match tag {
        Some(tag) => tag.suffix == "str",
        None => style != ScalarStyle::Plain,
    };
    if is_text {
        return Ok(Yaml::Scalar(text.into()));
    }
    if is_literal(text) || text == MERGE {
        return Ok(Yaml::Literal(text.to_owned()));
    }
    Ok(Yaml::Scalar(resolve_plain(text)))
}

fn known_tag(tag: Option<&Tag>, known: &[&str]) -> Result<(), String> {
    match tag {
        Some(tag) if !tag.is_yaml_core_schema() || !known.contains(&tag.suffix.as_str()) => {
            Err(format!("could not determine a constructor for the tag '{tag}'"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns true for a date, an infinity or "not a number" without quotes.
fn is_literal(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    if matches!(lower.as_str(), ".inf" | "+.inf" | "-.inf" | ".nan") {
        return true;
    }
    let bytes = text.as_bytes();
    let digits =
        |from: usize, to: usize| bytes.get(from..to).is_some_and(|part| part.iter().all(u8::is_ascii_digit));
    let is_date = digits(0, 4)
        && bytes.get(4) == Some(&b'-')
        && digits(5, 7)
        && bytes.get(7) == Some(&b'-')
        && digits(8, 10);
    let time = bytes.get(11..).unwrap_or_default();
    is_date
        && (bytes.len() == 10
            || matches!(bytes[10], b' ' | b'T' | b't')
                && time.len() >= 7
                && time.iter().all(|byte| byte.is_ascii_digit() || b":.+-Zz ".contains(byte)))
}
