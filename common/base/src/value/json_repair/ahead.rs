//! Look-ahead: inspects the text after a position without moving there.

use super::Repair;

/// Returns the quote that closes the quote `quote`.
pub(super) const fn closer(quote: char) -> Option<char> {
    match quote {
        '"' | '\'' | '”' => Some(quote),
        '“' => Some('”'),
        _ => None,
    }
}

impl Repair {
    pub(super) fn char_at(&self, at: usize) -> Option<char> {
        self.chars.get(at).copied()
    }

    /// Finds the first `wanted` at or after `from` that is not escaped by a backslash; else the end of the
    /// text.
    ///
    /// The last result per character is cached, so that a long text without the character is searched once,
    /// not once per comma.
    pub(super) fn find(&self, from: usize, wanted: char) -> usize {
        let mut found = self.found.borrow_mut();
        if let Some(&(searched, at)) = found.get(&wanted)
            && (searched..=at).contains(&from)
            && self.char_at(from - usize::from(from > 0)) != Some('\\')
        {
            return at;
        }
        let mut escaped = false;
        let mut at = from;
        while let Some(c) = self.char_at(at) {
            if c == wanted && !escaped {
                break;
            }
            escaped = c == '\\' && !escaped;
            at += 1;
        }
        let at = at.min(self.chars.len());
        found.insert(wanted, (from, at));
        at
    }

    /// Finds the first of several characters, as [`Self::find`] does.
    pub(super) fn find_any(&self, from: usize, wanted: &[char]) -> usize {
        wanted.iter().map(|c| self.find(from, *c)).min().unwrap_or(self.chars.len())
    }

    /// Returns the first position at or after `at` that is not white space.
    pub(super) fn after_blanks(&self, at: usize) -> usize {
        (at..self.chars.len()).find(|&at| !self.chars[at].is_whitespace()).unwrap_or(self.chars.len())
    }

    /// Returns the first character at or after `at` that is not white space.
    pub(super) fn next_solid(&self, at: usize) -> Option<char> {
        self.char_at(self.after_blanks(at))
    }

    /// Returns the position after white space and comments.
    pub(super) fn after_filler(&self, mut at: usize) -> usize {
        loop {
            at = self.after_blanks(at);
            match (self.char_at(at), self.char_at(at + 1)) {
                (Some('#'), _) | (Some('/'), Some('/')) => {
                    while self.char_at(at).is_some_and(|c| c != '\n' && c != '\r') {
                        at += 1;
                    }
                }
                (Some('/'), Some('*')) => {
                    at += 2;
                    while at < self.chars.len()
                        && !(self.char_at(at) == Some('*') && self.char_at(at + 1) == Some('/'))
                    {
                        at += 1;
                    }
                    at = (at + 2).min(self.chars.len());
                }
                _ => return at,
            }
        }
    }

    /// True when a quoted text begins at `at` and a colon follows it.
    pub(super) fn is_quoted_key(&self, at: usize) -> bool {
        let Some(close) = self.char_at(at).and_then(closer) else { return false };
        let end = self.find(at + 1, close);
        end < self.chars.len() && self.next_solid(end + 1) == Some(':')
    }

    /// Returns the position of the colon of the bare key that begins at `at`.
    pub(super) fn bare_key_colon(&self, at: usize) -> Option<usize> {
        if !self.char_at(at).is_some_and(|c| c.is_alphanumeric() || c == '_') {
            return None;
        }
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let end = (at..self.chars.len()).find(|&at| !is_part(self.chars[at])).unwrap_or(self.chars.len());
        let colon = self.after_blanks(end);
        (self.char_at(colon) == Some(':')).then_some(colon)
    }

    /// True when a comma and a key with its colon follow the quote at `quote`.
    pub(super) fn member_follows(&self, quote: usize) -> bool {
        let comma = self.after_blanks(quote + 1);
        if self.char_at(comma) != Some(',') {
            return false;
        }
        let key = self.after_filler(comma + 1);
        self.is_quoted_key(key) || self.bare_key_colon(key).is_some()
    }

    /// True when the text at `at` looks like the value of a member whose key was bare.
    pub(super) fn is_likely_value(&self, at: usize) -> bool {
        let at = self.after_blanks(at);
        let Some(first) = self.char_at(at) else { return false };
        if closer(first).is_some() || matches!(first, '{' | '[' | '-') || first.is_ascii_digit() {
            return true;
        }
        let word: String = self.chars[at..].iter().take_while(|c| c.is_alphanumeric()).collect();
        if matches!(word.as_str(), "true" | "false" | "null") {
            return true;
        }
        // Prose that contains a colon continues to the next quote; a value continues to the end of its object.
        self.char_at(self.find_any(at, &['"', '\'', '“', '”', '}'])) == Some('}')
    }

    /// Returns the parenthesis that closes the one at `open`, and true when the content is a list: empty, or
    /// with a comma.
    pub(super) fn parenthesis(&self, open: usize) -> (Option<usize>, bool) {
        let (mut depth, mut comma, mut empty) = (0_usize, false, true);
        let mut at = open + 1;
        while let Some(c) = self.char_at(at) {
            if let Some(close) = closer(c) {
                at = self.find(at + 1, close);
                empty = false;
            } else {
                match c {
                    ')' if depth == 0 => return (Some(at), comma || empty),
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth = depth.saturating_sub(1),
                    ',' => comma |= depth == 0,
                    _ => {}
                }
                empty &= c.is_whitespace() || c == ',';
            }
            at += 1;
        }
        (None, comma || empty)
    }
}
