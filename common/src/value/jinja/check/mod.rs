//! Whether a template is one to Jinja2, and if not, Jinja2's words for what is wrong with it.
//!
//! minijinja takes a few things that Jinja2 refuses, and words its complaints differently. This reads a template as
//! Jinja2 does and keeps nothing of it.

mod expressions;
mod lexer;
mod statements;

use self::lexer::{Kind, Token};

/// How deep expressions and blocks may nest to be read; what is deeper is left to minijinja, which has limits of its own.
const DEPTH_MAX: usize = 70;

/// Jinja2's complaint about the template, if it has one.
pub(super) fn complaint(source: &str) -> Option<String> {
    let source = source.strip_suffix('\n').unwrap_or(source);
    let mut parser =
        Parser { tokens: lexer::tokens(source), at: 0, depth: 0, tags: Vec::new(), ends: Vec::new() };
    match parser.current().and_then(|_| parser.body(None)) {
        Ok(()) | Err(Stop::TooDeep) => None,
        Err(Stop::Wrong(message)) => Some(message),
    }
}

/// Why reading stopped.
enum Stop {
    Wrong(String),
    TooDeep,
}

fn wrong<T>(message: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Wrong(message.into()))
}

/// Where the reading is: at a token, within blocks.
struct Parser<'s> {
    tokens: Vec<Token<'s>>,
    at: usize,
    depth: usize,
    /// Names of the tags around, innermost last.
    tags: Vec<&'s str>,
    /// The tags that may end the blocks around, innermost last.
    ends: Vec<&'static [&'static str]>,
}

impl<'s> Parser<'s> {
    /// The token at hand. The last one, which is the template's end or a mistake in it, stays at hand for good.
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
        // Jinja2 has always read one token ahead, and so meets a mistake there first.
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

    /// Reads something that may hold things like itself.
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
