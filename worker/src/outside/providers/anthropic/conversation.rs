//! Arranges a conversation as the API wants it: instructions separate, user and model alternating, the user first.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::Role;

use crate::outside::providers::ModelError;
use crate::outside::providers::anthropic::blocks::{blocks, result_block, text_block};
use crate::outside::providers::anthropic::reply_blocks::is_thought;
use crate::outside::providers::media::SentMessage;

/// The user text before a conversation that begins with the model, because history may begin in the middle.
const EARLIER: &str = "(the conversation goes on)";

/// An arranged conversation.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// All instructions; empty if there are none.
    pub(super) system: String,
    /// The written messages.
    pub(super) messages: Vec<Json>,
    /// True when the model is between tool calls and results, but its turn began without reasoning: it did not think
    /// then, or a model of another API began.
    pub(super) thoughts_lost: bool,
}

/// Arranges a conversation.
pub(super) fn arrange(label: &str, messages: &[SentMessage]) -> Result<Conversation, ModelError> {
    let mut system: Vec<String> = Vec::new();
    let mut merged: Vec<MergedMessage> = Vec::new();
    for message in messages {
        match message.role {
            Role::System => system.push(message.joined_text()),
            Role::User => MergedMessage::add(&mut merged, USER, blocks(label, message)?),
            Role::Assistant => MergedMessage::add(&mut merged, ASSISTANT, blocks(label, message)?),
            Role::Tool => MergedMessage::add(&mut merged, USER, vec![result_block(label, message)?]),
        }
    }
    system.retain(|text| !text.trim().is_empty());
    trim_end(&mut merged);
    if merged.is_empty() {
        // Instructions alone become the user's text, because a conversation must begin with a user.
        let text = std::mem::take(&mut system).join("\n");
        MergedMessage::add(
            &mut merged,
            USER,
            vec![text_block(if text.is_empty() { EARLIER } else { &text })],
        );
    }
    if merged.first().is_some_and(|message| message.role == ASSISTANT) {
        merged.insert(0, MergedMessage { role: USER, blocks: vec![text_block(EARLIER)] });
    }
    let thoughts_lost = thoughts_lost(&merged);
    let messages = merged.into_iter().map(MergedMessage::written).collect();
    Ok(Conversation { system: system.join("\n"), messages, thoughts_lost })
}

/// For the API, all rounds of calls and results are one turn of the model, so only its start counts.
fn thoughts_lost(messages: &[MergedMessage]) -> bool {
    let rounds =
        messages.iter().rev().take_while(|message| message.role == ASSISTANT || message.has_results());
    let first = rounds.filter(|message| message.role == ASSISTANT).last();
    let amid_tools = messages.last().is_some_and(MergedMessage::has_results);
    amid_tools && first.and_then(|message| message.blocks.first()).is_none_or(|block| !is_thought(block))
}

const USER: &str = "user";
const ASSISTANT: &str = "assistant";

/// Consecutive messages of one side.
struct MergedMessage {
    role: &'static str,
    blocks: Vec<Json>,
}

impl MergedMessage {
    fn add(messages: &mut Vec<Self>, role: &'static str, blocks: Vec<Json>) {
        match messages.last_mut() {
            Some(last) if last.role == role => last.blocks.extend(blocks),
            Some(_) | None if blocks.is_empty() => {}
            Some(_) | None => messages.push(Self { role, blocks }),
        }
    }

    fn has_results(&self) -> bool {
        self.blocks.iter().any(is_result)
    }

    /// Results come first: the API wants them directly after the calls.
    fn written(mut self) -> Json {
        self.blocks.sort_by_key(|block| !is_result(block));
        json!({"role": self.role, "content": self.blocks})
    }
}

fn is_result(block: &Json) -> bool {
    block["type"] == "tool_result"
}

/// A last message of the model is the start of its reply and must not end in whitespace.
fn trim_end(messages: &mut [MergedMessage]) {
    let Some(last) = messages.last_mut().filter(|message| message.role == ASSISTANT) else { return };
    if let Some(Json::String(text)) = last.blocks.last_mut().and_then(|block| block.get_mut("text")) {
        text.truncate(text.trim_end().len());
    }
}
