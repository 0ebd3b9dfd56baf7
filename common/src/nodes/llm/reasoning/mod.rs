//! What a model thinks, told apart from what it says: `<think>…</think>` within its text.
//!
//! A stream is cut anywhere, also within a tag; [`Filter`] holds back what may still become one, so that every cut gives
//! the same. An opening tag may have attributes of at most 512 characters without `<`; `<thinking>` is none (Dify).

use std::sync::LazyLock;

use regex::Regex;

use crate::value::coerce::is_python_space;

/// Most characters of an opening tag between its first white space and its end (Dify's).
const ATTRIBUTE_CHARS_MAX: usize = 512;
const OPEN: &str = "<think";
const CLOSE: &str = "</think>";

#[expect(clippy::expect_used, reason = "the pattern is a constant that the tests compile")]
static BLANK_LINES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\n\s*\n").expect("the pattern is well formed"));

/// A piece of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// What it says.
    Said(&'a str),
    /// What it thinks. The last one of a reply says so, and there is one if anything was thought.
    Thought {
        /// The text; perhaps empty, if it is the last.
        text: &'a str,
        /// Nothing more is thought in this reply.
        last: bool,
    },
}

/// A whole reply, split.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Split {
    /// What it says: without blocks, runs of empty lines made one, nothing around it.
    pub text: String,
    /// What it thinks: the blocks that are not empty, a line break between two.
    pub thoughts: String,
}

/// Splits a whole reply.
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

/// Splits a reply as it comes.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// What may still become a tag; never a whole one.
    held: String,
    inside: bool,
    /// Something but white space was said.
    has_spoken: bool,
    has_thought: bool,
}

impl Filter {
    /// Takes a piece of the reply. White space in front of the first words is dropped.
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
                self.tell(&rest[..start], out);
                self.inside = !self.inside;
                rest = &rest[end..];
                continue;
            }
            let sure = rest.len() - self.open_end(rest);
            self.tell(&rest[..sure], out);
            rest[sure..].clone_into(&mut self.held);
            break;
        }
    }

    /// The reply has ended: what was held back is text after all.
    pub fn finish(&mut self, out: &mut dyn FnMut(Piece<'_>)) {
        let held = std::mem::take(&mut self.held);
        if self.inside && !held.is_empty() {
            self.has_thought = false;
            out(Piece::Thought { text: &held, last: true });
            return;
        }
        self.tell(&held, out);
        if std::mem::take(&mut self.has_thought) {
            out(Piece::Thought { text: "", last: true });
        }
    }

    fn tell(&mut self, text: &str, out: &mut dyn FnMut(Piece<'_>)) {
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

    /// Bytes at the end of a text that may be the beginning of a tag.
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
    /// A tag of so many bytes.
    Tag(usize),
    /// The text ends before that is certain.
    Perhaps,
    No,
}

/// Whether a text that begins with `<` begins with an opening tag.
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

/// Where the first opening tag begins and ends.
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
