//! Finds a template's tags, and splits them into tokens as Jinja2 does.

/// Most tokens of one expression without a comma.
pub(super) const CHAIN_MAX: usize = 600;

/// Returns the position of the next `{{`, `{%` or `{#`.
pub(super) fn next_tag(text: &str) -> Option<usize> {
    text.match_indices('{')
        .map(|(at, _)| at)
        .find(|at| matches!(text.as_bytes().get(at + 1), Some(b'{' | b'%' | b'#')))
}

/// Returns the length of the whole raw block, when one begins here.
pub(super) fn raw_block(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("{%")?;
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner).trim_start().strip_prefix("raw")?;
    let inner = inner.trim_start();
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner).strip_prefix("%}")?;
    let mut at = text.len() - inner.len();
    loop {
        at += text[at..].find("{%")? + 2;
        let end = text[at..].trim_start_matches(['-', '+']).trim_start();
        if let Some(end) = end.strip_prefix("endraw") {
            let end = end.trim_start();
            let end = end.strip_prefix(['-', '+']).unwrap_or(end).strip_prefix("%}")?;
            return Some(text.len() - end.len());
        }
    }
}

/// The kind of a token.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Text,
    Number,
    Name,
    Open,
    Close,
    Sign,
}

/// A token within a tag.
#[derive(Clone, Copy)]
pub(super) struct Token<'s> {
    pub(super) kind: Kind,
    /// White space before the token.
    pub(super) space: &'s str,
    pub(super) text: &'s str,
    /// Its end, as an offset inside the tag.
    pub(super) end: usize,
}

/// Returns the tokens of a tag and its length including the end mark; `None` when the tag has no end. Sets
/// `too_long` when an expression is longer than [`CHAIN_MAX`].
pub(super) fn tokens<'s>(text: &'s str, end: &str, too_long: &mut bool) -> Option<(Vec<Token<'s>>, usize)> {
    let mut tokens = Vec::new();
    let mut open = 0_usize;
    // The number of tokens since the last comma, for every open bracket.
    let mut chains = vec![0];
    let mut at = 0;
    loop {
        let space_length = text[at..].len() - text[at..].trim_start().len();
        let (space, rest) = text[at..].split_at(space_length);
        if open == 0
            && (rest.starts_with(end) || rest.strip_prefix(['-', '+']).is_some_and(|r| r.starts_with(end)))
        {
            let mark = usize::from(!rest.starts_with(end));
            return Some((tokens, at + space_length + mark + end.len()));
        }
        let first = rest.chars().next()?;
        let (kind, length) = match first {
            '"' | '\'' => (Kind::Text, text_length(rest, first)?),
            '0'..='9' => (Kind::Number, number_length(rest)),
            '(' | '[' | '{' => (Kind::Open, 1),
            ')' | ']' | '}' => (Kind::Close, 1),
            c if c == '_' || c.is_alphanumeric() => {
                (Kind::Name, rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len()))
            }
            _ => {
                let double = ["**", "//", "==", "!=", "<=", ">="].iter().any(|sign| rest.starts_with(sign));
                (Kind::Sign, if double { 2 } else { first.len_utf8() })
            }
        };
        match kind {
            Kind::Open => {
                open += 1;
                chains.push(0);
            }
            Kind::Close => {
                open = open.checked_sub(1)?;
                chains.pop();
            }
            Kind::Text | Kind::Number | Kind::Name | Kind::Sign => {}
        }
        let chain = chains.last_mut()?;
        *chain = if rest.starts_with([',', ':']) { 0 } else { *chain + 1 };
        *too_long |= *chain > CHAIN_MAX;
        at += space_length + length;
        tokens.push(Token { kind, space, text: &rest[..length], end: at });
    }
}

fn text_length(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        let digit_next = bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        match bytes[at] {
            b'.' if digit_next => at += 1,
            b'+' | b'-' if matches!(bytes[at - 1], b'e' | b'E') && digit_next && !text.starts_with("0x") => {
                at += 1
            }
            b if b.is_ascii_alphanumeric() || b == b'_' => at += 1,
            _ => break,
        }
    }
    at
}
