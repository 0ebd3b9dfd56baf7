//! Java properties: one `key: value` per line.

/// Returns the lines; comments and empty lines stay where they are.
pub(crate) fn extract(text: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    let breaks = ['\n', '\r', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\u{85}', '\u{2028}', '\u{2029}'];
    // `\r\n` is one line break. A break at the end does not begin another line.
    let text = text.replace("\r\n", "\n");
    let text = text.strip_suffix(breaks).unwrap_or(&text);
    for line in text.split(breaks) {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '!']) {
            out.push(line.to_owned());
            continue;
        }
        let (key, value) = line.split_once('=').or_else(|| line.split_once(':')).unwrap_or((line, ""));
        out.push(format!("{}: {}", key.trim(), value.trim()));
    }
    out.join("\n")
}
