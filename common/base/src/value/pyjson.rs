//! Reads JSON as Python's `json.loads` does: the same values and the same error messages.
//!
//! Dify shows the messages to users, so a workflow may compare them. `serde_json` reads the text; only a text
//! that it refuses is scanned again here, for the message. The messages are those of Python 3.13.

use serde_json::Value as Json;

/// Deepest nesting that is read. Python allows more, but no value may be deeper than `serde_json` allows.
const DEPTH_MAX: usize = 128;
const SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// Parses a JSON text.
///
/// # Errors
/// Python's message, such as `Expecting value: line 1 column 1 (char 0)`. A text that Python reads but JSON
/// cannot hold (`NaN`, numbers out of range, half a surrogate pair) is refused with our own message.
pub fn loads(text: &str) -> Result<Json, String> {
    serde_json::from_str(text).map_err(|_| match (Scanner { text, at: 0 }).document() {
        Err(Wrong::At(what, byte)) => at(what, text, byte),
        Err(Wrong::TooDeep) => "maximum recursion depth exceeded while decoding JSON".into(),
        Ok(()) => "the JSON text has a number or a character that cannot be stored".into(),
    })
}

/// Formats an error position as Python does; positions count characters, not bytes.
pub fn at(what: &str, text: &str, byte: usize) -> String {
    let before = &text[..byte];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("{what}: line {line} column {column} (char {})", before.chars().count())
}

enum Wrong {
    /// The message and the byte position.
    At(&'static str, usize),
    TooDeep,
}

/// Scans a text for the first error and builds no value.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), Wrong> {
        if self.text.starts_with('\u{feff}') {
            return Err(Wrong::At("Unexpected UTF-8 BOM (decode using utf-8-sig)", 0));
        }
        self.space();
        self.value(DEPTH_MAX)?;
        self.space();
        if self.at < self.text.len() { self.wrong("Extra data") } else { Ok(()) }
    }

    // The recursion is bounded by `depth`.
    fn value(&mut self, depth: usize) -> Result<(), Wrong> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'[') => self.list(depth.checked_sub(1).ok_or(Wrong::TooDeep)?),
            Some(b'{') => self.object(depth.checked_sub(1).ok_or(Wrong::TooDeep)?),
            Some(_) | None => self.word_or_number(),
        }
    }

    fn list(&mut self, depth: usize) -> Result<(), Wrong> {
        self.at += 1;
        self.space();
        if self.take(b']') {
            return Ok(());
        }
        loop {
            self.value(depth)?;
            if self.ends(b']', "Illegal trailing comma before end of array")? {
                return Ok(());
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), Wrong> {
        self.at += 1;
        self.space();
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.wrong("Expecting property name enclosed in double quotes");
            }
            self.string()?;
            self.space();
            if !self.take(b':') {
                return self.wrong("Expecting ':' delimiter");
            }
            self.space();
            self.value(depth)?;
            if self.ends(b'}', "Illegal trailing comma before end of object")? {
                return Ok(());
            }
        }
    }

    /// Returns true at the closing bracket after an item, and false after a comma that another item follows.
    fn ends(&mut self, bracket: u8, trailing: &'static str) -> Result<bool, Wrong> {
        self.space();
        if self.take(bracket) {
            return Ok(true);
        }
        let comma = self.at;
        if !self.take(b',') {
            return Err(Wrong::At("Expecting ',' delimiter", comma));
        }
        self.space();
        if self.peek() == Some(bracket) { Err(Wrong::At(trailing, comma)) } else { Ok(false) }
    }

    fn string(&mut self) -> Result<(), Wrong> {
        let begin = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(Wrong::At("Unterminated string starting at", begin)),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape(begin)?,
                Some(0..0x20) => return self.wrong("Invalid control character at"),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self, begin: usize) -> Result<(), Wrong> {
        let rest = &self.text.as_bytes()[self.at + 1..];
        match rest.first() {
            None => Err(Wrong::At("Unterminated string starting at", begin)),
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            // Python needs one more character after the four digits: at least the quote.
            Some(b'u') if rest.len() > 5 && rest[1..5].iter().all(u8::is_ascii_hexdigit) => {
                self.at += 6;
                Ok(())
            }
            Some(b'u') => Err(Wrong::At("Invalid \\uXXXX escape", self.at + 1)),
            Some(_) => self.wrong("Invalid \\escape"),
        }
    }

    fn word_or_number(&mut self) -> Result<(), Wrong> {
        let rest = &self.text[self.at..];
        let words = ["null", "true", "false", "NaN", "Infinity", "-Infinity"];
        let length = words.iter().find(|word| rest.starts_with(**word)).map(|word| word.len());
        match length.or_else(|| number(rest)) {
            Some(length) => {
                self.at += length;
                Ok(())
            }
            None => self.wrong("Expecting value"),
        }
    }

    fn wrong<T>(&self, what: &'static str) -> Result<T, Wrong> {
        Err(Wrong::At(what, self.at))
    }
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }
    fn space(&mut self) {
        self.at = self.text.len() - self.text[self.at..].trim_start_matches(SPACE).len();
    }
}

/// Returns the length of the number at the beginning of a text.
fn number(text: &str) -> Option<usize> {
    let digits = |from: usize| text.as_bytes()[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = usize::from(text.starts_with('-'));
    end += match digits(end) {
        0 => return None,
        _ if text[end..].starts_with('0') => 1,
        many => many,
    };
    if text[end..].starts_with('.') && digits(end + 1) > 0 {
        end += 1 + digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let many = digits(end + 1 + sign);
        end += if many > 0 { 1 + sign + many } else { 0 };
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_have_the_messages_of_python() {
        for (text, message) in [
            ("", "Expecting value: line 1 column 1 (char 0)"),
            ("abc", "Expecting value: line 1 column 1 (char 0)"),
            (" \n é", "Expecting value: line 2 column 2 (char 3)"),
            ("[", "Expecting value: line 1 column 2 (char 1)"),
            ("['a']", "Expecting value: line 1 column 2 (char 1)"),
            ("[1, x]", "Expecting value: line 1 column 5 (char 4)"),
            ("[1", "Expecting ',' delimiter: line 1 column 3 (char 2)"),
            ("[1 2]", "Expecting ',' delimiter: line 1 column 4 (char 3)"),
            ("[1, ]", "Illegal trailing comma before end of array: line 1 column 3 (char 2)"),
            ("{\"a\": 1,}", "Illegal trailing comma before end of object: line 1 column 8 (char 7)"),
            ("{a: 1}", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
            ("{\"a\" 1}", "Expecting ':' delimiter: line 1 column 6 (char 5)"),
            ("[\"é", "Unterminated string starting at: line 1 column 2 (char 1)"),
            ("\"é\u{1}\"", "Invalid control character at: line 1 column 3 (char 2)"),
            ("\"\\x\"", "Invalid \\escape: line 1 column 2 (char 1)"),
            ("\"\\u12g4\"", "Invalid \\uXXXX escape: line 1 column 3 (char 2)"),
            ("01", "Extra data: line 1 column 2 (char 1)"),
            ("[] []", "Extra data: line 1 column 4 (char 3)"),
            ("\u{feff}1", "Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0)"),
        ] {
            assert_eq!(loads(text), Err(message.into()), "{text:?}");
        }
    }

    #[test]
    fn texts_that_python_reads_are_read_unless_json_cannot_store_them() {
        assert_eq!(loads(" {\"a\": [1, null]} "), Ok(json!({"a": [1, null]})));
        for text in ["NaN", "[-Infinity]", "1e999", "\"\\ud800\""] {
            assert!(loads(text).is_err_and(|message| message.contains("cannot be stored")), "{text}");
        }
        assert!(loads(&"[".repeat(100_000)).is_err_and(|message| message.contains("recursion")));
    }
}
