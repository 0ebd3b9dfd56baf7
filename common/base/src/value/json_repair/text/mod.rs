//! Texts, with or without quotes, and where they end.

use serde_json::Value as Json;

use self::begin::Start;
use self::quotes::Quote;
use super::ahead::closer;
use super::{Position, Repair};

mod begin;
mod escape;
mod quotes;

/// A text that is being read.
struct Text {
    position: Position,
    open: char,
    close: char,
    /// True when it began without a quote.
    bare: bool,
    /// True when it began with two quotes and seems to end with two.
    doubled: bool,
    /// True when a quote was taken as part of the text, so that the next quote is part of it too.
    unmatched: bool,
    /// The number of braces that are open inside the text.
    braces: usize,
    content: String,
    /// Cache of `quotes_left`: a quote of the text, and the number of quotes from it to the end of the list
    /// around the text.
    left: Option<(usize, usize)>,
}

impl Text {
    fn new(position: Position, open: char, close: char, bare: bool) -> Self {
        Self {
            position,
            open,
            close,
            bare,
            doubled: false,
            unmatched: false,
            braces: 0,
            content: String::new(),
            left: None,
        }
    }

    fn push(&mut self, c: char) {
        match c {
            '{' => self.braces += 1,
            '}' => self.braces = self.braces.saturating_sub(1),
            _ => {}
        }
        self.content.push(c);
    }

    fn ends_with(&self, c: char) -> bool {
        self.content.ends_with(c)
    }
}

impl Repair {
    /// Reads the text at the current position as a value; a bare one may be `true`, `None` and the like.
    pub(super) fn text(&mut self, position: Position) -> Json {
        self.skip_while(|c| closer(c).is_none() && !c.is_alphanumeric());
        let Some(first) = self.peek() else { return Json::String(String::new()) };
        if let Some(plain) = self.plain_text(position) {
            return Json::String(plain);
        }
        match self.begin(position, first) {
            Start::Whole(value) => value,
            Start::Body(mut text) => {
                self.body(&mut text);
                Json::String(self.end(text))
            }
        }
    }

    /// Reads a text up to the very next quote, when valid JSON follows that quote.
    fn plain_text(&mut self, position: Position) -> Option<String> {
        if self.peek() != Some('"') {
            return None;
        }
        let from = self.at + 1;
        let end = (from..self.chars.len()).find(|&at| matches!(self.chars[at], '"' | '\\' | '\n' | '\r'))?;
        if self.chars[end] != '"' {
            return None;
        }
        let next = self.next_solid(end + 1);
        let fits = match position {
            Position::Key => next == Some(':'),
            Position::Member => matches!(next, Some(',' | '}') | None),
            Position::Item => matches!(next, Some(',' | ']') | None),
        };
        if !fits {
            return None;
        }
        self.at = end + 1;
        Some(self.chars[from..end].iter().collect())
    }

    /// Reads up to the character that ends the text, which is not consumed.
    fn body(&mut self, text: &mut Text) {
        while let Some(c) = self.peek() {
            if c == text.close || self.stops(text, c) {
                return;
            }
            self.at += 1;
            // After these characters a quote ends the text, so it is not examined here.
            let settled = text.position == Position::Member && (c == ',' || c == '}' && text.braces > 0);
            text.push(c);
            if settled {
                continue;
            }
            if c == '\\' && self.escape(text) {
                continue;
            }
            match self.peek() {
                Some(':')
                    if text.position == Position::Key && !text.bare && self.is_colon_after_key(text) =>
                {
                    return;
                }
                Some(next) if next == text.close && !text.ends_with('\\') => match self.judge(text) {
                    Quote::Closes => return,
                    Quote::BeginsKey => {
                        self.at -= 1;
                        return;
                    }
                    Quote::IsTwice => self.at += 1,
                    part @ (Quote::IsPart | Quote::OpensPart) => {
                        text.unmatched = part == Quote::OpensPart;
                        text.push(next);
                        self.at += 1;
                    }
                },
                Some(_) | None => {}
            }
        }
    }

    /// True when the text ends before the current character `c`, which is not its quote.
    fn stops(&self, text: &Text, c: char) -> bool {
        if text.bare {
            match text.position {
                Position::Key if c == ':' || c.is_whitespace() => return true,
                Position::Item if matches!(c, ']' | ',') => return true,
                Position::Key | Position::Item | Position::Member => {}
            }
        }
        let after_quote = text.ends_with(text.close);
        match c {
            ',' => text.position == Position::Member && self.comma_ends(),
            '}' if text.position == Position::Member => {
                if after_quote {
                    self.next_solid(self.at + 1).is_none()
                } else {
                    text.braces == 0 && (self.brace_ends(text) || self.next_solid(self.at + 1).is_none())
                }
            }
            ']' if self.within(Position::Item) && !after_quote => {
                self.find(self.at, text.close) == self.chars.len()
            }
            _ => false,
        }
    }

    /// True when the current comma ends a member whose closing quote is missing: a key follows it.
    fn comma_ends(&self) -> bool {
        let next = self.after_blanks(self.at + 1);
        match self.char_at(next) {
            None | Some('}') => return true,
            Some(c) if closer(c).is_some() => {
                let end = self.find(next + 1, c);
                return end < self.chars.len() && self.next_solid(end + 1) == Some(':');
            }
            Some('{' | '[') => return false,
            Some(_) => {}
        }
        if self.bare_key_colon(next).is_some_and(|colon| self.is_likely_value(colon + 1)) {
            return true;
        }
        let landmark = self.find_any(next, &['"', '\'', '“', '”', '{', '[']);
        let Some(quote) = self.char_at(landmark) else { return false };
        if matches!(quote, '{' | '[') {
            return false;
        }
        let end = self.find(landmark + 1, quote);
        end < self.chars.len() && self.next_solid(end + 1) == Some(':')
    }

    /// True when the current brace ends the object: no quote that could close the text follows it.
    fn brace_ends(&self, text: &Text) -> bool {
        if self.char_at(self.at + 1) == Some('\\') {
            return false;
        }
        let quote = self.find(self.at + 1, text.close);
        if quote == self.chars.len() {
            let colon = self.find(self.at + 1, ':');
            if colon < self.chars.len() {
                return true;
            }
            let next = self.after_blanks(self.at + 1);
            return self.find(next, '}') <= next + 1;
        }
        let after = self.after_blanks(quote + 1);
        if matches!(self.char_at(after), None | Some(',' | '}')) {
            return false;
        }
        let open = self.find(after, text.open);
        open < self.chars.len() && matches!(self.next_solid(open + 1), None | Some(':'))
    }

    /// True when the current colon follows a key whose closing quote is missing.
    fn is_colon_after_key(&self, text: &Text) -> bool {
        let open = self.find(self.at + 1, text.open);
        if open == self.chars.len() {
            return true;
        }
        let close = self.find(open + 1, text.close);
        close < self.chars.len() && matches!(self.next_solid(close + 1), Some(',' | '}'))
    }

    /// Consumes the character that ended the text.
    fn end(&mut self, text: Text) -> String {
        let mut content = text.content;
        let stopped = self.peek();
        if text.bare && text.position == Position::Key && stopped.is_some_and(char::is_whitespace) {
            self.skip_while(char::is_whitespace);
            if !matches!(self.peek(), Some(':' | ',')) {
                return String::new();
            }
        }
        let closed = stopped == Some(text.close);
        if closed {
            self.at += 1;
        }
        if !closed || text.bare || content.ends_with('\n') {
            content.truncate(content.trim_end().len());
        }
        content
    }
}
