//! Checks whether Jinja2 accepts a template, and returns Jinja2's error if not.
//!
//! minijinja accepts some templates that Jinja2 refuses, and words its errors differently. This check parses
//! a template as Jinja2 does and builds nothing.

mod expressions;
mod lexer;
mod statements;

use self::lexer::{Kind, Token};

/// Deepest nesting of expressions and blocks that is checked; minijinja has its own limits for deeper ones.
const DEPTH_MAX: usize = 70;

/// Returns Jinja2's error for the template, if it has one.
pub(super) fn complaint(source: &str) -> Option<String> {
    let source = source.strip_suffix('\n').unwrap_or(source);
    let mut parser =
        Parser { tokens: lexer::tokens(source), at: 0, depth: 0, tags: Vec::new(), ends: Vec::new() };
    match parser.current().and_then(|_| parser.body(None)) {
        Ok(()) | Err(Stop::TooDeep) => None,
        Err(Stop::Wrong(message)) => Some(message),
    }
}

/// The reason why parsing stopped.
enum Stop {
    Wrong(String),
    TooDeep,
}

fn wrong<T>(message: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Wrong(message.into()))
}

/// The state of the parser: the current token and the enclosing blocks.
struct Parser<'s> {
    tokens: Vec<Token<'s>>,
    at: usize,
    depth: usize,
    /// Names of the enclosing tags, innermost last.
    tags: Vec<&'s str>,
    /// The tags that may end the enclosing blocks, innermost last.
    ends: Vec<&'static [&'static str]>,
}

impl<'s> Parser<'s> {
    /// Returns the current token. The last token (the template's end or an error) stays current.
    fn current(&self) -> Result<Token<'s>, Stop> {
        let token = self.tokens.get(self.at).or(self.tokens.last());
        match token {
            Some(Token { kind: Kind::Mistake(message), .. }) => wrong(message.clone()),
            Some(token) => Ok(token.clone()),
            None => Ok(Token { kind: Kind::End, text: "" }),
        }
    }
    fn following(&self) -> Option<&Token<'s>> {
        self.tokens.get(self.at + 1)
    }
    fn next(&mut self) -> Result<Token<'s>, Stop> {
        let token = self.current()?;
        self.at += 1;
        // Jinja2 always reads one token ahead, and so reports an error there first.
        self.current()?;
        Ok(token)
    }
    fn sees(&self, kind: &Kind) -> Result<bool, Stop> {
        Ok(self.current()?.kind == *kind)
    }
    fn sees_sign(&self, sign: &str) -> Result<bool, Stop> {
        Ok(self.current()?.is_sign(sign))
    }
    fn sees_name(&self, name: &str) -> Result<bool, Stop> {
        Ok(self.current()?.is_name(name))
    }
    fn skip_sign(&mut self, sign: &str) -> Result<bool, Stop> {
        let seen = self.sees_sign(sign)?;
        if seen {
            self.next()?;
        }
        Ok(seen)
    }
    fn skip_name(&mut self, name: &str) -> Result<bool, Stop> {
        let seen = self.sees_name(name)?;
        if seen {
            self.next()?;
        }
        Ok(seen)
    }
    fn expect(&mut self, fits: impl Fn(&Token<'s>) -> bool, wanted: &str) -> Result<Token<'s>, Stop> {
        let token = self.current()?;
        match token.kind {
            _ if fits(&token) => self.next(),
            Kind::End => wrong(format!("unexpected end of template, expected '{wanted}'.")),
            _ => wrong(format!("expected token '{wanted}', got '{}'", token.shown())),
        }
    }
    fn expect_sign(&mut self, sign: &str) -> Result<Token<'s>, Stop> {
        self.expect(|token| token.is_sign(sign), sign)
    }
    fn expect_name(&mut self) -> Result<Token<'s>, Stop> {
        self.expect(|token| token.kind == Kind::Name, "name")
    }
    fn expect_word(&mut self, word: &str) -> Result<Token<'s>, Stop> {
        self.expect(|token| token.is_name(word), word)
    }

    /// Parses a construct that may contain itself; the depth is limited.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Stop::TooDeep);
        }
        let read = read(self);
        self.depth -= 1;
        read
    }
}
