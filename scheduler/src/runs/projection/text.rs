//! `text_chunk` and `text_replace`. Dify's clients can only replace the whole text. So the text that they have received
//! is kept here, in pieces by stream.

use serde_json::{Value as Json, json};
use tidemill_common::wire::event::{EventRecord, kind};

use crate::runs::projection::{Projection, field, text};

/// The text shown so far.
#[derive(Debug, Default)]
pub struct ShownText {
    /// Stream and text of each piece, in the order in which they were shown.
    pieces: Vec<(Json, String)>,
}

impl ShownText {
    /// Applies an event whose chunk is opened. Events without text change nothing.
    pub fn take(&mut self, record: &EventRecord) {
        if !record.is_in_answer() {
            return;
        }
        let stream = || field(record, "selector", json!([]));
        match record.kind.as_str() {
            kind::NODE_RUN_STREAM_CHUNK => self.add(&stream(), text(record, "chunk")),
            kind::NODE_RUN_STREAM_REPLACED => self.replace(&stream(), text(record, "text")),
            _ => {}
        }
    }

    fn has(&self, stream: &Json) -> bool {
        self.pieces.iter().any(|(of, _)| of == stream)
    }

    fn add(&mut self, stream: &Json, text: &str) {
        match self.pieces.last_mut() {
            Some((last, shown)) if last == stream => shown.push_str(text),
            Some(_) | None => self.pieces.push((stream.clone(), text.to_string())),
        }
    }

    /// Removes the text of a stream and puts another text in its place.
    fn replace(&mut self, stream: &Json, text: &str) {
        let place = self.pieces.iter().position(|(of, _)| of == stream).unwrap_or(self.pieces.len());
        self.pieces.retain(|(of, _)| of != stream);
        if !text.is_empty() {
            self.pieces.insert(place, (stream.clone(), text.to_string()));
        }
    }

    /// The whole text.
    pub fn text(&self) -> String {
        self.pieces.iter().map(|(_, text)| text.as_str()).collect()
    }
}

impl Projection {
    pub(super) fn text_chunk(&mut self, record: &EventRecord) -> Json {
        self.shown.take(record);
        let stream = field(record, "selector", json!([]));
        if let Some(chat) = &self.run.chat {
            return self.message(chat, text(record, "chunk"), &stream);
        }
        let data = json!({"text": text(record, "chunk"), "from_variable_selector": stream});
        self.envelope("text_chunk", data)
    }

    /// Returns `None` when the text was not shown: withdrawn reasoning is shown beside the text, and Dify has no event
    /// for that.
    pub(super) fn text_replaced(&mut self, record: &EventRecord) -> Option<Json> {
        let is_shown =
            self.shown.has(&field(record, "selector", json!([]))) || !text(record, "text").is_empty();
        self.shown.take(record);
        is_shown.then(|| self.text_replace())
    }

    /// A piece of a model's reasoning: shown beside the text, and not part of it.
    pub(super) fn reasoning_chunk(&self, record: &EventRecord) -> Json {
        let step = record.data.get("data").and_then(Json::as_object).unwrap_or(&record.data);
        let part = |key: &str| step.get(key).cloned().unwrap_or_default();
        let mut data = json!({
            "reasoning": part("chunk"), "node_id": text(record, "node_id"), "is_final": part("is_final")
        });
        if self.run.chat.is_some() {
            data["message_id"] = json!(self.run.id);
        }
        self.envelope("reasoning_chunk", data)
    }

    /// The whole text so far.
    pub(super) fn text_replace(&self) -> Json {
        if let Some(chat) = &self.run.chat {
            return self.message_replace(chat);
        }
        self.envelope("text_replace", json!({"text": self.answer()}))
    }
}
