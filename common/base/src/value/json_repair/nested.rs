//! Reads values that contain others: objects, lists, and Python's parentheses.

use serde_json::Value as Json;

use super::kinds::{is_empty, is_scalar};
use super::{JsonMap, Position, Repair, ahead};

impl Repair {
    /// Reads a top-level object, and the members that follow its closing brace by mistake.
    pub(super) fn whole_object(&mut self) -> Json {
        let mut value = self.object();
        while let Json::Object(members) = &mut value {
            let comma = self.after_blanks(self.at);
            let next = self.after_blanks(comma + 1);
            if self.char_at(comma) != Some(',') || self.char_at(next).and_then(ahead::closer).is_none() {
                break;
            }
            self.at = next;
            match self.members() {
                Json::Object(more) => members.extend(more),
                _ => break,
            }
        }
        value
    }

    pub(super) fn object(&mut self) -> Json {
        self.at += 1;
        self.members()
    }

    /// Reads the members of an object, including its closing brace.
    fn members(&mut self) -> Json {
        let from = self.at;
        let mut object = JsonMap::new();
        loop {
            self.skip_filler();
            match self.peek() {
                None => break,
                Some('}') => {
                    self.at += 1;
                    break;
                }
                Some(',' | ':') => self.at += 1,
                Some(_) => {
                    self.member(&mut object);
                    // The bracket closes the list around the object; the object's own brace is missing.
                    if self.peek() == Some(']') && self.within(Position::Item) {
                        break;
                    }
                }
            }
        }
        if object.is_empty() && self.unescape_keys(from) {
            return self.members();
        }
        if object.is_empty() && self.is_set(from) {
            self.at = from;
            return self.at_position(Position::Key, |this| this.items('}'));
        }
        if self.peek() == Some('}') && self.positions.last() == Some(&Position::Item) {
            self.at += 1;
        }
        Json::Object(object)
    }

    /// When the text from `from` to here has escaped keys: replaces escaped quotes by quotes there, and goes
    /// back to `from`.
    fn unescape_keys(&mut self, from: usize) -> bool {
        let start = self.after_blanks(from);
        let end = self.at.min(self.chars.len());
        let Some(quote @ ('"' | '\'')) = self.char_at(start + 1) else { return false };
        let is_key_end = |part: &[char]| part == ['\\', quote, ':'];
        if self.chars[start] != '\\' || start >= end || !self.chars[start..end].windows(3).any(is_key_end) {
            return false;
        }
        let body: String = self.chars[start..end].iter().collect();
        let body = body.replace("\\\"", "\"").replace("\\'", "'");
        self.chars.splice(start..end, body.chars());
        self.found.borrow_mut().clear();
        self.at = from;
        true
    }

    /// True when the text from `from` to here has no colon, so that it is a list and not an object.
    fn is_set(&self, from: usize) -> bool {
        let mut at = self.after_filler(from);
        let end = self.at.min(self.chars.len()) - usize::from(self.char_at(self.at - 1) == Some('}'));
        let any = at < end;
        while at < end {
            match self.chars[at] {
                ':' => return false,
                c => {
                    if let Some(close) = ahead::closer(c) {
                        at = self.find(at + 1, close);
                    }
                }
            }
            at = self.after_filler(at + 1);
        }
        any
    }

    fn member(&mut self, object: &mut JsonMap) {
        let began = self.at;
        if self.peek() == Some('[')
            && let Some((_, Json::Array(items))) = object.iter_mut().next_back()
        {
            let more = self.at_position(Position::Key, |this| this.list(']'));
            return continue_list(items, more);
        }
        let key = self.at_position(Position::Key, |this| match this.text(Position::Key) {
            Json::String(key) => key,
            other => other.to_string(),
        });
        self.skip_filler();
        match self.peek() {
            // A key without a value at the end is dropped.
            Some('}') | None => return,
            Some(c) if key.is_empty() && c != ':' => {
                self.at = self.at.max(began + 1);
                return;
            }
            // Any other character here is taken for the colon.
            Some(_) => self.at += 1,
        }
        self.skip_filler();
        let value = match self.peek() {
            Some(',' | '}') | None => Json::String(String::new()),
            Some(_) => self.at_position(Position::Member, Self::value),
        };
        object.insert(key, value);
        if matches!(self.peek(), Some(',' | '"' | '\'')) {
            self.at += 1;
        }
    }

    pub(super) fn list(&mut self, close: char) -> Json {
        self.at += 1;
        self.items(close)
    }

    /// Reads the items of a list, including its closing bracket.
    fn items(&mut self, close: char) -> Json {
        let is_member = self.positions.last() == Some(&Position::Member);
        self.at_position(Position::Item, |this| {
            let mut items: Vec<Json> = Vec::new();
            loop {
                this.skip_filler();
                let began = this.at;
                match this.peek() {
                    None => break,
                    Some(c) if c == close || c == '}' => {
                        this.at += 1;
                        break;
                    }
                    Some(',') => this.at += 1,
                    Some(_) => {
                        let is_key = this.is_quoted_key(this.at);
                        // The list was never closed: this is the next member of the object around it.
                        if is_key && is_member && !items.is_empty() && items.iter().all(is_scalar) {
                            break;
                        }
                        let value = if is_key { this.members() } else { this.value() };
                        if is_empty(&value) && this.peek().is_none_or(|c| c != close && c != ',') {
                            this.at += 1;
                        } else if value != Json::String("...".to_owned())
                            || this.char_at(this.at - 1) != Some('.')
                        {
                            items.push(value);
                        }
                        this.at = this.at.max(began + 1);
                    }
                }
            }
            Json::Array(items)
        })
    }

    /// Reads a list in parentheses, or a single value in needless ones.
    pub(super) fn parenthesised(&mut self) -> Json {
        let (_, is_list) = self.parenthesis(self.at);
        match self.list(')') {
            Json::Array(mut items) if !is_list && items.len() == 1 => items.remove(0),
            list => list,
        }
    }

    /// True when nothing else is on the lines of the parentheses.
    pub(super) fn is_list_on_its_own(&self) -> bool {
        let line_end = |c: &&char| !c.is_whitespace() || matches!(c, '\n' | '\r');
        let before = self.chars[..self.at].iter().rev().find(line_end);
        let (end, _) = self.parenthesis(self.at);
        let after = end.map(|end| self.chars[end + 1..].iter().find(line_end));
        let first = self.next_solid(self.at + 1);
        let starts = first.is_some_and(|c| {
            ahead::closer(c).is_some()
                || c.is_ascii_digit()
                || matches!(c, ')' | '{' | '[' | '(' | '-' | '.' | 't' | 'f' | 'n')
        });
        let ends = |c: Option<&char>| c.is_none_or(|c| matches!(c, '\n' | '\r'));
        starts && ends(before) && after.is_some_and(ends)
    }
}

/// Appends to a list the items of another list found in the place of the next key.
fn continue_list(items: &mut Vec<Json>, more: Json) {
    let Json::Array(mut more) = more else { return };
    match more.as_mut_slice() {
        [Json::Array(only)] => items.append(only),
        _ => items.append(&mut more),
    }
}
