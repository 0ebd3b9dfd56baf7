//! The blocks of a reply as they came, for a model that thinks while it uses tools: it has to be given back what it thought
//! and signed, unchanged and in its place.

use serde_json::{Value as Json, json};

use crate::providers::params::{ANSWER, text};

/// The blocks that are kept, in the order in which they began; each with its number.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    open: Vec<(u64, Json)>,
    /// Arguments of the call that is being written, as text.
    arguments: String,
}

impl Kept {
    /// A block begins.
    pub(super) fn begin(&mut self, index: u64, block: &Json) {
        let ours = matches!(text(block, "type"), "text" | "thinking" | "redacted_thinking" | "tool_use");
        // The answer of a given form is called for by a tool that the conversation does not know.
        if ours && text(block, "name") != ANSWER {
            self.open.push((index, block.clone()));
            self.arguments.clear();
        }
    }

    /// A block goes on.
    pub(super) fn add(&mut self, index: u64, delta: &Json) {
        let Some((_, block)) = self.open.iter_mut().find(|(open, _)| *open == index) else { return };
        for key in ["text", "thinking", "signature"] {
            let more = text(delta, key);
            if !more.is_empty() {
                block[key] = json!(format!("{}{more}", text(block, key)));
            }
        }
        self.arguments.push_str(text(delta, "partial_json"));
    }

    /// A block is complete; none for one that says nothing, which the API would refuse.
    pub(super) fn end(&mut self, index: u64) -> Option<Json> {
        let at = self.open.iter().position(|(open, _)| *open == index)?;
        let (_, mut block) = self.open.remove(at);
        let arguments = std::mem::take(&mut self.arguments);
        if let Ok(input @ Json::Object(_)) = serde_json::from_str(&arguments) {
            block["input"] = input;
        }
        let silent = block["type"] == "text" && text(&block, "text").trim().is_empty();
        (!silent).then_some(block)
    }
}

/// Whether a block is something that the model thought.
pub(super) fn is_thought(block: &Json) -> bool {
    matches!(text(block, "type"), "thinking" | "redacted_thinking")
}
