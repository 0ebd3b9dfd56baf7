//! The parameters of a header such as `Content-Type` or `Content-Disposition`, as Python's mail parser reads them, which
//! Dify uses.

/// The value before the parameters, and the parameters in order: names in lower case, values without quotes.
pub fn split(header: &str) -> (String, Vec<(String, String)>) {
    let mut parts = parts(header).into_iter();
    let value = parts.next().unwrap_or_default().trim().to_owned();
    let pair = |part: String| {
        let (name, value) = part.split_once('=')?;
        Some((name.trim().to_lowercase(), unquoted(value.trim())))
    };
    (value, parts.filter_map(pair).collect())
}

/// The header at each `;` that is not inside quotes.
fn parts(header: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut quoted, mut escaped) = (false, false);
    for c in header.chars() {
        let is_end = c == ';' && !quoted;
        match parts.last_mut() {
            Some(part) if !is_end => part.push(c),
            Some(_) | None => parts.push(String::new()),
        }
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && c == '\\' && !escaped;
    }
    parts
}

/// Python removes one pair of quotes or of angle brackets. A backslash escapes only itself and a quote, so that a path
/// of Windows stays readable.
fn unquoted(value: &str) -> String {
    let between = |open: char, close: char| value.strip_prefix(open)?.strip_suffix(close);
    match (between('"', '"'), between('<', '>')) {
        (Some(inner), _) => inner.replace("\\\\", "\\").replace("\\\"", "\""),
        (None, Some(inner)) => inner.to_owned(),
        (None, None) => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_without_their_quotes() {
        for (header, value, parameters) in [
            ("text/plain", "text/plain", &[][..]),
            ("text/plain ; Charset = \"GBK\"; x=1", "text/plain", &[("charset", "GBK"), ("x", "1")]),
            ("a; b=\"c; d=e\"; f=<g>", "a", &[("b", "c; d=e"), ("f", "g")]),
            ("a; ; x; b=", "a", &[("b", "")]),
            (
                r#"a; b="x\"y;z"; c="C:\tmp\a.txt"; d="\\\\s\\f""#,
                "a",
                &[("b", "x\"y;z"), ("c", r"C:\tmp\a.txt"), ("d", r"\\s\f")],
            ),
            ("a; b=\"open", "a", &[("b", "\"open")]),
            ("; b=c", "", &[("b", "c")]),
        ] {
            let (read, pairs) = split(header);
            let pairs: Vec<(&str, &str)> = pairs.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!((read.as_str(), pairs.as_slice()), (value, parameters), "{header}");
        }
    }
}
