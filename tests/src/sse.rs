//! Server-sent events, read raw, line by line, so that tests can check ids and pings.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use tidemill_common::limits::VALUE_BYTES_MAX;
use tidemill_common::sse::{Line, Lines};

use crate::described::Operation;

/// The longest wait for the next message; servers ping every ten seconds.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The lines between two empty lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// `id:`
    pub id: Option<String>,
    /// `event:`
    pub event: Option<String>,
    /// `data:`, with all lines joined.
    pub data: Option<String>,
    /// A line that begins with a colon.
    pub comment: Option<String>,
}

impl Message {
    /// Adds a field; a comment has no name.
    fn add(&mut self, name: &str, value: &str) {
        let slot = match name {
            "id" => &mut self.id,
            "event" => &mut self.event,
            "data" => &mut self.data,
            "" => &mut self.comment,
            other => panic!("a stream has no field {other:?}"),
        };
        match slot {
            Some(before) => *before = format!("{before}\n{value}"),
            None => *slot = Some(value.into()),
        }
    }
}

/// An open stream.
pub struct Messages {
    bytes: Pin<Box<dyn Stream<Item = reqwest::Result<Vec<u8>>> + Send>>,
    lines: Lines,
    /// The message whose lines are coming.
    begun: Message,
    ready: VecDeque<Message>,
    /// The description with which events are compared.
    operation: Option<&'static Operation>,
}

impl Messages {
    /// Reads the stream of a response.
    pub fn of(response: reqwest::Response) -> Self {
        let bytes = response.bytes_stream().map(|piece| piece.map(|bytes| bytes.to_vec()));
        let lines = Lines::new(VALUE_BYTES_MAX);
        let (begun, ready) = (Message::default(), VecDeque::new());
        Self { bytes: Box::pin(bytes), lines, begun, ready, operation: None }
    }

    /// Compares each event with its description.
    #[must_use]
    pub fn described(self, operation: Option<&'static Operation>) -> Self {
        Self { operation, ..self }
    }

    /// Returns the next message; `None` when the stream has ended, also when it broke.
    ///
    /// # Panics
    /// When there is no message for a long time.
    pub async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                if let (Some(operation), Some(data)) = (self.operation, &message.data) {
                    operation.check_event(data);
                }
                return Some(message);
            }
            let piece = tokio::time::timeout(SILENCE_MAX, self.bytes.next()).await;
            match piece.unwrap_or_else(|_| panic!("the event stream is silent for {SILENCE_MAX:?}")) {
                Some(Ok(bytes)) => self.take(&bytes),
                Some(Err(_)) | None => return None,
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8]) {
        while let Some(line) = self.lines.next(&mut bytes).expect("a stream of the scheduler can be read") {
            match line {
                Line::Empty => self.ready.push_back(std::mem::take(&mut self.begun)),
                Line::Comment(value) => self.begun.add("", value),
                Line::Field(name, value) => self.begun.add(name, value),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_with_and_without_a_space() {
        let bytes = Box::pin(futures_util::stream::empty());
        let (lines, ready) = (Lines::new(VALUE_BYTES_MAX), VecDeque::new());
        let mut messages = Messages { bytes, lines, begun: Message::default(), ready, operation: None };
        messages.take(b"id: 1-0\nevent:x\ndata: {\"a\": 1}\n: ping\n\n");
        let message = messages.ready.pop_front().unwrap();
        assert_eq!(message.id.as_deref(), Some("1-0"));
        assert_eq!(message.event.as_deref(), Some("x"));
        assert_eq!(message.data.as_deref(), Some("{\"a\": 1}"));
        assert_eq!(message.comment.as_deref(), Some("ping"));
    }
}
