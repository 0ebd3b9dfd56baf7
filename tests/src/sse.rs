//! Server-sent events, read raw, line by line, so that tests can check ids and pings.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};

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
    fn read(block: &str) -> Self {
        let mut message = Self::default();
        for line in block.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            let slot = match field {
                "id" => &mut message.id,
                "event" => &mut message.event,
                "data" => &mut message.data,
                "" => &mut message.comment,
                other => panic!("a stream has no field {other:?}: {block:?}"),
            };
            match slot {
                Some(before) => *before = format!("{before}\n{value}"),
                None => *slot = Some(value.into()),
            }
        }
        message
    }
}

/// An open stream.
pub struct Messages {
    bytes: Pin<Box<dyn Stream<Item = reqwest::Result<Vec<u8>>> + Send>>,
    buffer: Vec<u8>,
    ready: VecDeque<Message>,
}

impl Messages {
    /// Reads the stream of a response.
    pub fn of(response: reqwest::Response) -> Self {
        let bytes = response.bytes_stream().map(|piece| piece.map(|bytes| bytes.to_vec()));
        Self { bytes: Box::pin(bytes), buffer: Vec::new(), ready: VecDeque::new() }
    }

    /// Returns the next message; `None` when the stream has ended, also when it broke.
    ///
    /// # Panics
    /// When there is no message for a long time.
    pub async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(message);
            }
            let piece = tokio::time::timeout(SILENCE_MAX, self.bytes.next()).await;
            match piece.unwrap_or_else(|_| panic!("the event stream is silent for {SILENCE_MAX:?}")) {
                Some(Ok(bytes)) => self.take(&bytes),
                Some(Err(_)) | None => return None,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        while let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
            let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
            let block = String::from_utf8(block).expect("event streams are UTF-8");
            self.ready.push_back(Message::read(block.trim_end_matches('\n')));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_with_and_without_a_space() {
        let message = Message::read("id: 1-0\nevent:x\ndata: {\"a\": 1}\n: ping");
        assert_eq!(message.id.as_deref(), Some("1-0"));
        assert_eq!(message.event.as_deref(), Some("x"));
        assert_eq!(message.data.as_deref(), Some("{\"a\": 1}"));
        assert_eq!(message.comment.as_deref(), Some("ping"));
    }
}
