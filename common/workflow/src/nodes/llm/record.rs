//! The record of a node that calls a model: `inputs` of its result in Dify's order and spelling, and the prompts in
//! `process_data`.

use std::collections::HashSet;
use std::fmt;

use serde_json::{Value as Json, json};

use super::message::{FilePart, MediaKind, Message, ToolCall};
use super::{LlmData, ModelMode};
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::text::mask;
use tidemill_base::value::{Segment, SegmentType, Selector, Variables};

/// A node's inputs, for the record; filled as far as the work gets, also on failure.
pub type Inputs = Vec<(String, Segment)>;

/// The secrets that a prompt can contain. They are sent where the workflow says and never shown.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secrets(Vec<String>);

/// Shows only their number.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// The values of the secrets among these variables (node, name).
    pub fn among(mentions: Vec<(String, String)>, variables: &dyn Variables) -> Self {
        let secret = |(node, name): (String, String)| {
            let segment = variables.found(&[node, name])?;
            let text =
                segment.value.as_str().filter(|text| segment.ty == SegmentType::Secret && !text.is_empty());
            text.map(str::to_owned)
        };
        Self(mentions.into_iter().filter_map(secret).collect())
    }

    /// Masks all secrets in the text.
    pub fn masked(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), &mask(secret)))
    }

    /// Masks the texts of a record; a secret becomes a plain masked text.
    pub fn mask(&self, inputs: &mut Inputs) {
        for (_, segment) in inputs {
            if let Json::String(text) = &segment.value
                && self.0.iter().any(|secret| text.contains(secret.as_str()))
            {
                *segment = Segment::string(self.masked(text));
            }
        }
    }
}

/// Longest URL or content of a file that the record shows in full, in characters; and the characters shown at each end
/// of a longer one (Dify's).
const DATA_CHARS_MAX: usize = 20;
const DATA_CHARS_SHOWN: usize = 10;

/// `process_data.prompts`: one object per message. As on Dify a completion has a list of files only when there are
/// files. Secrets are masked.
pub fn prompts(messages: &[Message], mode: ModelMode, secrets: &Secrets) -> Json {
    let one = |message: &Message| {
        let mut shown = json!({"role": message.role.name(), "text": secrets.masked(&message.joined_text())});
        let files: Vec<Json> = message.files().filter_map(file).collect();
        if mode == ModelMode::Chat || !files.is_empty() {
            shown["files"] = Json::Array(files);
        }
        if mode == ModelMode::Chat && !message.tool_calls.is_empty() {
            shown["tool_calls"] = message.tool_calls.iter().map(tool_call).collect();
        }
        shown
    };
    messages.iter().map(one).collect()
}

/// A tool call in Dify's record.
pub fn tool_call(call: &ToolCall) -> Json {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

fn file(part: &FilePart) -> Option<Json> {
    let word = |key: &str| part.file.get(key).and_then(Json::as_str).filter(|word| !word.is_empty());
    let data = word("remote_url").or_else(|| word("url")).unwrap_or_default();
    let count = data.chars().count();
    let data = if count > DATA_CHARS_MAX {
        let front: String = data.chars().take(DATA_CHARS_SHOWN).collect();
        let back: String = data.chars().skip(count - DATA_CHARS_SHOWN).collect();
        format!("{front}...[TRUNCATED]...{back}")
    } else {
        data.to_owned()
    };
    match part.kind {
        MediaKind::Image => Some(json!({"type": "image", "data": data, "detail": part.detail})),
        MediaKind::Audio => {
            let format = word("extension").unwrap_or_default().trim_start_matches('.');
            Some(json!({"type": "audio", "data": data, "format": format}))
        }
        MediaKind::Document | MediaKind::Video => None,
    }
}

/// Records each variable that a text mentions as `#node.name#`; the variable must exist.
pub(super) fn references(
    data: &LlmData,
    variables: &dyn Variables,
    inputs: &mut Inputs,
) -> Result<(), NodeFailure> {
    let mut seen: HashSet<Selector> = HashSet::new();
    for text in data.texts() {
        for selector in super::references(text.source()) {
            if seen.insert(selector.clone()) {
                let name = format!("#{}#", selector.join("."));
                let value = required(variables, &selector, &name)?;
                let value = if value.ty == SegmentType::None { Segment::string("") } else { value };
                set(inputs, &name, value);
            }
        }
    }
    let Some(memory) = &data.memory else { return Ok(()) };
    for selector in super::references(&memory.query_template) {
        let name = format!("#{}#", selector.join("."));
        let value = required(variables, &selector, &name)?;
        if value.ty != SegmentType::None {
            set(inputs, &name, value);
        }
    }
    Ok(())
}

/// Records Jinja variables as text, used or not; the variable must exist.
pub(super) fn jinja_variables(
    data: &LlmData,
    variables: &dyn Variables,
    inputs: &mut Inputs,
) -> Result<(), NodeFailure> {
    for variable in &data.jinja_variables {
        let value = required(variables, &variable.selector, &variable.name)?;
        set(inputs, &variable.name, Segment::string(record_text(&value)));
    }
    Ok(())
}

/// A value in the record's format (templates format it differently): a list has one item per line, an object is JSON, a
/// passage of a knowledge base is its content.
fn record_text(segment: &Segment) -> String {
    let object = |value: &Json| {
        let passage = value.get("metadata").and_then(|m| m.get("_source")).and_then(|_| value.get("content"));
        passage.and_then(Json::as_str).map_or_else(|| item_text(value), str::to_owned)
    };
    match &segment.value {
        Json::Array(items) => {
            let lines: Vec<String> = items.iter().map(object).collect();
            lines.join("\n").trim().to_owned()
        }
        value @ Json::Object(_) => object(value),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => segment.text().into_owned(),
    }
}

fn item_text(value: &Json) -> String {
    Segment::infer(value.clone()).text().into_owned()
}

fn required(variables: &dyn Variables, selector: &[String], name: &str) -> Result<Segment, NodeFailure> {
    let missing = || NodeFailure::new("VariableNotFoundError", format!("Variable {name} not found"));
    variables.found(selector).map(|segment| segment.into_owned()).ok_or_else(missing)
}

/// Sets a key of the record: the last value wins, at the key's first position.
pub(in crate::nodes) fn set(inputs: &mut Inputs, name: &str, value: Segment) {
    match inputs.iter_mut().find(|(key, _)| key == name) {
        Some((_, old)) => *old = value,
        None => inputs.push((name.into(), value)),
    }
}
