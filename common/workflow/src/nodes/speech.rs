//! The `speech` node: turns a recording into text, or a text into sound, with a model. It is a node of built-in files, for
//! `/v1/audio-to-text` and `/v1/text-to-audio`.
//!
//! All that it needs is in one object, its order, so that the file is the same for all models. The worker calls the model.

use serde_json::Value as Json;

use super::fields::{INVALID_NODE_DATA, required, selector, text};
use crate::dsl::Problems;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::template::mention;
use tidemill_base::value::{JsonMap, Selector, Variables};

/// The error class of an order that cannot be read, and of a recording that is gone.
const ERROR: &str = "SpeechNodeError";
/// The error class when the provider of the model has no API for speech.
pub const LACKS_SPEECH: &str = "ProviderNotSupportSpeechError";
/// Longest text of one request, in characters: OpenAI's API takes 4096.
const PIECE_CHARS_MAX: usize = 3500;

/// What the node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A recording becomes text.
    ToText,
    /// A text becomes sound.
    ToAudio,
}

/// Configuration of `speech`.
#[derive(Debug, Clone)]
pub struct SpeechData {
    /// What it does.
    pub operation: Operation,
    /// The order: an object.
    pub order: Selector,
}

/// An order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The provider, or `profile/ID`.
    pub provider: String,
    /// The model's name; empty for a profile.
    pub model: String,
    /// Most bytes of the recording, or of the sound.
    pub bytes_max: u64,
    /// The work.
    pub work: Work,
}

/// The work of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Writes down what is said in a recording.
    Transcribe {
        /// The stored recording.
        reference: String,
        /// Its file name, whose extension tells the provider the format.
        filename: String,
        /// Its media type.
        mime_type: String,
    },
    /// Reads a text aloud.
    Speak {
        /// The text; not empty.
        text: String,
        /// The provider's name of the voice.
        voice: String,
    },
}

impl SpeechData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let operation = required(data, "operation", problems, operation);
        let order = required(data, "order_selector", problems, selector);
        Some(Self { operation: operation?, order: order? })
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        mention(&self.order, into);
    }

    /// Reads the order.
    ///
    /// # Errors
    /// It is not there, or lacks a part.
    pub fn order(&self, variables: &dyn Variables) -> Result<Order, NodeFailure> {
        let found = variables.found(&self.order);
        let order = found.as_ref().map_or(&Json::Null, |segment| &segment.value);
        let part = |key: &str| order.get(key).and_then(Json::as_str).map(str::to_owned);
        let lacks = |key: &str| failure(format!("the order of a speech node has no {key}"));
        let given = |key: &str| part(key).filter(|text| !text.trim().is_empty()).ok_or_else(|| lacks(key));
        let work = match self.operation {
            Operation::ToText => Work::Transcribe {
                reference: given("reference")?,
                filename: given("filename")?,
                mime_type: given("mime_type")?,
            },
            Operation::ToAudio => {
                Work::Speak { text: given("text")?, voice: part("voice").unwrap_or_default() }
            }
        };
        let bytes_max = order.get("bytes_max").and_then(Json::as_u64).ok_or_else(|| lacks("bytes_max"))?;
        let model = part("model").unwrap_or_default();
        Ok(Order { provider: given("provider")?, model, bytes_max, work })
    }
}

/// A failure of this node.
pub fn failure(message: impl Into<String>) -> NodeFailure {
    NodeFailure::new(ERROR, message)
}

/// The pieces of a text that is read aloud, each for one request. They end with a sentence, else with a word, where there is one.
pub fn pieces(text: &str) -> Vec<&str> {
    let (mut rest, mut found) = (text.trim(), Vec::new());
    while let Some((limit, _)) = rest.char_indices().nth(PIECE_CHARS_MAX) {
        let head = &rest[..limit];
        let ends = |is_end: fn(char) -> bool| {
            head.char_indices().rev().find(|(at, c)| *at > 0 && is_end(*c)).map(|(at, c)| at + c.len_utf8())
        };
        let is_sentence = |c: char| matches!(c, '.' | '!' | '?' | '。' | '！' | '？' | '\n');
        let end = ends(is_sentence).or_else(|| ends(char::is_whitespace)).unwrap_or(limit);
        let (piece, after) = rest.split_at(end);
        found.push(piece.trim());
        rest = after.trim_start();
    }
    found.push(rest);
    found.retain(|piece| !piece.is_empty());
    found
}

fn operation(value: &Json, problems: &mut Problems) -> Option<Operation> {
    let found = match text(value, problems)?.as_str() {
        "to_text" => Some(Operation::ToText),
        "to_audio" => Some(Operation::ToAudio),
        _ => None,
    };
    if found.is_none() {
        problems.error(INVALID_NODE_DATA, "must be to_text or to_audio".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_text_is_split_at_sentences_and_nothing_is_lost() {
        let sentence = "This is a sentence. ";
        let long = sentence.repeat(400);
        let words = "word ".repeat(1000);
        let unbroken = "ä".repeat(PIECE_CHARS_MAX * 2 + 1);
        for (text, count) in [("", 0), ("  ", 0), ("Hi.", 1), (&long, 3), (&words, 2), (&unbroken, 3)] {
            let found = pieces(text);
            assert_eq!(found.len(), count);
            assert!(found.iter().all(|piece| piece.chars().count() <= PIECE_CHARS_MAX));
            let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            assert_eq!(bare(&found.concat()), bare(text));
        }
        assert!(pieces(&long).iter().all(|piece| piece.ends_with('.')));
    }

    #[test]
    fn only_known_operations_are_accepted() {
        for (data, is_fine) in [
            (json!({"operation": "to_text", "order_selector": ["start", "order"]}), true),
            (json!({"operation": "to_audio", "order_selector": ["start", "order"]}), true),
            (json!({"operation": "sing", "order_selector": ["start", "order"]}), false),
            (json!({"operation": "to_text"}), false),
        ] {
            let mut problems = Problems::new();
            let parsed = SpeechData::parse(data.as_object().unwrap(), &mut problems);
            assert_eq!((parsed.is_some(), problems.into_vec().is_empty()), (is_fine, is_fine), "{data}");
        }
    }
}
