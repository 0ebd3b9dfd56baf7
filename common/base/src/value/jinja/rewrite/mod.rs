//! Turns arithmetic into function calls before minijinja parses a template: `a ~ b` becomes `__cat(a,b)`.
//!
//! minijinja's own operators do not support `'%s' % x`, print floats differently, and can double a text
//! without any limit. With calls, `ops` implements them. In templates whose methods change values, list and
//! object literals also become calls, into `mutable`.
//!
//! The pass parses only what it needs. It leaves what it does not understand unchanged, and minijinja reports
//! the error.

use std::borrow::Cow;

use super::tokens::{CHAIN_MAX, Kind, Token, next_tag, raw_block, tokens};

/// Deepest nesting of brackets that the pass follows; minijinja refuses deeper ones anyway.
const DEPTH_MAX: usize = 60;
/// Words between operands that are not operands.
const WORDS: [&str; 8] = ["if", "else", "elif", "and", "or", "not", "in", "is"];
/// Methods that change their object.
const CHANGES: [&str; 11] = [
    ".append(",
    ".extend(",
    ".insert(",
    ".pop(",
    ".remove(",
    ".clear(",
    ".update(",
    ".setdefault(",
    ".popitem(",
    ".sort(",
    ".reverse(",
];

/// True when the template calls methods that change lists or objects.
pub(super) fn changes_values(source: &str) -> bool {
    CHANGES.iter().any(|method| source.contains(method))
}

/// The error for an expression that is too long: minijinja's compiler recurses once per operand and would
/// overflow its stack.
pub(super) struct TooLong;

/// Returns the template with its arithmetic as calls and, with `wrap_literals`, its literals as mutable
/// values.
///
/// # Errors
/// [`TooLong`]; such a template must not be compiled.
pub(super) fn rewrite(source: &str, wrap_literals: bool) -> Result<String, TooLong> {
    if source.matches("elif").count() > CHAIN_MAX {
        return Err(TooLong);
    }
    let mut too_long = false;
    let rewritten = rewritten(source, wrap_literals, &mut too_long);
    if too_long { Err(TooLong) } else { Ok(rewritten.unwrap_or_else(|| source.into())) }
}

fn rewritten(source: &str, wrap_literals: bool, too_long: &mut bool) -> Option<String> {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = next_tag(rest) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let untouched = match rest.as_bytes()[1] {
            b'#' => Some(rest.find("#}")? + 2),
            b'%' => raw_block(rest),
            _ => None,
        };
        let length = match untouched {
            Some(length) => {
                out.push_str(&rest[..length]);
                length
            }
            None if rest.as_bytes()[1] == b'%' => tag(rest, "%}", wrap_literals, &mut out, too_long)?,
            None => tag(rest, "}}", wrap_literals, &mut out, too_long)?,
        };
        rest = &rest[length..];
    }
    out.push_str(rest);
    Some(out)
}

/// Rewrites one tag into `out` and returns its length.
fn tag(text: &str, end: &str, wrap_literals: bool, out: &mut String, too_long: &mut bool) -> Option<usize> {
    let begin = if text[2..].starts_with(['-', '+']) { 3 } else { 2 };
    let (tokens, length) = tokens(&text[begin..], end, too_long)?;
    out.push_str(&text[..begin]);
    let mut pass = Pass { tokens: &tokens, at: 0, depth: 0, top_level_comma: false, wrap_literals };
    let mut inner = String::new();
    if end == "%}" {
        // The word that names the statement. A raw block that gets here has no end.
        let word = pass.take().filter(|word| word.trim() != "raw")?;
        inner.push_str(&word);
        if word.trim() == "set" {
            inner.push_str(&pass.assignment()?);
        }
        if word.trim() == "for" {
            inner.push_str(&pass.loop_head()?);
        }
    }
    inner.push_str(&pass.items()?);
    if pass.at < tokens.len() {
        return None;
    }
    out.push_str(&inner);
    // The rest after the last token: white space, the trim mark, the end of the tag.
    let tail = tokens.last().map_or(begin, |last| begin + last.end);
    out.push_str(&text[tail..begin + length]);
    Some(begin + length)
}

/// Walks over tokens as Jinja2's parser does; its methods return `None` when they do not understand the
/// tokens.
struct Pass<'t, 's> {
    tokens: &'t [Token<'s>],
    at: usize,
    depth: usize,
    /// True when a comma was outside of brackets, so that the expression is a tuple.
    top_level_comma: bool,
    wrap_literals: bool,
}

impl<'s> Pass<'_, 's> {
    fn peek(&self) -> Option<Token<'s>> {
        self.tokens.get(self.at).copied()
    }
    fn sees(&self, sign: &str) -> bool {
        self.peek().is_some_and(|token| token.text == sign && token.kind != Kind::Text)
    }
    fn sees_name(&self, name: &str) -> bool {
        self.peek().is_some_and(|token| token.text == name && token.kind == Kind::Name)
    }
    fn take(&mut self) -> Option<String> {
        let token = self.peek()?;
        self.at += 1;
        Some(format!("{}{}", token.space, token.text))
    }

    /// Rewrites everything up to the end or a closing bracket.
    fn items(&mut self) -> Option<String> {
        let mut out = String::new();
        while let Some(token) = self.peek() {
            match token.kind {
                Kind::Close => break,
                Kind::Name if WORDS.contains(&token.text) => out.push_str(&self.take()?),
                Kind::Text | Kind::Number | Kind::Name | Kind::Open => out.push_str(&self.comparison()?),
                Kind::Sign if matches!(token.text, "-" | "+") => out.push_str(&self.comparison()?),
                // `*args` and `**kwargs` of a call, commas, comparisons, `=`.
                Kind::Sign => {
                    self.top_level_comma |= token.text == "," && self.depth == 0;
                    out.push_str(&self.take()?);
                }
            }
        }
        Some(out)
    }

    /// Rewrites the part after `for`, up to its condition: the list is passed to `__iter`, which refuses
    /// values that are not iterable.
    fn loop_head(&mut self) -> Option<String> {
        let mut out = String::new();
        while !self.sees_name("in") {
            out.push_str(&self.take()?);
        }
        out.push_str(&self.take()?);
        let mut list = String::new();
        let mut commas = false;
        while let Some(token) = self.peek() {
            match token.text {
                "if" | "recursive" if token.kind == Kind::Name => break,
                _ if token.kind == Kind::Close => return None,
                "," => {
                    commas = true;
                    list.push_str(&self.take()?);
                }
                "and" | "or" | "not" => list.push_str(&self.take()?),
                _ => list.push_str(&self.comparison()?),
            }
        }
        match list.trim() {
            "" => None,
            _ if commas => Some(format!("{out} __iter(({list}))")),
            _ => Some(format!("{out} __iter({list})")),
        }
    }

    /// Rewrites the part after `set`: the value is passed to `__keep`, or to `__put` when it becomes an
    /// attribute. Both limit the depth of values. The block form has no value, and a text has no depth.
    fn assignment(&mut self) -> Option<String> {
        let mut out = String::new();
        let mut call = "__keep";
        while let Some(token) = self.peek() {
            match token.text {
                "|" => return Some(out),
                "." => call = "__put",
                _ => {}
            }
            out.push_str(&self.take()?);
            if token.text == "=" && token.kind == Kind::Sign {
                let value = self.items()?;
                // A tuple may appear here without brackets. Nothing can follow the comma but the end of the
                // tuple.
                let tuple = if self.top_level_comma { "((" } else { "(" };
                let end = if self.top_level_comma { "))" } else { ")" };
                out.push_str(&format!(" {call}{tuple}{value}{end}"));
            }
        }
        Some(out)
    }

    /// Rewrites chained comparisons. Pure equality stays as it is, since minijinja compares for equality as
    /// Python does.
    fn comparison(&mut self) -> Option<String> {
        let first = self.sum()?;
        let mut signs = Vec::new();
        let mut operands = first.clone();
        let mut plain = first;
        while let Some(token) = self.peek() {
            let begin = self.at;
            let sign = match token.text {
                "==" | "!=" | "<" | "<=" | ">" | ">=" if token.kind == Kind::Sign => token.text,
                "in" if token.kind == Kind::Name => "in",
                "not" if token.kind == Kind::Name => {
                    if self.tokens.get(self.at + 1).is_none_or(|next| next.text != "in") {
                        break;
                    }
                    self.at += 1;
                    "not-in"
                }
                _ => break,
            };
            self.at += 1;
            let source: String =
                self.tokens[begin..self.at].iter().flat_map(|token| [token.space, token.text]).collect();
            let next = self.sum()?;
            signs.push(sign);
            plain.push_str(&source);
            plain.push_str(&next);
            operands.push(',');
            operands.push_str(&next);
        }
        if signs.iter().all(|sign| matches!(*sign, "==" | "!=")) {
            return Some(plain);
        }
        Some(format!(" __cmp('{}',{operands})", signs.join(" ")))
    }
    fn sum(&mut self) -> Option<String> {
        self.chain("__sum", &["+", "-"], Self::concatenation)
    }
    fn concatenation(&mut self) -> Option<String> {
        self.chain("__cat", &["~"], Self::product)
    }
    fn product(&mut self) -> Option<String> {
        self.chain("__prod", &["*", "/", "//", "%"], Self::power)
    }
    fn power(&mut self) -> Option<String> {
        self.chain("__pow", &["**"], Self::operand)
    }

    /// Rewrites operands with operators between them to one call: the operators, then the operands.
    fn chain(
        &mut self,
        call: &str,
        signs: &[&str],
        operand: fn(&mut Self) -> Option<String>,
    ) -> Option<String> {
        let first = operand(self)?;
        let mut found = Vec::new();
        let mut operands = Cow::Borrowed(first.as_str());
        while let Some(token) = self.peek().filter(|t| t.kind == Kind::Sign && signs.contains(&t.text)) {
            self.at += 1;
            found.push(token.text);
            let next = operand(self)?;
            operands.to_mut().push(',');
            operands.to_mut().push_str(&next);
        }
        if found.is_empty() {
            return Some(first);
        }
        Some(format!(" {call}('{}',{operands})", found.join(" ")))
    }

    fn operand(&mut self) -> Option<String> {
        let mut signs = Vec::new();
        while self.sees("-") || self.sees("+") {
            signs.push(self.peek()?.text);
            self.at += 1;
        }
        let mut out = self.primary()?;
        self.steps(&mut out, signs.is_empty())?;
        if signs.is_empty() {
            return Some(out);
        }
        // Signs bind tighter than filters.
        for sign in signs.into_iter().rev() {
            let number = out.trim().starts_with(|c: char| c.is_ascii_digit());
            out = match sign {
                "-" if number => format!(" -{}", out.trim_start()),
                "-" => format!(" __neg({out})"),
                _ => format!(" __pos({out})"),
            };
        }
        self.steps(&mut out, true)?;
        Some(out)
    }

    fn primary(&mut self) -> Option<String> {
        let token = self.peek()?;
        match token.kind {
            Kind::Text => {
                let mut out = self.take()?;
                // Adjacent texts are one text.
                while let Some(next) = self.peek().filter(|t| t.kind == Kind::Text) {
                    self.at += 1;
                    out = format!(" __cat('~',{out},{})", next.text);
                }
                Some(out)
            }
            Kind::Number | Kind::Name => self.take(),
            Kind::Open => {
                let group = self.group()?;
                let call = match token.text {
                    "[" if self.wrap_literals => "__list",
                    "{" if self.wrap_literals => "__dict",
                    _ => return Some(group),
                };
                Some(format!(" {call}({group})"))
            }
            Kind::Close | Kind::Sign => None,
        }
    }

    fn group(&mut self) -> Option<String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut out = self.take()?;
        out.push_str(&self.items()?);
        out.push_str(&self.take()?);
        self.depth -= 1;
        Some(out)
    }

    /// Rewrites attributes, items and calls after an operand and, where allowed, filters and tests.
    fn steps(&mut self, out: &mut String, filters: bool) -> Option<()> {
        loop {
            if self.sees(".") {
                out.push_str(&self.take()?);
                let cycles = self.sees_name("cycle");
                out.push_str(&self.take()?);
                if cycles && self.sees("(") && self.tokens.get(self.at + 1).is_some_and(|t| t.text == ")") {
                    // Without arguments minijinja would divide by zero.
                    self.at += 2;
                    out.push_str("(__no_items())");
                }
            } else if self.sees("[") || self.sees("(") {
                out.push_str(&self.group()?);
            } else if filters && self.sees("|") {
                out.push_str(&self.take()?);
                self.dotted_name(out)?;
            } else if filters && self.sees("is") {
                self.test(out)?;
            } else {
                return Some(());
            }
        }
    }

    fn dotted_name(&mut self, out: &mut String) -> Option<()> {
        out.push_str(&self.take()?);
        while self.sees(".") {
            out.push_str(&self.take()?);
            out.push_str(&self.take()?);
        }
        Some(())
    }

    /// Rewrites `is [not] name [argument]`. A bare argument may have attributes and calls, but no filters.
    fn test(&mut self, out: &mut String) -> Option<()> {
        out.push_str(&self.take()?);
        if self.sees("not") {
            out.push_str(&self.take()?);
        }
        self.dotted_name(out)?;
        let Some(next) = self.peek() else { return Some(()) };
        let bare = match next.kind {
            Kind::Text | Kind::Number => true,
            Kind::Name => !WORDS.contains(&next.text),
            Kind::Open => next.text != "(",
            Kind::Close | Kind::Sign => false,
        };
        if bare {
            out.push_str(&self.primary()?);
            self.steps(out, false)?;
        } else if self.sees("(") {
            out.push_str(&self.group()?);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
