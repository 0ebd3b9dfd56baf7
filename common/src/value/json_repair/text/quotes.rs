//! Which quotes in a text end it, and which are part of it.

use super::super::{Place, Repair};
use super::Text;

/// What a quote in a text is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    Closes,
    IsPart,
    /// Part of the text, and so is the next one.
    OpensPart,
    /// It begins the next key: the bare text ended before it.
    BeginsKey,
    /// One of two where one would do.
    IsTwice,
}

impl Repair {
    /// What the quote at hand is, by what comes behind it.
    pub(super) fn judge(&self, text: &mut Text) -> Quote {
        let behind = self.at + 1;
        if text.doubled && self.char_at(behind) == Some(text.close) {
            return Quote::IsTwice;
        }
        let (open, close) = (text.open, text.close);
        let is_quote = |c: char| c == close || c == open;
        if text.bare && text.place == Place::Member {
            let quote = (behind..self.chars.len()).find(|&at| is_quote(self.chars[at]));
            let is_key = quote.is_some_and(|quote| self.next_solid(quote + 1) == Some(':'));
            return if is_key { Quote::BeginsKey } else { Quote::Closes };
        }
        if text.unmatched {
            return Quote::IsPart;
        }
        let stop = self.stop_behind(text, behind);
        match self.char_at(stop) {
            Some(',') if text.place == Place::Member => {
                let quote = self.find(stop + 1, text.close);
                let closed = matches!(self.next_solid(quote + 1), Some('}' | ','));
                if closed { Quote::IsPart } else { Quote::Closes }
            }
            Some(c) if c == text.close && self.char_at(stop - 1) != Some('\\') => self.judge_pair(text, stop),
            Some(_) | None => Quote::Closes,
        }
    }

    /// The next quote, or a sign that would go on with what is around the text.
    fn stop_behind(&self, text: &Text, from: usize) -> usize {
        let (key, member, item) =
            (self.within(Place::Key), self.within(Place::Member), self.within(Place::Item));
        let mut letters = false;
        for at in from..self.chars.len() {
            let c = self.chars[at];
            letters |= c.is_alphabetic();
            let stops = match c {
                ':' => key,
                '}' => key || member,
                ']' => item,
                ',' => item || text.place == Place::Member && !letters,
                c => c == text.close || c == text.open,
            };
            if stops {
                return at;
            }
        }
        self.chars.len()
    }

    /// What the quote at hand is, when the next sign of note is the quote at `second`.
    fn judge_pair(&self, text: &mut Text, second: usize) -> Quote {
        let member_follows = text.place == Place::Member && self.member_follows(second);
        if self.behind_blanks(self.at + 1) >= second && !member_follows {
            return Quote::Closes;
        }
        match text.place {
            Place::Key => Quote::IsPart,
            Place::Member if member_follows => Quote::IsPart,
            Place::Member => {
                // The two are a pair in the text, unless a key is what the second begins.
                let third = self.find(second + 1, text.close);
                let end = self.find_any(third + 1, &[':', ',', ']', '}', text.close]);
                if self.char_at(end) == Some(':') { Quote::Closes } else { Quote::OpensPart }
            }
            Place::Item => {
                // The rest of the list is in pairs when an odd number is left: the last one closes.
                let left = self.quotes_left(text, second);
                if left.is_multiple_of(2) { Quote::OpensPart } else { Quote::Closes }
            }
        }
    }

    /// How many quotes there are from the one at `first` to the end of the list.
    fn quotes_left(&self, text: &mut Text, first: usize) -> usize {
        let next = |at: usize| self.find_any(at + 1, &[text.close, ']']);
        // Each quote of a text may ask: they are counted once, and then only those that are passed.
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
