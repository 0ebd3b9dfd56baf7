//! Escapes, and backslashes that are not escapes.

use super::super::Repair;
use super::super::ahead::closer;
use super::Text;

impl Repair {
    /// Reads the escape whose backslash was just read; returns false when it is not an escape.
    pub(super) fn escape(&mut self, text: &mut Text) -> bool {
        let Some(c) = self.peek() else { return false };
        if c == '\\' && self.halve_backslashes(text) {
            return true;
        }
        let meant = match c {
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'b' => '\u{8}',
            'u' | 'x' => return self.hex_escape(text, if c == 'u' { 4 } else { 2 }),
            '\\' => '\\',
            c if c == text.close || closer(c).is_some() => c,
            _ => return false,
        };
        text.content.pop();
        text.push(meant);
        self.at += 1;
        while text.ends_with('\\')
            && let Some(next) = self.peek().filter(|c| *c == '\\' || *c == text.close)
        {
            text.content.pop();
            text.push(next);
            self.at += 1;
        }
        true
    }

    /// Replaces pairs of backslashes by single ones, unless a quote after them was meant to be escaped.
    fn halve_backslashes(&mut self, text: &mut Text) -> bool {
        let from = self.at - 1;
        let run = self.chars[from..].iter().take_while(|c| **c == '\\').count();
        let end = from + run;
        let escapes = self.char_at(end) == Some(text.close)
            && !matches!(self.next_solid(end + 1), Some(',' | ':' | '}' | ']') | None);
        if !run.is_multiple_of(2) || escapes {
            return false;
        }
        text.content.pop();
        text.content.extend(std::iter::repeat_n('\\', run / 2));
        self.at = end;
        true
    }

    /// Reads `\u12ab` and `\x1b`. A surrogate pair is read at once.
    fn hex_escape(&mut self, text: &mut Text, digits: usize) -> bool {
        let Some(code) = self.hex(self.at + 1, digits) else { return false };
        text.content.pop();
        self.at += 1 + digits;
        let low = (self.char_at(self.at) == Some('\\') && self.char_at(self.at + 1) == Some('u'))
            .then(|| self.hex(self.at + 2, 4))
            .flatten();
        let c = match (code, low) {
            (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
                self.at += 6;
                char::from_u32(0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00))
            }
            _ => char::from_u32(code),
        };
        text.push(c.unwrap_or(char::REPLACEMENT_CHARACTER));
        true
    }

    fn hex(&self, at: usize, digits: usize) -> Option<u32> {
        let digits = self.chars.get(at..at + digits)?;
        digits.iter().try_fold(0, |code, c| Some(code * 16 + c.to_digit(16)?))
    }
}
