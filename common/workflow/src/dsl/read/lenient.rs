//! Rewrites what PyYAML takes, with which Dify reads files, and the parser does not: at the margin the further lines of a
//! quoted text, and lines inside brackets; comments right after a quoted text; and characters that are escaped as two halves (`\ud83e\udd16`), as in JSON.
//!
//! ```yaml
//! text: "one line
//! and the next"
//! list: [
//! 1
//! ]
//! ```
//!
//! Spaces at the beginning of such a line mean nothing in YAML, so the value stays the same, and so do line numbers.

use std::borrow::Cow;

/// Most bytes that are read again after a rewrite. Each place is found by a failed reading.
pub(super) const REREAD_BYTES_MAX: usize = 256 << 20;

/// Returns the text with the part rewritten that the parser refuses at this place (line from 1, column from 0, in
/// characters); `None` when nothing can be done about its error.
pub(super) fn rewritten(text: &str, error: &str, line: usize, column: usize) -> Option<String> {
    match error {
        "invalid indentation in quoted scalar" => quoted(text, line, column),
        // Outside of brackets these errors do not occur: a line less indented ends the block there.
        "invalid indentation" | "invalid indentation in flow construct" => in_brackets(text, line),
        "comments must be separated from other tokens by whitespace" => spaced(text, line, column),
        _ if error.ends_with("invalid Unicode character escape code") => whole_characters(text, line, column),
        _ => None,
    }
}

/// Indents all lines of the quoted text that begins at this place, except for its first one.
fn quoted(text: &str, line: usize, column: usize) -> Option<String> {
    let (from, to) = place_of_quoted(text, line, column)?;
    let mut changed = String::with_capacity(text.len() * 2);
    changed.push_str(&text[..from]);
    for (at, part) in text[from..to].split_inclusive('\n').enumerate() {
        let is_blank = part.trim().is_empty();
        changed.extend((0..column).filter(|_| at > 0 && !is_blank).map(|_| ' '));
        changed.push_str(part);
    }
    changed.push_str(&text[to..]);
    Some(changed)
}

/// Puts a space before the comment at this place.
fn spaced(text: &str, line: usize, column: usize) -> Option<String> {
    let at = offset_of_line(text, line)?;
    let at = at + text[at..].char_indices().nth(column)?.0;
    text[at..].starts_with('#').then(|| format!("{} {}", &text[..at], &text[at..]))
}

/// Indents one line deeper than the line before it.
fn in_brackets(text: &str, line: usize) -> Option<String> {
    let at = offset_of_line(text, line)?;
    let before = text[..at].lines().rev().find(|line| !line.trim().is_empty())?;
    let depth = before.len() - before.trim_start().len() + 1;
    Some(format!("{}{:depth$}{}", &text[..at], "", &text[at..]))
}

/// Escapes each pair of halves in the quoted text at this place as one character. Half a character alone stays.
fn whole_characters(text: &str, line: usize, column: usize) -> Option<String> {
    const PAIR: usize = r"\ud83e\udd16".len();
    let (from, to) = place_of_quoted(text, line, column)?;
    let mut rest = &text[from..to];
    let mut whole = String::with_capacity(rest.len());
    let mut is_changed = false;
    while let Some(at) = rest.find('\\') {
        whole.push_str(&rest[..at]);
        rest = &rest[at..];
        let (length, escape): (usize, Cow<'_, str>) = match character_of_halves(rest) {
            Some(character) => {
                is_changed = true;
                (PAIR, format!("\\U{:08x}", u32::from(character)).into())
            }
            None => {
                let length = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                (length, rest[..length].into())
            }
        };
        whole.push_str(&escape);
        rest = &rest[length..];
    }
    is_changed.then(|| format!("{}{whole}{rest}{}", &text[..from], &text[to..]))
}

/// Reads `\uD8xx\uDCxx` at the beginning of a text.
fn character_of_halves(text: &str) -> Option<char> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    char::decode_utf16([unit(0)?, unit(6)?]).next()?.ok().filter(|character| character.len_utf16() == 2)
}

/// Returns where the quoted text that begins at this place begins and ends.
fn place_of_quoted(text: &str, line: usize, column: usize) -> Option<(usize, usize)> {
    let from = offset_of_line(text, line)?;
    let from = from + text[from..].char_indices().nth(column)?.0;
    Some((from, from + end_of_quoted(&text[from..])?))
}

/// Returns the length of a quoted text that begins with its quote.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut letters = text.char_indices();
    let (_, quote) = letters.next()?;
    let mut escaped = false;
    for (at, letter) in letters {
        match letter {
            _ if escaped => escaped = false,
            '\\' if quote == '"' => escaped = true,
            // In single quotes two of them are one, and the text goes on after the second.
            '\'' if quote == '\'' && text[at + 1..].starts_with('\'') => escaped = true,
            _ if letter == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn offset_of_line(text: &str, line: usize) -> Option<usize> {
    match line.checked_sub(1)? {
        0 => Some(0),
        before => text.match_indices('\n').nth(before - 1).map(|(at, _)| at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_quoted_text_is_found() {
        for (text, end) in [
            (r#""a" b"#, Some(3)),
            (r#""a\" b" c"#, Some(7)),
            (r#""a\\" b"#, Some(5)),
            ("'a' b", Some(3)),
            ("'it''s' b", Some(7)),
            ("'' b", Some(2)),
            ("'a\\' b", Some(4)),
            ("\"é\n\" b", Some(5)),
            ("\"a", None),
        ] {
            assert_eq!(end_of_quoted(text), end, "{text}");
        }
    }

    #[test]
    fn only_the_refused_lines_are_indented() {
        let quoted = "a: \"x\n\ny\" \nb: 'c'\n";
        let error = "invalid indentation in quoted scalar";
        assert_eq!(rewritten(quoted, error, 1, 3).as_deref(), Some("a: \"x\n\n   y\" \nb: 'c'\n"));
        let list = "a:\n  b: [\n\n]\n";
        assert_eq!(rewritten(list, "invalid indentation", 4, 0).as_deref(), Some("a:\n  b: [\n\n   ]\n"));
        assert_eq!(rewritten(list, "another", 4, 0), None);
    }

    #[test]
    fn two_halves_of_a_character_become_one_escape() {
        let error = "while parsing a quoted scalar, found invalid Unicode character escape code";
        let text = r#"a: "\\ud83e \\\ud83e\uDD16 \"é\" \ud83e""#;
        let whole = r#"a: "\\ud83e \\\U0001f916 \"é\" \ud83e""#;
        assert_eq!(rewritten(text, error, 1, 3).as_deref(), Some(whole));
        assert_eq!(rewritten(r#"a: "\ud83e""#, error, 1, 3), None);
    }
}
