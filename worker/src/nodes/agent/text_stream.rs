//! An agent's text while it streams and at the end, with reasoning in its tags or separate.

use std::sync::{Mutex, PoisonError};

use tidemill_common::nodes::llm::ReasoningFormat;
use tidemill_common::nodes::llm::reasoning::{self, Filter, Piece};

use crate::attempt::executor::{PieceSink, ThoughtSink};

/// The name of the output.
const OUTPUT: &str = "text";

/// An agent's text; see the module.
pub(super) struct TextStream<'a> {
    /// The whole text, with reasoning in its tags.
    text: String,
    /// Removes reasoning from the streamed text, if it is wanted separately.
    filter: Option<Filter>,
    on_piece: PieceSink<'a>,
    /// The lock only makes the sink shareable; it is never contended.
    on_thought: Mutex<ThoughtSink<'a>>,
}

impl<'a> TextStream<'a> {
    /// Creates an empty text.
    pub(super) fn new(format: ReasoningFormat, on_piece: PieceSink<'a>, on_thought: ThoughtSink<'a>) -> Self {
        let filter = (format == ReasoningFormat::Separated).then(Filter::default);
        Self { text: String::new(), filter, on_piece, on_thought: Mutex::new(on_thought) }
    }

    /// Adds text.
    pub(super) fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.text.push_str(text);
        let Self { filter, on_piece, on_thought, .. } = self;
        match filter {
            None => on_piece(OUTPUT, text),
            Some(filter) => {
                let on_thought = on_thought.get_mut().unwrap_or_else(PoisonError::into_inner);
                filter.push(text, &mut |piece| send_piece(piece, *on_piece, *on_thought));
            }
        }
    }

    /// Sends the rest, and returns the node's text and its reasoning.
    pub(super) fn end(&mut self) -> (String, String) {
        let text = std::mem::take(&mut self.text);
        let Self { filter, on_piece, on_thought, .. } = self;
        match filter {
            None => (text, String::new()),
            Some(filter) => {
                let on_thought = on_thought.get_mut().unwrap_or_else(PoisonError::into_inner);
                filter.finish(&mut |piece| send_piece(piece, *on_piece, *on_thought));
                let split = reasoning::split(&text);
                (split.text, split.thoughts)
            }
        }
    }
}

fn send_piece(piece: Piece<'_>, on_piece: PieceSink<'_>, on_thought: ThoughtSink<'_>) {
    match piece {
        Piece::Said("") => {}
        Piece::Said(text) => on_piece(OUTPUT, text),
        Piece::Thought { text, last } => on_thought(text, last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the streamed text, the streamed reasoning, and the final result for these pieces.
    fn text_stream(format: ReasoningFormat, pieces: &[&str]) -> (String, String, (String, String)) {
        let told = Mutex::new(String::new());
        let on_piece = |_: &str, text: &str| told.lock().unwrap().push_str(text);
        let mut thought = String::new();
        let mut on_thought = |text: &str, _: bool| thought.push_str(text);
        let mut text_stream = TextStream::new(format, &on_piece, &mut on_thought);
        for piece in pieces {
            text_stream.push(piece);
        }
        let end = text_stream.end();
        (told.into_inner().unwrap(), thought, end)
    }

    #[test]
    fn thoughts_that_are_wanted_apart_are_not_told_as_text_however_their_tags_are_cut() {
        let whole = "<think>Two and two.</think>Four.";
        for at in 0..=whole.len() {
            let (said, thought, end) = text_stream(ReasoningFormat::Separated, &[&whole[..at], &whole[at..]]);
            assert_eq!((said.as_str(), thought.as_str()), ("Four.", "Two and two."), "cut at {at}");
            assert_eq!(end, ("Four.".into(), "Two and two.".into()));
        }
    }

    #[test]
    fn thoughts_stay_in_the_text_by_default() {
        let (said, thought, end) = text_stream(ReasoningFormat::Tagged, &["<thi", "nk>a</think>", "b"]);
        assert_eq!((said.as_str(), thought.as_str()), ("<think>a</think>b", ""));
        assert_eq!(end, ("<think>a</think>b".into(), String::new()));
    }
}
