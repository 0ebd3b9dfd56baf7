//! JSON as people and models write it: quotes, commas and closers missing, comments, words around it.
//!
//! Dify repairs the JSON body of a request before it sends it. A text that is JSON is read as such; any other is read
//! with as much good will as can be had, and what good will there is follows what Dify's repair makes of the same text:
//! a guess that differs would send something else.

use serde_json::{Number, Value as Json};

use super::JsonMap;

/// Deepest nesting that is followed; what lies deeper is left out.
const DEPTH_MAX: usize = 100;

/// Why no JSON came of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RepairError {
    /// Nothing in the text looks like JSON, or it is the empty text.
    #[error("there is no JSON in the text")]
    Nothing,
    /// `NaN` or `Infinity`, which Python reads and JSON cannot hold.
    #[error("Out of range float values are not JSON compliant")]
    NotFinite,
}

/// The value that a text means.
///
/// # Errors
/// See [`RepairError`].
pub fn repair(text: &str) -> Result<Json, RepairError> {
    let value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(_) => Repair::new(text).document()?,
    };
    // Dify makes an empty text of an empty text, and that is not JSON.
    if value == Json::String(String::new()) { Err(RepairError::Nothing) } else { Ok(value) }
}

/// Where a value stands, which decides what may follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Member,
    Item,
}

struct Repair {
    chars: Vec<char>,
    at: usize,
    not_finite: bool,
}

impl Repair {
    fn new(text: &str) -> Self {
        Self { chars: text.chars().collect(), at: 0, not_finite: false }
    }

    /// All lists and objects of the text; one stands for itself, several are a list.
    fn document(mut self) -> Result<Json, RepairError> {
        let mut found: Vec<Json> = Vec::new();
        loop {
            self.skip_filler();
            let value = match self.peek() {
                Some('{') => self.object(DEPTH_MAX),
                Some('[') => self.list(DEPTH_MAX),
                Some(_) => {
                    self.at += 1;
                    continue;
                }
                None => break,
            };
            match found.last_mut() {
                // The same thing again is a later version of it; something empty was no value.
                Some(last) if is_empty(last) || same_shape(last, &value) => *last = value,
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

    /// The whole text is one of Python's words for what is no number.
    fn is_not_finite(&self) -> bool {
        let text: String = self.chars.iter().collect();
        matches!(text.trim(), "NaN" | "Infinity" | "-Infinity")
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn char_at(&self, at: usize) -> Option<char> {
        self.chars.get(at).copied()
    }

    fn skip_while(&mut self, is: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&is) {
            self.at += 1;
        }
    }

    /// Blanks and comments.
    fn skip_filler(&mut self) {
        loop {
            self.skip_while(char::is_whitespace);
            match (self.peek(), self.char_at(self.at + 1)) {
                (Some('#'), _) | (Some('/'), Some('/')) => self.skip_while(|c| c != '\n' && c != '\r'),
                (Some('/'), Some('*')) => {
                    self.at += 2;
                    while self.at < self.chars.len()
                        && !(self.peek() == Some('*') && self.char_at(self.at + 1) == Some('/'))
                    {
                        self.at += 1;
                    }
                    self.at = (self.at + 2).min(self.chars.len());
                }
                _ => return,
            }
        }
    }

    // Recursion is bounded by `depth`.
    fn value(&mut self, place: Place, depth: usize) -> Json {
        self.skip_filler();
        let Some(depth) = depth.checked_sub(1) else {
            self.at = self.chars.len();
            return Json::Null;
        };
        match self.peek() {
            Some('{') => self.object(depth),
            Some('[') => self.list(depth),
            Some(quote) if closer(quote).is_some() => Json::String(self.quoted(Some(place))),
            Some(c) if c.is_ascii_digit() || c == '-' || c == '.' => self.number(place),
            Some(_) => self.word(place),
            None => Json::String(String::new()),
        }
    }

    fn object(&mut self, depth: usize) -> Json {
        self.at += 1;
        let mut object = JsonMap::new();
        loop {
            self.skip_filler();
            match self.peek() {
                None => break,
                Some('}') => {
                    self.at += 1;
                    break;
                }
                // The closer of what lies around: this one's is missing.
                Some(']') => break,
                Some(',' | ':') => self.at += 1,
                Some(_) => self.member(&mut object, depth),
            }
        }
        Json::Object(object)
    }

    fn member(&mut self, object: &mut JsonMap, depth: usize) {
        let began = self.at;
        let key = match self.peek() {
            Some(quote) if closer(quote).is_some() => self.quoted(None),
            Some(_) | None => self.bare_key(),
        };
        self.skip_filler();
        match self.peek() {
            Some(':') => self.at += 1,
            // A key alone at the end says nothing.
            Some('}') | None => return,
            Some(_) => {}
        }
        self.skip_filler();
        let value = match self.peek() {
            Some(',' | '}') | None => Json::String(String::new()),
            Some(_) => self.value(Place::Member, depth),
        };
        object.insert(key, value);
        // Whatever it was, the next round must begin behind it.
        self.at = self.at.max(began + 1);
    }

    fn list(&mut self, depth: usize) -> Json {
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_filler();
            let began = self.at;
            match self.peek() {
                None => break,
                Some(']') => {
                    self.at += 1;
                    break;
                }
                Some('}') => break,
                Some(',') => self.at += 1,
                Some(_) => {
                    let value = self.value(Place::Item, depth);
                    if value != Json::String(String::new()) {
                        items.push(value);
                    }
                    self.at = self.at.max(began + 1);
                }
            }
        }
        Json::Array(items)
    }

    fn bare_key(&mut self) -> String {
        let from = self.at;
        self.skip_while(|c| !matches!(c, ':' | ',' | '}' | ']' | '{' | '[') && !c.is_whitespace());
        if self.at == from {
            self.at += 1;
        }
        let key: String = self.chars[from..self.at].iter().collect();
        key.trim_end_matches(['"', '\'']).to_owned()
    }

    fn number(&mut self, place: Place) -> Json {
        let from = self.at;
        self.skip_while(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E' | '_'));
        let text: String = self.chars[from..self.at].iter().filter(|c| **c != '_').collect();
        if self.peek().is_some_and(char::is_alphanumeric) {
            self.at = from;
            return self.word(place);
        }
        match python_number(&text) {
            Some(number) => Json::Number(number),
            None => Json::String(text),
        }
    }

    /// `true`, `False`, `None` and the like, or a text without quotes.
    fn word(&mut self, place: Place) -> Json {
        let from = self.at;
        self.skip_while(|c| c.is_alphanumeric() || c == '_');
        let word: String = self.chars[from..self.at].iter().collect();
        match word.to_lowercase().as_str() {
            "true" => return Json::Bool(true),
            "false" => return Json::Bool(false),
            "null" | "none" => return Json::Null,
            _ => {}
        }
        if matches!(word.as_str(), "NaN" | "Infinity") {
            self.not_finite = true;
        }
        let ends = match place {
            Place::Member => |c: char| matches!(c, ',' | '}' | '\n'),
            Place::Item => |c: char| matches!(c, ',' | ']' | '\n'),
        };
        self.skip_while(|c| !ends(c));
        let text: String = self.chars[from..self.at].iter().collect();
        Json::String(text.trim_end().trim_end_matches(['"', '\'']).to_owned())
    }

    /// A text in quotes: a key when there is no place, else a value. A quote that nothing fitting follows is part of the
    /// text.
    fn quoted(&mut self, place: Option<Place>) -> String {
        let close = self.peek().and_then(closer).unwrap_or('"');
        let from = self.at + 1;
        self.at = from;
        let mut text = String::new();
        while let Some(c) = self.peek() {
            if c == close && self.closes(place) {
                self.at += 1;
                return text;
            }
            if c == close
                && place == Some(Place::Member)
                && self.is_key_end()
                && let Some(cut) = self.cut_before_key(from)
            {
                self.at = cut;
                let kept: String = self.chars[from..cut].iter().collect();
                return kept.trim_end().to_owned();
            }
            self.at += 1;
            match c {
                '\\' => self.escape(&mut text),
                c => text.push(c),
            }
        }
        self.unclosed(place, from, &text)
    }

    fn escape(&mut self, text: &mut String) {
        let Some(escaped) = self.peek() else { return text.push('\\') };
        self.at += 1;
        match escaped {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            '"' | '\'' | '\\' | '/' => text.push(escaped),
            'u' => {
                let digits: String = self.chars[self.at..].iter().take(4).collect();
                match u32::from_str_radix(&digits, 16) {
                    Ok(code) if digits.len() == 4 => {
                        self.at += 4;
                        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    Ok(_) | Err(_) => text.push_str("\\u"),
                }
            }
            other => {
                text.push('\\');
                text.push(other);
            }
        }
    }

    /// Whether the quote at hand ends the text, by what comes behind it.
    fn closes(&self, place: Option<Place>) -> bool {
        let mut next = self.at + 1;
        let mut on_new_line = false;
        while let Some(c) = self.char_at(next).filter(|c| c.is_whitespace()) {
            on_new_line |= c == '\n';
            next += 1;
        }
        let Some(c) = self.char_at(next) else { return true };
        let comment = c == '#' || c == '/' && matches!(self.char_at(next + 1), Some('/' | '*'));
        match place {
            None => c == ':' || comment,
            Some(Place::Member) => match c {
                '}' | ']' => true,
                ',' => self.member_follows(next + 1),
                _ => comment || self.key_follows(next, on_new_line),
            },
            Some(Place::Item) => matches!(c, ',' | ']' | '}' | '[' | '{') || comment || closer(c).is_some(),
        }
    }

    /// Behind a comma: a key, or nothing more.
    fn member_follows(&self, mut at: usize) -> bool {
        while self.char_at(at).is_some_and(|c| c.is_whitespace() || c == ',') {
            at += 1;
        }
        match self.char_at(at) {
            None | Some('}' | ']' | '/' | '#') => true,
            Some(_) => self.key_follows(at, true),
        }
    }

    /// A key in quotes, or, if that is likely, a bare one, with its colon.
    fn key_follows(&self, at: usize, bare: bool) -> bool {
        let Some(first) = self.char_at(at) else { return false };
        let mut end = at + 1;
        if let Some(close) = closer(first) {
            while self.char_at(end).is_some_and(|c| c != close && c != '\n') {
                end += 1;
            }
            end += 1;
        } else if bare && (first.is_alphanumeric() || first == '_') {
            while self.char_at(end).is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-')) {
                end += 1;
            }
        } else {
            return false;
        }
        while self.char_at(end).is_some_and(char::is_whitespace) {
            end += 1;
        }
        self.char_at(end) == Some(':')
    }

    /// The quote at hand is the last one of a key: the text itself was never closed.
    fn is_key_end(&self) -> bool {
        let behind = self.chars[self.at + 1..].iter().find(|c| !c.is_whitespace());
        behind == Some(&':')
    }

    /// The comma in front of the key that ends here, behind `from`.
    fn cut_before_key(&self, from: usize) -> Option<usize> {
        (from..self.at).rev().find(|&at| self.chars[at] == ',')
    }

    /// A text without its second quote: it ends where the value would, or with the document's closers.
    fn unclosed(&mut self, place: Option<Place>, from: usize, text: &str) -> String {
        if place.is_none()
            && let Some(colon) = (from..self.chars.len()).find(|&at| self.chars[at] == ':')
        {
            self.at = colon;
            return self.chars[from..colon].iter().collect::<String>().trim_end().to_owned();
        }
        text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '}' | ']')).to_owned()
    }
}

/// The quote that ends what this one begins.
const fn closer(quote: char) -> Option<char> {
    match quote {
        '"' | '\'' => Some(quote),
        '“' => Some('”'),
        _ => None,
    }
}

/// Whole numbers and numbers with a fraction as Python tells them apart.
fn python_number(text: &str) -> Option<Number> {
    if text.contains(['.', 'e', 'E']) {
        return text.parse().ok().and_then(Number::from_f64);
    }
    let digits = text.trim_start_matches('+');
    digits.parse::<i64>().map(Number::from).or_else(|_| digits.parse::<u64>().map(Number::from)).ok()
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Array(items) => items.is_empty(),
        Json::Object(map) => map.is_empty(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
    }
}

/// The same keys and lengths throughout.
fn same_shape(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same_shape(a, b)))
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_shape(a, b))
        }
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

#[cfg(test)]
mod tests;
