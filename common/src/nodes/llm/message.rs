//! A conversation with a model: messages with their parts, the tools that it may call, and its calls.
//!
//! These are the words of every provider; how each spells them is the worker's. Files stand as references: their bytes
//! are fetched where they are sent.

use serde_json::Value as Json;

use super::Role;
use crate::value::JsonMap;

/// A message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Who says it.
    pub role: Role,
    /// What is said, in order; empty only where there are tool calls, or for a tool's empty result.
    pub parts: Vec<Part>,
    /// The calls that the model asks for; only of an assistant.
    pub tool_calls: Vec<ToolCall>,
    /// The call that this is the result of; only of a tool.
    pub tool_call_id: Option<String>,
    /// The whole message in the form of the API that it came from, where that wants it back just as it was: an Anthropic
    /// model's thoughts are signed. Only of an assistant; empty: the fields above say all.
    pub verbatim: Vec<Json>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Words.
    Text(String),
    /// A picture, document, sound or film.
    File(FilePart),
}

/// A file within a message.
#[derive(Debug, Clone, PartialEq)]
pub struct FilePart {
    /// What it is.
    pub kind: MediaKind,
    /// Dify's file object, as variables hold it.
    pub file: JsonMap,
    /// `high` or `low`; for pictures.
    pub detail: String,
}

/// Kinds of files that models take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MediaKind {
    /// A picture.
    Image,
    /// A document, such as a PDF.
    Document,
    /// Sound.
    Audio,
    /// A film.
    Video,
}

impl MediaKind {
    /// Dify's name of the type of file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Document => "document",
            Self::Audio => "audio",
            Self::Video => "video",
        }
    }

    /// The kind under Dify's name of a type of file; none for types that no model takes.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Image, Self::Document, Self::Audio, Self::Video].into_iter().find(|kind| kind.name() == name)
    }

    /// The feature that a model needs for it (Dify's names).
    pub const fn feature(self) -> &'static str {
        match self {
            Self::Image => "vision",
            Self::Document => "document",
            Self::Audio => "audio",
            Self::Video => "video",
        }
    }
}

/// A tool as a model is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// JSON schema of its arguments, an object.
    pub parameters: Json,
}

/// A call that a model asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The model's id of it; made by the client where a server gives none.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Arguments as JSON text, just as it came: it may not be valid.
    pub arguments: String,
}

impl Message {
    /// A message that is one text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            parts: vec![Part::Text(text.into())],
            tool_calls: Vec::new(),
            tool_call_id: None,
            verbatim: Vec::new(),
        }
    }

    /// The result of a tool.
    pub fn tool_result(call: impl Into<String>, text: impl Into<String>) -> Self {
        Self { tool_call_id: Some(call.into()), ..Self::text(Role::Tool, text) }
    }

    /// All its text, one piece behind the other (Dify).
    pub fn joined_text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            Part::File(_) => None,
        });
        texts.collect()
    }

    /// Its files, in order.
    pub fn files(&self) -> impl Iterator<Item = &FilePart> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::File(file) => Some(file),
        })
    }

    /// True when it says nothing at all.
    pub fn is_empty(&self) -> bool {
        let said = |part: &Part| match part {
            Part::Text(text) => !text.is_empty(),
            Part::File(_) => true,
        };
        self.tool_calls.is_empty() && !self.parts.iter().any(said)
    }
}

/// What is known of a model that decides how it is asked. `features` absent: unknown (Dify treats that as able to do
/// structured output, but as unable to see files or to call tools).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelFacts {
    /// Dify's names: `tool-call`, `multi-tool-call`, `stream-tool-call`, `vision`, `document`, `audio`, `video`,
    /// `structured-output`, …
    pub features: Option<Vec<String>>,
    /// Tokens that prompt and reply may have together; absent: unknown.
    pub context_size: Option<u64>,
}

impl ModelFacts {
    /// Whether it is known to have a feature.
    pub fn has(&self, feature: &str) -> bool {
        self.features.as_ref().is_some_and(|features| features.iter().any(|known| known == feature))
    }
}
