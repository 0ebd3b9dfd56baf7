//! Reads JSON as people and models write it: with missing quotes, commas and brackets, with comments, with
//! words around it.
//!
//! Dify repairs the JSON body of a request before it sends it. Valid JSON is read as usual. For any other
//! text the guesses follow Dify's repair exactly, since a different guess would send a different request.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value as Json;

use self::kinds::{is_empty, python_number, same_shape};
use super::JsonMap;

mod ahead;
mod kinds;
mod nested;
mod text;

/// Deepest nesting that is read; deeper values are dropped.
const DEPTH_MAX: usize = 100;

/// The reason why a text has no JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RepairError {
    /// Nothing in the text looks like JSON, or the result is the empty text.
    #[error("there is no JSON in the text")]
    Nothing,
    /// `NaN` or `Infinity`, which Python reads and JSON cannot hold.
    #[error("Out of range float values are not JSON compliant")]
    NotFinite,
}

/// Returns the JSON value of a text, repaired where needed.
///
/// # Errors
/// See [`RepairError`].
pub fn repair(text: &str) -> Result<Json, RepairError> {
    let value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(_) => match without_first_brace(text) {
            Some(value) => value,
            None => Repair::new(text).document()?,
        },
    };
    // Dify turns an empty text into an empty text, which is not JSON.
    if value == Json::String(String::new()) { Err(RepairError::Nothing) } else { Ok(value) }
}

/// Reads a text that lacks only its first brace.
fn without_first_brace(text: &str) -> Option<Json> {
    let text = text.trim();
    let fits = text.starts_with('"') && text.ends_with('}');
    fits.then(|| serde_json::from_str(&format!("{{{text}")).ok()).flatten()
}

/// The position of a text, which decides what may follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Key,
    Member,
    Item,
}

struct Repair {
    chars: Vec<char>,
    at: usize,
    /// The positions around the current one, outermost first.
    positions: Vec<Position>,
    not_finite: bool,
    /// Cache of [`Self::find`]: per character, the start of the last search and its result.
    found: RefCell<BTreeMap<char, (usize, usize)>>,
}

impl Repair {
    fn new(text: &str) -> Self {
        Self {
            chars: text.chars().collect(),
            at: 0,
            positions: Vec::new(),
            not_finite: false,
            found: RefCell::default(),
        }
    }

    /// Reads all lists and objects of the text; a single one is returned as it is, several as a list.
    fn document(mut self) -> Result<Json, RepairError> {
        let mut found: Vec<Json> = Vec::new();
        loop {
            self.skip_filler();
            let listed = self.chars[..self.at].iter().rev().find(|c| !c.is_whitespace()) == Some(&',');
            let value = match self.peek() {
                Some('{') => self.whole_object(),
                Some('[') => self.list(']'),
                Some('(') if self.is_list_on_its_own() => self.parenthesised(),
                Some(_) => {
                    self.at += 1;
                    continue;
                }
                None => break,
            };
            match found.last_mut() {
                Some(_) if is_empty(&value) => {}
                // A value of the same shape is a newer version of the last one, unless a comma separates
                // them. An empty value is dropped.
                Some(last) if is_empty(last) || !listed && same_shape(last, &value) => *last = value,
                Some(_) | None => found.push(value),
            }
        }
        if self.not_finite || found.is_empty() && self.is_not_finite() {
            return Err(RepairError::NotFinite);
        }
        match found.len() {
            0 => Err(RepairError::Nothing),
            1 => Ok(found.remove(0)),
            _ => Ok(Json::Array(found)),
        }
    }

    /// True when the whole text is `NaN` or an infinity, which Python accepts as JSON.
    fn is_not_finite(&self) -> bool {
        let text: String = self.chars.iter().collect();
        matches!(text.trim(), "NaN" | "Infinity" | "-Infinity")
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn skip_while(&mut self, is: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&is) {
            self.at += 1;
        }
    }

    fn within(&self, position: Position) -> bool {
        self.positions.contains(&position)
    }

    /// Runs `read` with `position` as the innermost position.
    fn at_position<T>(&mut self, position: Position, read: impl FnOnce(&mut Self) -> T) -> T {
        self.positions.push(position);
        let out = read(self);
        self.positions.pop();
        out
    }

    /// Skips white space and comments.
    fn skip_filler(&mut self) {
        self.at = self.after_filler(self.at);
    }

    // The recursion is bounded by the number of places.
    fn value(&mut self) -> Json {
        self.skip_filler();
        if self.positions.len() > DEPTH_MAX {
            self.at = self.chars.len();
            return Json::Null;
        }
        let position = self.positions.last().copied().unwrap_or(Position::Item);
        while let Some(c) = self.peek() {
            match c {
                '{' => return self.object(),
                '[' => return self.list(']'),
                '(' => return self.parenthesised(),
                '#' | '/' => {
                    self.skip_comment();
                    break;
                }
                c if c.is_ascii_digit() || matches!(c, '-' | '.') => return self.number(position),
                c if c.is_alphabetic() || ahead::closer(c).is_some() => return self.text_value(position),
                _ => self.at += 1,
            }
        }
        Json::String(String::new())
    }

    fn skip_comment(&mut self) {
        let from = self.at;
        self.skip_filler();
        if self.at == from {
            self.at += 1;
        }
    }

    fn text_value(&mut self, position: Position) -> Json {
        let bare = self.peek().is_some_and(char::is_alphabetic);
        let value = self.text(position);
        self.not_finite |= bare && matches!(value.as_str(), Some("NaN" | "Infinity"));
        value
    }

    /// Reads a number, or a text that begins like one.
    fn number(&mut self, position: Position) -> Json {
        let from = self.at;
        let mut text = String::new();
        while let Some(c) = self.peek() {
            let is_part = match c {
                '+' => text.ends_with(['e', 'E']),
                ',' => position != Position::Item,
                c => c.is_ascii_digit() || matches!(c, '-' | '.' | 'e' | 'E' | '/' | '_'),
            };
            if !is_part {
                break;
            }
            text.extend((c != '_').then_some(c));
            self.at += 1;
        }
        if self.peek().is_some_and(char::is_alphabetic) {
            self.at = from;
            return self.text(position);
        }
        if text.ends_with(['+', '-', 'e', 'E', '/', ',']) {
            text.pop();
            self.at -= 1;
        }
        match python_number(&text) {
            Some(number) => Json::Number(number),
            None => Json::String(text),
        }
    }
}

#[cfg(test)]
mod tests;
