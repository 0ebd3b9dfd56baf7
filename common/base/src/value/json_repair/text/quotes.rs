//! Decides which quotes end a text and which are part of it.

use super::super::{Position, Repair};
use super::Text;

/// The role of a quote inside a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    Closes,
    IsPart,
    /// Part of the text, and so is the next quote.
    OpensPart,
    /// Begins the next key: the bare text ended before it.
    BeginsKey,
    /// One of two quotes where one would do.
    IsTwice,
}

impl Repair {
    /// Decides the role of the current quote from the characters after it.
    pub(super) fn judge(&self, text: &mut Text) -> Quote {
        let after = self.at + 1;
        if text.doubled && self.char_at(after) == Some(text.close) {
            return Quote::IsTwice;
        }
        let (open, close) = (text.open, text.close);
        let is_quote = |c: char| c == close || c == open;
        if text.bare && text.position == Position::Member {
            let quote = (after..self.chars.len()).find(|&at| is_quote(self.chars[at]));
            let is_key = quote.is_some_and(|quote| self.next_solid(quote + 1) == Some(':'));
            return if is_key { Quote::BeginsKey } else { Quote::Closes };
        }
        if text.unmatched {
            return Quote::IsPart;
        }
        let stop = self.stop_after(text, after);
        match self.char_at(stop) {
            Some(',') if text.position == Position::Member => {
                let quote = self.find(stop + 1, text.close);
                let closed = matches!(self.next_solid(quote + 1), Some('}' | ','));
                if closed { Quote::IsPart } else { Quote::Closes }
            }
            Some(c) if c == text.close && self.char_at(stop - 1) != Some('\\') => self.judge_pair(text, stop),
            Some(_) | None => Quote::Closes,
        }
    }

    /// Returns the position of the next quote, or of a character that would continue the structure around the
    /// text.
    fn stop_after(&self, text: &Text, from: usize) -> usize {
        let (key, member, item) =
            (self.within(Position::Key), self.within(Position::Member), self.within(Position::Item));
        let mut letters = false;
        for at in from..self.chars.len() {
            let c = self.chars[at];
            letters |= c.is_alphabetic();
            let stops = match c {
                ':' => key,
                '}' => key || member,
                ']' => item,
                ',' => item || text.position == Position::Member && !letters,
                c => c == text.close || c == text.open,
            };
            if stops {
                return at;
            }
        }
        self.chars.len()
    }

    /// Decides the role of the current quote when the next relevant character is the quote at `second`.
    fn judge_pair(&self, text: &mut Text, second: usize) -> Quote {
        let member_follows = text.position == Position::Member && self.member_follows(second);
        if self.after_blanks(self.at + 1) >= second && !member_follows {
            return Quote::Closes;
        }
        match text.position {
            Position::Key => Quote::IsPart,
            Position::Member if member_follows => Quote::IsPart,
            Position::Member => {
                // The two quotes are a pair inside the text, unless the second begins a key.
                let third = self.find(second + 1, text.close);
                let end = self.find_any(third + 1, &[':', ',', ']', '}', text.close]);
                if self.char_at(end) == Some(':') { Quote::Closes } else { Quote::OpensPart }
            }
            Position::Item => {
                // With an odd number of quotes left, the rest of the list is in pairs and this quote closes
                // the text.
                let left = self.quotes_left(text, second);
                if left.is_multiple_of(2) { Quote::OpensPart } else { Quote::Closes }
            }
        }
    }

    /// Counts the quotes from the one at `first` to the end of the list.
    fn quotes_left(&self, text: &mut Text, first: usize) -> usize {
        let next = |at: usize| self.find_any(at + 1, &[text.close, ']']);
        // Each quote of a text may need this number: the first call counts all of them, later calls only
        // subtract.
        if let Some((mut at, mut left)) = text.left {
            while at < first && left > 0 {
                at = next(at);
                left -= 1;
            }
            if at == first && left > 0 {
                text.left = Some((at, left));
                return left;
            }
        }
        let (mut at, mut left) = (first, 0);
        while self.char_at(at) == Some(text.close) {
            left += 1;
            at = next(at);
        }
        text.left = Some((first, left));
        left
    }
}
