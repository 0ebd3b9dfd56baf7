//! The text of a page of HTML, well formed or not: one line a block.

/// Elements that begin a line.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "td",
    "th",
    "tr",
    "ul",
    "body",
    "title",
];
/// Elements whose content is not shown.
const HIDDEN: &[&str] = &["script", "style", "head", "template"];

/// The lines of the page, white space within them as it is shown, none empty.
pub(crate) fn text(source: &str) -> String {
    let mut out = String::new();
    let mut rest = source;
    let mut hidden: Option<&'static str> = None;
    while let Some(at) = rest.find('<') {
        if hidden.is_none() {
            push_words(&mut out, &rest[..at]);
        }
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.split_once("-->").map_or("", |(_, behind)| behind);
            continue;
        }
        let Some((tag, behind)) = rest[1..].split_once('>') else {
            rest = "";
            break;
        };
        // A sign that begins no tag is text.
        if !tag.starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c)) {
            if hidden.is_none() {
                out.push('<');
            }
            rest = &rest[1..];
            continue;
        }
        rest = behind;
        let closes = tag.starts_with('/');
        let name = tag.trim_start_matches('/');
        let name = name.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or_default();
        let name = name.rsplit(':').next().unwrap_or_default().to_ascii_lowercase();
        match (hidden, HIDDEN.iter().find(|known| **known == name)) {
            (None, Some(known)) if !closes && !tag.ends_with('/') => hidden = Some(known),
            (Some(open), Some(known)) if closes && open == *known => hidden = None,
            (None | Some(_), None | Some(_)) => {}
        }
        if BLOCKS.contains(&name.as_str()) {
            out.push('\n');
        }
    }
    if hidden.is_none() {
        push_words(&mut out, rest);
    }
    let lines: Vec<&str> = out.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

/// Adds text with runs of white space as one blank.
fn push_words(out: &mut String, text: &str) {
    for c in unescaped(text).chars() {
        match c.is_whitespace() && c != '\u{a0}' {
            true if out.ends_with([' ', '\n']) => {}
            true => out.push(' '),
            false => out.push(c),
        }
    }
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        // No name is longer; a sign without an end is text.
        let end = rest.bytes().take(12).position(|byte| byte == b';');
        let known = end.and_then(|end| entity(rest.get(..end)?).map(|c| (c, end)));
        match known {
            Some((c, end)) => {
                out.push(c);
                rest = &rest[end + 1..];
            }
            None => out.push('&'),
        }
    }
    out.push_str(rest);
    out
}

/// The character of a name between `&` and `;`. Of names only the usual ones.
pub(crate) fn entity(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        return code.ok().and_then(char::from_u32);
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{a0}',
        "ndash" => '–',
        "mdash" => '—',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        "hellip" => '…',
        "copy" => '©',
        "reg" => '®',
        "trade" => '™',
        "bull" => '•',
        "middot" => '·',
        "euro" => '€',
        "laquo" => '«',
        "raquo" => '»',
        "shy" => '\u{ad}',
        _ => return None,
    })
}
