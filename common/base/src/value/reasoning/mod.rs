//! Separates a model's thoughts from its answer: `<think>…</think>` within its text.
//!
//! A stream can be cut anywhere, also within a tag. [`Filter`] holds back text that can still become a tag, so that the
//! result is the same for all cuts. An opening tag can have attributes of at most 512 characters without `<`;
//! `<thinking>` is not a tag (as on Dify).

use std::sync::LazyLock;

use regex::Regex;

use super::coerce::is_python_space;

/// Most characters of an opening tag from its first white space to its end (Dify's).
const ATTRIBUTE_CHARS_MAX: usize = 512;
const OPEN: &str = "<think";
const CLOSE: &str = "</think>";

#[expect(clippy::expect_used, reason = "the pattern is a constant that the tests compile")]
static BLANK_LINES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\n\s*\n").expect("the pattern is well formed"));

/// A piece of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Answer text.
    Said(&'a str),
    /// Thoughts. The last piece of a reply with thoughts is marked.
    Thought {
        /// The text; can be empty in the last piece.
        text: &'a str,
        /// No more thoughts follow in this reply.
        last: bool,
    },
}

/// A complete reply, split.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Split {
    /// The answer: without thoughts, several empty lines joined to one, trimmed.
    pub text: String,
    /// The thoughts: all non-empty blocks, joined by line breaks.
    pub thoughts: String,
}

/// Splits a complete reply.
pub fn split(reply: &str) -> Split {
    let (mut said, mut blocks, mut rest) = (String::new(), Vec::new(), reply);
    loop {
        let Some((start, end)) = first_opening(rest) else {
            said.push_str(rest);
            break;
        };
        said.push_str(&rest[..start]);
        rest = &rest[end..];
        let (block, after) = match find_ignoring_case(rest, CLOSE) {
            Some(at) => (&rest[..at], &rest[at + CLOSE.len()..]),
            None => (rest, ""),
        };
        blocks.push(block.trim_matches(is_python_space));
        rest = after;
    }
    blocks.retain(|block| !block.is_empty());
    let text = BLANK_LINES.replace_all(&said, "\n\n");
    Split { text: text.trim_matches(is_python_space).to_owned(), thoughts: blocks.join("\n") }
}

/// Splits a streamed reply.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Text that can still become a tag; never a complete tag.
    held: String,
    inside: bool,
    /// The answer has begun: text other than white space was emitted.
    has_spoken: bool,
    has_thought: bool,
}

impl Filter {
    /// Takes a piece of the reply. White space before the answer's first words is dropped.
    pub fn push(&mut self, delta: &str, out: &mut dyn FnMut(Piece<'_>)) {
        let text = std::mem::take(&mut self.held) + delta;
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let tag = if self.inside {
                find_ignoring_case(rest, CLOSE).map(|at| (at, at + CLOSE.len()))
            } else {
                first_opening(rest)
            };
            if let Some((start, end)) = tag {
                self.emit(&rest[..start], out);
                self.inside = !self.inside;
                rest = &rest[end..];
                continue;
            }
            let sure = rest.len() - self.open_end(rest);
            self.emit(&rest[..sure], out);
            rest[sure..].clone_into(&mut self.held);
            break;
        }
    }

    /// The reply has ended: text held back is emitted as text.
    pub fn finish(&mut self, out: &mut dyn FnMut(Piece<'_>)) {
        let held = std::mem::take(&mut self.held);
        if self.inside && !held.is_empty() {
            self.has_thought = false;
            out(Piece::Thought { text: &held, last: true });
            return;
        }
        self.emit(&held, out);
        if std::mem::take(&mut self.has_thought) {
            out(Piece::Thought { text: "", last: true });
        }
    }

    fn emit(&mut self, text: &str, out: &mut dyn FnMut(Piece<'_>)) {
        if self.inside {
            if !text.is_empty() {
                self.has_thought = true;
                out(Piece::Thought { text, last: false });
            }
            return;
        }
        let text = if self.has_spoken { text } else { text.trim_start_matches(is_python_space) };
        if !text.is_empty() {
            self.has_spoken = true;
            out(Piece::Said(text));
        }
    }

    /// Bytes at the end of a text that can be the beginning of a tag.
    fn open_end(&self, text: &str) -> usize {
        let Some(at) = text.rfind('<') else { return 0 };
        let end = &text[at..];
        let may = if self.inside {
            end.len() < CLOSE.len() && starts_ignoring_case(CLOSE, end)
        } else {
            opening(end) == Opening::Perhaps
        };
        if may { end.len() } else { 0 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// A tag of this length in bytes.
    Tag(usize),
    /// The text ends before this is certain.
    Perhaps,
    No,
}

/// Checks if a text that begins with `<` begins with an opening tag.
fn opening(text: &str) -> Opening {
    if text.len() < OPEN.len() {
        return if starts_ignoring_case(OPEN, text) { Opening::Perhaps } else { Opening::No };
    }
    if !starts_ignoring_case(text, OPEN) {
        return Opening::No;
    }
    let mut chars = text[OPEN.len()..].char_indices();
    match chars.next() {
        None => return Opening::Perhaps,
        Some((_, '>')) => return Opening::Tag(OPEN.len() + 1),
        Some((_, c)) if is_python_space(c) => {}
        Some(_) => return Opening::No,
    }
    for (count, (at, c)) in chars.enumerate() {
        match c {
            '>' => return Opening::Tag(OPEN.len() + at + 1),
            '<' => return Opening::No,
            _ if count == ATTRIBUTE_CHARS_MAX => return Opening::No,
            _ => {}
        }
    }
    Opening::Perhaps
}

/// Start and end of the first opening tag.
fn first_opening(text: &str) -> Option<(usize, usize)> {
    text.match_indices('<').find_map(|(at, _)| match opening(&text[at..]) {
        Opening::Tag(length) => Some((at, at + length)),
        Opening::Perhaps | Opening::No => None,
    })
}

fn find_ignoring_case(text: &str, wanted: &str) -> Option<usize> {
    text.match_indices('<').map(|(at, _)| at).find(|at| starts_ignoring_case(&text[*at..], wanted))
}

fn starts_ignoring_case(text: &str, start: &str) -> bool {
    let (text, start) = (text.as_bytes(), start.as_bytes());
    text.len() >= start.len() && text[..start.len()].eq_ignore_ascii_case(start)
}

#[cfg(test)]
mod tests;
