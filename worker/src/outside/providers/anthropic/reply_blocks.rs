//! Keeps the original blocks of a reply. A model that thinks while it uses tools must get its signed reasoning back,
//! unchanged and in place.

use serde_json::{Value as Json, json};

use crate::outside::providers::params::{ANSWER, text};

/// The open blocks by index, in the order they began.
#[derive(Debug, Clone, Default)]
pub(super) struct ReplyBlocks {
    open: Vec<(u64, Json)>,
    /// The arguments of the current call, as text.
    arguments: String,
}

impl ReplyBlocks {
    /// Begins a block.
    pub(super) fn begin(&mut self, index: u64, block: &Json) {
        let ours = matches!(text(block, "type"), "text" | "thinking" | "redacted_thinking" | "tool_use");
        // The conversation does not know the internal tool of a structured answer.
        if ours && text(block, "name") != ANSWER {
            self.open.push((index, block.clone()));
            self.arguments.clear();
        }
    }

    /// Adds to a block.
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

    /// Completes a block. Returns `None` for an empty one, which the API would refuse.
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

/// Returns true if a block is reasoning.
pub(super) fn is_thought(block: &Json) -> bool {
    matches!(text(block, "type"), "thinking" | "redacted_thinking")
}
