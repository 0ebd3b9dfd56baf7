//! Splits text into lines as Python's `str.splitlines` does, since pasted text uses many line ends.

/// True for a character that ends a line. `\r\n` is one line end.
pub const fn is_line_end(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}' | '\u{1d}' | '\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// Iterates over the lines of a text, each with its line end (empty for a last line without one). No empty
/// line follows the last line end.
pub fn lines_with_ends(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let at = rest.find(is_line_end).unwrap_or(rest.len());
        let (line, after) = rest.split_at(at);
        let end = if after.starts_with("\r\n") { 2 } else { after.chars().next().map_or(0, char::len_utf8) };
        let (end, after) = after.split_at(end);
        rest = after;
        Some((line, end))
    })
}

/// Iterates over the lines of a text, without their line ends.
pub fn split_lines(text: &str) -> impl Iterator<Item = &str> {
    lines_with_ends(text).map(|(line, _)| line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_python_ends_them() {
        for (text, lines) in [
            ("", vec![]),
            ("\n", vec![""]),
            ("a", vec!["a"]),
            ("a\r\nb\rc\n\nd\n", vec!["a", "b", "c", "", "d"]),
            (
                "a\u{b}b\u{c}c\u{1c}d\u{1d}e\u{1e}f\u{85}g\u{2028}h\u{2029}",
                vec!["a", "b", "c", "d", "e", "f", "g", "h"],
            ),
            ("a\u{1f}b", vec!["a\u{1f}b"]),
        ] {
            assert_eq!(split_lines(text).collect::<Vec<_>>(), lines, "{text:?}");
        }
        assert_eq!(lines_with_ends("a\r\nb").collect::<Vec<_>>(), [("a", "\r\n"), ("b", "")]);
    }
}
