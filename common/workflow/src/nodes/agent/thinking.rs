//! Streams the thoughts of a `ReAct` model while it writes its reply.
//!
//! Streamed is the text before an action or an answer, without prefixes, thoughts in tags and the space around them. A
//! brace or a fence can begin an action; after one nothing is streamed until the reply is complete. The streamed text
//! is the same however the reply is cut into pieces.

use std::sync::LazyLock;

use regex::Regex;

/// A mark that can follow a thought or precede one.
#[allow(clippy::expect_used)]
static MARK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)<think|\{|```|(?:^|\s)(thought|action|observation|final\s?answer)\s*:")
        .expect("the pattern is a constant")
});
/// The words of [`MARK`] that a piece can be cut within.
const BEGINNINGS: [&str; 7] =
    ["thought", "action", "observation", "finalanswer", "final answer", "<think", "```"];
const THINK_END: &str = "</think>";

/// A reply in progress.
#[derive(Debug, Clone, Default)]
pub struct Thinking {
    /// All text streamed so far.
    streamed: String,
    /// White space and backticks after `streamed`; streamed when other text follows.
    gap: String,
    /// Text not decided yet.
    pending: String,
    /// The character before `pending` is not white space, so no word begins there.
    amid_word: bool,
    part: Part,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Part {
    #[default]
    Thought,
    /// Between tags.
    Hidden,
    /// Nothing more is streamed before the end.
    Over,
}

impl Thinking {
    /// Takes the next piece; returns the text to stream, possibly empty.
    pub fn push(&mut self, piece: &str) -> String {
        let before = self.streamed.len();
        if self.part != Part::Over {
            self.pending.push_str(piece);
            while self.step() {}
        }
        self.streamed[before..].to_owned()
    }

    /// The reply is complete and `thought` is its thought: returns the part not streamed yet.
    pub fn rest<'a>(&self, thought: &'a str) -> &'a str {
        thought.strip_prefix(self.streamed.as_str()).unwrap_or("")
    }

    /// Decides on the pending text as far as possible. Returns true while another step could decide more.
    fn step(&mut self) -> bool {
        match self.part {
            Part::Over => false,
            Part::Hidden => match self.pending.find(THINK_END) {
                Some(at) => {
                    self.pending.drain(..at + THINK_END.len());
                    self.part = Part::Thought;
                    true
                }
                None => false,
            },
            Part::Thought => self.step_of_thought(),
        }
    }

    fn step_of_thought(&mut self) -> bool {
        let pending = std::mem::take(&mut self.pending);
        let amid_word = self.amid_word;
        let is_mark =
            |found: &regex::Captures<'_>| found.get(1).is_none_or(|word| word.start() > 0 || !amid_word);
        let found = MARK.captures_iter(&pending).find(is_mark);
        let Some((whole, word)) = found.and_then(|found| Some((found.get(0)?, found.get(1)))) else {
            let decided = decided(&pending, amid_word);
            self.stream(&pending[..decided]);
            pending[decided..].clone_into(&mut self.pending);
            return false;
        };
        self.stream(&pending[..whole.start()]);
        let is_thought = word.is_some_and(|word| word.as_str().eq_ignore_ascii_case("thought"));
        self.part = match whole.as_str() {
            _ if is_thought => Part::Thought,
            tag if tag.starts_with('<') => Part::Hidden,
            _ => Part::Over,
        };
        if is_thought {
            // The space before a prefix belongs to it, even when it came in an earlier piece.
            if word.is_some_and(|word| word.start() == 0) && self.gap.ends_with(char::is_whitespace) {
                self.gap.pop();
            }
            self.stream("\n");
            // The text after it follows a colon.
            self.amid_word = true;
        }
        if self.part != Part::Over {
            pending[whole.end()..].clone_into(&mut self.pending);
        }
        self.part != Part::Over
    }

    fn stream(&mut self, text: &str) {
        for letter in text.chars() {
            if letter.is_whitespace() || letter == '`' {
                self.gap.push(letter);
            } else {
                let gap = std::mem::take(&mut self.gap);
                if !self.streamed.is_empty() {
                    self.streamed.push_str(&gap);
                }
                self.streamed.push(letter);
            }
        }
        if let Some(last) = text.chars().last() {
            self.amid_word = !last.is_whitespace();
        }
    }
}

/// The number of leading bytes that cannot be the beginning of a mark.
fn decided(text: &str, amid_word: bool) -> usize {
    let mut amid_word = amid_word;
    for (at, letter) in text.char_indices() {
        let may_begin = !amid_word || matches!(letter, '<' | '`');
        if may_begin && !letter.is_whitespace() && may_be_mark(&text[at..]) {
            return at;
        }
        amid_word = !letter.is_whitespace();
    }
    text.len()
}

fn may_be_mark(tail: &str) -> bool {
    let space = |letter: char| if letter.is_whitespace() { ' ' } else { letter.to_ascii_lowercase() };
    let tail: String = tail.trim_end().chars().map(space).collect();
    BEGINNINGS.iter().any(|beginning| beginning.starts_with(&tail))
}

#[cfg(test)]
mod tests {
    use super::super::react::read;
    use super::*;

    /// The text streamed from a reply in pieces of `size` characters, and the text added at its end.
    fn streamed(text: &str, size: usize) -> (String, String) {
        let mut thinking = Thinking::default();
        let letters: Vec<char> = text.chars().collect();
        let pieces = letters.chunks(size).map(|piece| piece.iter().collect::<String>());
        let live: String = pieces.map(|piece| thinking.push(&piece)).collect();
        let rest = thinking.rest(&read(text).thought).to_owned();
        (live, rest)
    }

    #[test]
    fn thoughts_are_streamed_up_to_the_next_mark_for_all_cuts_of_the_reply() {
        for (text, live, rest) in [
            ("Thought: I should look. \nAction:\n```\n{\"action\": \"f\"}\n```", "I should look.", ""),
            ("Thought: so\nthought : and so\n\nFinalAnswer: 42", "so\n and so", ""),
            ("I think so. Final answer: 42", "I think so.", ""),
            ("thoughts are free, actions not", "thoughts are free, actions not", ""),
            ("<think>Action: no</think>Thought: yes\nAction: {\"tool\": \"f\"}", "yes", ""),
            ("It <b>is</b> a < b and `x` too", "It <b>is</b> a < b and `x` too", ""),
            ("Thought: a {brace} is none\nAction: {\"tool\": \"f\"}", "a", " {brace} is none"),
            ("Use it. {\"action\": \"f\", \"action_input\": {}}", "Use it.", ""),
            ("Use it.\n```json\n{\"action\": \"f\"}\n```", "Use it.", ""),
            ("größe 🙂 Observation: made up", "größe 🙂", "\n made up"),
            ("no action: at all", "no", "\n at all"),
            ("", "", ""),
        ] {
            for size in 1..=text.len().max(1) {
                assert_eq!(streamed(text, size), (live.into(), rest.into()), "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn streamed_text_is_the_beginning_of_the_thought_and_is_streamed_once() {
        let parts = [
            "Thought:",
            " ",
            "\n",
            "a",
            "{",
            "}",
            "`",
            "```",
            "<think>",
            "</think>",
            "Final Answer:",
            "Ac",
            "tion:",
        ];
        let mut seed = 7_usize;
        for _ in 0..2000 {
            let text: String = (0..8)
                .map(|_| {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    parts[(seed >> 33) % parts.len()]
                })
                .collect();
            let whole = streamed(&text, usize::MAX);
            for size in [1, 2, 3, 5] {
                assert_eq!(streamed(&text, size), whole, "{text:?} in pieces of {size}");
            }
        }
    }
}
