//! The events of a run, from its first one to its last one, live or afterwards.

use std::collections::VecDeque;

use axum::body::BodyDataStream;
use futures_util::StreamExt;
use serde_json::Value as Json;
use tidemill_common::sse::Decoder;

use crate::error::EmbedError;

/// The largest event, in bytes. The events of the engine are bounded by its own limits; this is far above them.
const EVENT_BYTES_MAX: usize = 256 << 20;

/// An event of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its type, such as `node_run_started`.
    pub kind: String,
    /// Its position among the events of the run, from 1.
    pub seq: u64,
    pub data: Json,
    /// The whole event, as in `GET /api/v1/runs/{id}/events`.
    pub raw: Json,
}

/// The events of one run, in order.
pub struct EventStream {
    body: BodyDataStream,
    decoder: Decoder,
    ready: VecDeque<String>,
}

impl EventStream {
    pub(crate) fn new(body: axum::body::Body) -> Self {
        Self { body: body.into_data_stream(), decoder: Decoder::new(EVENT_BYTES_MAX), ready: VecDeque::new() }
    }

    /// The next event. `None` after the last event of the run, and when the engine stops.
    ///
    /// # Errors
    /// [`EmbedError::Unreadable`] for an event that is not JSON, which is a bug.
    pub async fn next(&mut self) -> Result<Option<Event>, EmbedError> {
        loop {
            while let Some(text) = self.ready.pop_front() {
                if let Some(event) = read(&text)? {
                    return Ok(Some(event));
                }
            }
            let Some(bytes) = self.body.next().await else { return Ok(None) };
            let bytes = bytes.map_err(|error| EmbedError::Unreadable(error.to_string()))?;
            let mut found = Vec::new();
            self.decoder
                .push(&bytes, &mut found)
                .map_err(|error| EmbedError::Unreadable(error.to_string()))?;
            self.ready.extend(found);
        }
    }
}

/// Reads an event. `None` for what is no event of the run, such as a reset.
fn read(text: &str) -> Result<Option<Event>, EmbedError> {
    let raw: Json =
        serde_json::from_str(text).map_err(|error| EmbedError::Unreadable(format!("{error}: {text}")))?;
    let (Some(kind), Some(seq)) = (raw["type"].as_str(), raw["seq"].as_u64()) else { return Ok(None) };
    Ok(Some(Event { kind: kind.to_owned(), seq, data: raw["data"].clone(), raw }))
}
