//! The beginning of a text: with a quote, with a doubled quote, with a code fence, or with none of them.

use serde_json::Value as Json;

use super::super::ahead::closer;
use super::super::{Position, Repair};
use super::Text;

/// The beginning of a text: a complete value, or a text whose body follows.
pub(super) enum Start {
    Whole(Json),
    Body(Text),
}

impl Repair {
    pub(super) fn begin(&mut self, position: Position, first: char) -> Start {
        let Some(close) = closer(first) else {
            if position != Position::Key
                && let Some(value) = self.literal()
            {
                return Start::Whole(value);
            }
            return Start::Body(Text::new(position, '"', '"', true));
        };
        self.at += 1;
        // A closing curly quote does not open a text, so it counts as a plain one.
        let (open, close) = if first == '”' { ('"', '"') } else { (first, close) };
        if let Some(value) = self.fenced() {
            return Start::Whole(value);
        }
        if self.peek() == Some(open) {
            return self.begin_twice(Text::new(position, open, close, false));
        }
        Start::Body(Text::new(position, open, close, false))
    }

    /// Reads `true`, `False`, `None` and the like, when the word ends there.
    fn literal(&mut self) -> Option<Json> {
        let rest = &self.chars[self.at..];
        let word: String = rest.iter().take(6).take_while(|c| c.is_alphabetic()).collect();
        let value = match word.to_lowercase().as_str() {
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            "null" | "none" => Json::Null,
            _ => return None,
        };
        let next = rest.get(word.chars().count());
        if !next.is_none_or(|c| c.is_whitespace() || matches!(c, ',' | ')' | ']' | '}')) {
            return None;
        }
        self.at += word.chars().count();
        Some(value)
    }

    /// Reads the value in a fenced block that is the whole text.
    fn fenced(&mut self) -> Option<Json> {
        const FENCE: [char; 7] = ['`', '`', '`', 'j', 's', 'o', 'n'];
        if !self.chars[self.at..].starts_with(&FENCE) {
            return None;
        }
        let end = self.find(self.at + FENCE.len(), '`');
        if !self.chars[end..].starts_with(&FENCE[..3]) {
            return None;
        }
        self.at += FENCE.len();
        Some(self.value())
    }

    /// Handles two quotes in a row: an empty text, or one quote too many.
    fn begin_twice(&mut self, mut text: Text) -> Start {
        let empty = || Start::Whole(Json::String(String::new()));
        let second = self.at;
        let next = self.char_at(second + 1);
        let fits = match text.position {
            Position::Key => next == Some(':'),
            Position::Member => matches!(next, Some(',' | '}')),
            Position::Item => matches!(next, Some(',' | ']')),
        };
        if fits {
            self.at += 1;
            return empty();
        }
        if next == Some(text.open) {
            return empty();
        }
        let third = self.find(second + 1, text.close);
        if self.char_at(third + 1) == Some(text.close) {
            text.doubled = true;
            self.at += 1;
            return Start::Body(text);
        }
        if text.position == Position::Member && self.is_span(&text, second, third) {
            text.push(text.open);
            text.unmatched = true;
            self.at += 1;
            return Start::Body(text);
        }
        match self.next_solid(second + 1) {
            Some(c) if closer(c).is_some() || matches!(c, '{' | '[') => {
                self.at += 1;
                empty()
            }
            Some(',' | ']' | '}') => Start::Body(text),
            Some(_) | None => {
                self.at += 1;
                Start::Body(text)
            }
        }
    }

    /// True when the text begins with quoted words and its own closing quote comes later.
    fn is_span(&self, text: &Text, second: usize, third: usize) -> bool {
        let last = self.find(third + 1, text.close);
        third < self.chars.len()
            && self.after_blanks(second + 1) < third
            && last < self.chars.len()
            && matches!(self.next_solid(last + 1), Some(',' | '}') | None)
    }
}
