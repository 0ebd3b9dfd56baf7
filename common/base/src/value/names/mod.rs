//! Text with variables by bare name: `Dear {{name}}, {{items[0].title}}`. It may also contain references
//! (`{{#start.name#}}`) as in [`super::template`].
//!
//! A text is parsed once and rendered in one pass. Rendered values are never parsed again, so user text that
//! looks like a name is not replaced. Names may be nested, `{{greeting_{{language}}}}`; the inner one is
//! filled in first. [`Names`] lists the variables that a name may mean.

mod parse;
mod path;
mod scopes;

use std::borrow::Cow;

use serde_json::Value as Json;

use super::template::mention;
use super::{Segment, SegmentType, Selector, Variables};
use path::Path;

pub use scopes::Names;

/// A parsed text with names and references.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedText {
    pieces: Vec<Piece>,
}

/// A piece of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// `{{#node.name#}}`
    Reference(Selector),
    /// The content between the braces of a name.
    Name(Vec<Piece>),
}

/// The reason why a text is invalid or cannot be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The variable does not exist or is null.
    #[error("Variable not found: {0}")]
    NotFound(String),
    /// Names are nested too deeply.
    #[error("placeholders are nested more than {0} levels deep; at most {0} levels are allowed")]
    TooDeep(usize),
}

impl NamedText {
    /// Parses a text. Everything that is not a name or a reference is plain text, also braces with nothing
    /// between them.
    ///
    /// # Errors
    /// [`NameError::TooDeep`] when names are nested more than `levels_max` deep.
    pub fn parse(source: &str, levels_max: usize) -> Result<Self, NameError> {
        parse::pieces(source, levels_max).map(|pieces| Self { pieces })
    }

    /// Adds the `(node, name)` of every variable that rendering may read; for a name, of all variables that
    /// it may mean.
    pub fn mentions(&self, names: &Names, into: &mut Vec<(String, String)>) {
        mentions(&self.pieces, names, into);
    }

    /// Renders the text with every name and reference replaced by its value.
    ///
    /// # Errors
    /// [`NameError::NotFound`] for a variable that does not exist or is null.
    pub fn render(&self, names: &Names, variables: &dyn Variables) -> Result<String, NameError> {
        render(&self.pieces, names, variables)
    }
}

fn mentions(pieces: &[Piece], names: &Names, into: &mut Vec<(String, String)>) {
    for piece in pieces {
        match piece {
            Piece::Text(_) => {}
            Piece::Reference(selector) => mention(selector, into),
            Piece::Name(inner) => {
                mentions(inner, names, into);
                let begin = match inner.first() {
                    Some(Piece::Text(text)) => text.trim_start(),
                    Some(Piece::Reference(_) | Piece::Name(_)) | None => "",
                };
                match (Path::head_of(begin), inner.len()) {
                    (Some(head), _) => names.meant_by(head, into),
                    (None, 1) => names.meant_by(begin.trim_end(), into),
                    (None, _) => names.beginning_with(begin, into),
                }
            }
        }
    }
}

fn render(pieces: &[Piece], names: &Names, variables: &dyn Variables) -> Result<String, NameError> {
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Reference(selector) => {
                let found = variables.found(selector).filter(|value| !value.value.is_null());
                out.push_str(&found.ok_or_else(|| NameError::NotFound(selector.join(".")))?.text());
            }
            Piece::Name(inner) => {
                let name = render(inner, names, variables)?;
                let name = name.trim();
                let value = Path::parse(name).and_then(|path| names.value(&path, variables));
                let value = value.ok_or_else(|| NameError::NotFound(name.to_owned()))?;
                out.push_str(&shown(&value));
            }
        }
    }
    Ok(out)
}

/// Formats a value for the text: texts unchanged, all other values as JSON.
fn shown(value: &Segment) -> Cow<'_, str> {
    match &value.value {
        Json::String(text) if value.ty != SegmentType::None => text.as_str().into(),
        other => other.to_string().into(),
    }
}

#[cfg(test)]
mod tests;
