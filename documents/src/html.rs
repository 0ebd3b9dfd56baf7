//! The text of an HTML page, one line per block. Also works for pages that are not well formed.

use super::Page;

/// Elements that begin a new line.
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

/// Returns the non-empty lines of the page, with white space collapsed as browsers do it.
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
        // A `<` that begins no tag is text.
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

/// Returns the page with its title and author.
pub(crate) fn page(source: &str) -> Page {
    // Only ASCII letters change, so positions are the same in both texts.
    let lower = source.to_ascii_lowercase();
    let title = element(&lower, "title").map_or(String::new(), |inside| text(&source[inside]));
    let main = ["article", "main", "body"].iter().find_map(|name| element(&lower, name));
    let shown = text(main.map_or(source, |inside| &source[inside]));
    Page { title, author: author(source, &lower), text: shown }
}

/// Returns the range between the first start tag of an element and its last end tag.
fn element(lower: &str, name: &str) -> Option<std::ops::Range<usize>> {
    let begins = lower.match_indices(&format!("<{name}")).find(|(at, tag)| {
        lower[at + tag.len()..].starts_with(|c: char| c == '>' || c.is_ascii_whitespace())
    })?;
    let from = begins.0 + lower[begins.0..].find('>')? + 1;
    let end = format!("</{name}");
    let until = if name == "title" { lower[from..].find(&end) } else { lower[from..].rfind(&end) };
    Some(from..until.map_or(lower.len(), |at| from + at))
}

fn author(source: &str, lower: &str) -> String {
    let metas = lower.match_indices("<meta").filter_map(|(at, _)| {
        let end = at + lower[at..].find('>')?;
        Some((&lower[at..end], &source[at..end]))
    });
    let mut of_author = metas.filter(|(tag, _)| {
        ["name=\"author\"", "name='author'", "name=author"].iter().any(|name| tag.contains(name))
    });
    let content = of_author.find_map(|(tag, shown)| {
        let from = tag.find("content=")? + "content=".len();
        let quote = shown[from..].chars().next().filter(|c| matches!(c, '"' | '\''))?;
        shown[from + 1..].split(quote).next()
    });
    let mut name = String::new();
    push_words(&mut name, content.unwrap_or_default());
    name.trim().to_owned()
}

/// Appends text, with each run of white space as one space.
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
        // No supported name is longer. An `&` without an end is text.
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

/// Returns the character of an entity name (between `&` and `;`). Knows only the common names.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_gives_its_title_its_author_and_the_text_of_its_main_part() {
        let whole = "<!DOCTYPE html><HTML><head><TITLE>Wood &amp; Water</TITLE><meta name=\"author\" content=\"A. &amp; B.\">\
                     </head><body><nav>Home</nav><Main class=x><h1>Wood</h1><p>It\n floats.</p></Main><footer>©</footer></body></HTML>";
        for (source, title, author, text) in [
            (whole, "Wood & Water", "A. & B.", "Wood\nIt floats."),
            ("<body><p>a<script>b</script></p></body>", "", "", "a"),
            ("<article>one</article> <article>two</article><p>no</p>", "", "", "one\ntwo"),
            ("plain İ text <mainly", "", "", "plain İ text"),
            ("<title>open", "open", "", "open"),
            ("<meta name=author content='x'", "", "", ""),
            ("", "", "", ""),
        ] {
            let page = page(source);
            let found = (page.title.as_str(), page.author.as_str(), page.text.as_str());
            assert_eq!(found, (title, author, text), "{source}");
        }
    }
}
