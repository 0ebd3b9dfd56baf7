//! Text in which variables stand by their bare names: `Dear {{name}}, {{items[0].title}}`, beside references
//! (`{{#start.name#}}`) as [`super::template`] has them.
//!
//! Parsed once, rendered in one pass: what a value renders to is never looked at again, so text of users that looks like
//! a name stays what it is. A name may be put together of others, `{{greeting_{{language}}}}`, from the inside out.
//! [`Names`] says which variables a name may mean.

mod parse;
mod path;
mod scopes;

use std::borrow::Cow;

use serde_json::Value as Json;

use super::template::mention;
use super::{Segment, SegmentType, Selector, Variables};
use path::Path;

pub use scopes::Names;

/// Text with names and references, parsed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NamedText {
    pieces: Vec<Piece>,
}

/// A piece of it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// `{{#node.name#}}`
    Reference(Selector),
    /// What stands between the braces of a name.
    Name(Vec<Piece>),
}

/// Why a text cannot be used, or not be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is no such variable, or it is null.
    #[error("Variable not found: {0}")]
    NotFound(String),
    /// Names stand within names within names.
    #[error("placeholders stand more than {0} levels deep in each other, and may stand {0} deep")]
    TooDeep(usize),
}

impl NamedText {
    /// Finds names and references; what does not look like one is text, so are braces with nothing between them.
    ///
    /// # Errors
    /// Names that stand in each other more than `levels_max` deep.
    pub fn parse(source: &str, levels_max: usize) -> Result<Self, NameError> {
        parse::pieces(source, levels_max).map(|pieces| Self { pieces })
    }

    /// Adds `(node, name)` of everything that rendering may read: of a name, all variables that it may mean.
    pub fn mentions(&self, names: &Names, into: &mut Vec<(String, String)>) {
        mentions(&self.pieces, names, into);
    }

    /// The text with every name and reference replaced by its value.
    ///
    /// # Errors
    /// A variable that is not there.
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

/// A value as it stands in the text: texts as they are, all else as JSON.
fn shown(value: &Segment) -> Cow<'_, str> {
    match &value.value {
        Json::String(text) if value.ty != SegmentType::None => text.as_str().into(),
        other => other.to_string().into(),
    }
}

#[cfg(test)]
mod tests;
