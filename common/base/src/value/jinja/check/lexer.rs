//! Splits a template into Jinja2's tokens, up to the first error.

use std::sync::LazyLock;

use regex::Regex;

use crate::value::pyrepr::repr_text;

/// The kind of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text between tags.
    Data,
    PrintBegin,
    PrintEnd,
    BlockBegin,
    BlockEnd,
    Name,
    Text,
    Integer,
    Fraction,
    Sign,
    /// The end of the template.
    End,
    /// Jinja2's error for characters that are not a token.
    Mistake(String),
}

#[derive(Debug, Clone)]
pub(super) struct Token<'s> {
    pub(super) kind: Kind,
    pub(super) text: &'s str,
}

impl Token<'_> {
    pub(super) fn is_sign(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }
    pub(super) fn is_name(&self, name: &str) -> bool {
        self.kind == Kind::Name && self.text == name
    }
    /// Returns Jinja2's name for the token.
    pub(super) fn shown(&self) -> &str {
        match &self.kind {
            Kind::Name | Kind::Sign => self.text,
            Kind::Data => "template data / text",
            Kind::PrintBegin => "begin of print statement",
            Kind::PrintEnd => "end of print statement",
            Kind::BlockBegin => "begin of statement block",
            Kind::BlockEnd => "end of statement block",
            Kind::Text => "string",
            Kind::Integer => "integer",
            Kind::Fraction => "float",
            Kind::End => "end of template",
            Kind::Mistake(message) => message,
        }
    }
}

#[expect(clippy::expect_used, reason = "the patterns are constants that the tests compile")]
fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is well formed")
}

static TAG: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\{%[-+]?\s*raw\s*-?%\}|\{%[-+]?|\{\{[-+]?|\{#[-+]?"));
static RAW_END: LazyLock<Regex> = LazyLock::new(|| pattern(r"\{%[-+]?\s*endraw\s*[-+]?%\}"));
static FRACTION: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)^(?:[0-9]+_)*[0-9]+(?:(?:\.(?:[0-9]+_)*[0-9]+)?e[+-]?(?:[0-9]+_)*[0-9]+|\.(?:[0-9]+_)*[0-9]+)",
    )
});
static INTEGER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)^(?:0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[0-9a-f])+|[1-9](?:_?[0-9])*|0(?:_?0)*)")
});
static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\w+"));
static TEXT: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(?s)^(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"#));
static SIGN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(?:\*\*|//|==|!=|<=|>=|[-+*/%~\[\](){}><=.:|,;])"));

/// Returns the tokens; the last one is the template's end or an error.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { source, at: 0, tokens: Vec::new() };
    let end = match lexer.read() {
        Ok(()) => Kind::End,
        Err(mistake) => Kind::Mistake(mistake),
    };
    lexer.push(end, "");
    lexer.tokens
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
    tokens: Vec<Token<'s>>,
}

impl<'s> Lexer<'s> {
    fn push(&mut self, kind: Kind, text: &'s str) {
        self.tokens.push(Token { kind, text });
    }

    fn read(&mut self) -> Result<(), String> {
        while let Some(tag) = TAG.find_at(self.source, self.at) {
            if tag.start() > self.at {
                self.push(Kind::Data, &self.source[self.at..tag.start()]);
            }
            self.at = tag.end();
            let rest = &self.source[self.at..];
            match tag.as_str() {
                raw if raw.ends_with("%}") => {
                    self.skip(RAW_END.find(rest).map(|m| m.end()), "raw directive")?
                }
                begin if begin.starts_with("{#") => {
                    self.skip(rest.find("#}").map(|at| at + 2), "comment tag")?;
                }
                begin => {
                    let block = begin.starts_with("{%");
                    self.push(if block { Kind::BlockBegin } else { Kind::PrintBegin }, begin);
                    self.inside(block)?;
                }
            }
        }
        if self.at < self.source.len() {
            self.push(Kind::Data, &self.source[self.at..]);
        }
        Ok(())
    }

    /// Skips a part that is not parsed. Jinja2 reports a missing end only when text is left.
    fn skip(&mut self, length: Option<usize>, what: &str) -> Result<(), String> {
        let rest = self.source.len() - self.at;
        self.at += match length {
            Some(length) => length,
            None if rest == 0 => 0,
            None => return Err(format!("Missing end of {what}")),
        };
        Ok(())
    }

    /// Reads the inside of a tag, up to its end or the template's end.
    fn inside(&mut self, block: bool) -> Result<(), String> {
        let (end, end_kind) = if block { ("%}", Kind::BlockEnd) } else { ("}}", Kind::PrintEnd) };
        let mut open = Vec::new();
        loop {
            let rest = &self.source[self.at..];
            self.at += rest.len() - rest.trim_start().len();
            let rest = rest.trim_start();
            if rest.is_empty() {
                return Ok(());
            }
            let bare = rest.strip_prefix('-').or(rest.strip_prefix('+').filter(|_| block)).unwrap_or(rest);
            if let Some(text) = open.is_empty().then(|| bare.strip_prefix(end)).flatten() {
                self.at = self.source.len() - text.len();
                self.push(end_kind, end);
                return Ok(());
            }
            let (kind, text) = self.token(rest)?;
            match text.chars().next() {
                Some('(') => open.push(')'),
                Some('[') => open.push(']'),
                Some('{') => open.push('}'),
                Some(')' | ']' | '}') => match open.pop() {
                    Some(expected) if text.starts_with(expected) => {}
                    Some(expected) => return Err(format!("unexpected '{text}', expected '{expected}'")),
                    None => return Err(format!("unexpected '{text}'")),
                },
                _ => {}
            }
            self.push(kind, text);
            self.at += text.len();
        }
    }

    fn token(&self, rest: &'s str) -> Result<(Kind, &'s str), String> {
        let after_dot = self.source[..self.at].ends_with('.');
        let fraction = if after_dot { None } else { FRACTION.find(rest) };
        let found = fraction
            .map(|m| (Kind::Fraction, m))
            .or_else(|| INTEGER.find(rest).map(|m| (Kind::Integer, m)))
            .or_else(|| NAME.find(rest).map(|m| (Kind::Name, m)))
            .or_else(|| TEXT.find(rest).map(|m| (Kind::Text, m)))
            .or_else(|| SIGN.find(rest).map(|m| (Kind::Sign, m)));
        match (found, rest.chars().next()) {
            (Some((kind, found)), _) => Ok((kind, found.as_str())),
            (None, first) => {
                let shown = repr_text(&first.unwrap_or_default().to_string());
                Err(format!("unexpected char {shown} at {}", self.source[..self.at].chars().count()))
            }
        }
    }
}
