//! The events of a run, from its first one to its last one, live or afterwards.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, BodyDataStream};
use futures_util::{Stream, StreamExt};
use serde_json::Value as Json;
use tidemill_common::sse::Decoder;
use tidemill_common::wire::event::kind;

use crate::document::{self, Times};
use crate::error::EmbedError;
use crate::forgetting::Hold;

/// The largest event, in bytes. The events of the engine are bounded by its own limits; this is far above them.
const EVENT_BYTES_MAX: usize = 256 << 20;

/// An event of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its type, such as `node_run_started`.
    pub kind: String,
    /// Its position among the events of the run, from 1.
    pub seq: u64,
    /// Its fields; docs/api.md lists them by type.
    pub data: Json,
    /// The whole event, as in `GET /api/v1/runs/{id}/events`.
    pub raw: Json,
}

impl Event {
    /// The event as a document `{"type", "data"}`, with the types and fields of graphon's events; docs/embed.md lists the
    /// differences to [`Self::raw`].
    pub fn document(&self, times: Times) -> Json {
        document::of(&self.kind, &self.data, times)
    }

    /// True if no event follows.
    pub fn is_last(&self) -> bool {
        kind::TERMINAL.contains(&self.kind.as_str())
    }
}

/// The events of one run, in order. It ends after the last event of the run, and when the engine stops.
pub struct EventStream {
    body: BodyDataStream,
    decoder: Decoder,
    ready: VecDeque<String>,
    is_over: bool,
    /// The run is not forgotten while its events are read.
    _hold: Hold,
}

impl EventStream {
    pub(crate) fn new(body: Body, hold: Hold) -> Self {
        let body = body.into_data_stream();
        Self {
            body,
            decoder: Decoder::new(EVENT_BYTES_MAX),
            ready: VecDeque::new(),
            is_over: false,
            _hold: hold,
        }
    }

    /// The next event. `None` after the last event of the run, and when the engine stops. Dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// [`EmbedError::Unreadable`] for an event that is not JSON, which is a bug.
    pub async fn next(&mut self) -> Result<Option<Event>, EmbedError> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
    }
}

impl Stream for EventStream {
    type Item = Result<Event, EmbedError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let broken = |error: &dyn std::fmt::Display| EmbedError::Unreadable(error.to_string());
        loop {
            while let Some(text) = self.ready.pop_front() {
                let event = read(&text).transpose();
                self.is_over |= matches!(&event, Some(Ok(event)) if event.is_last());
                if event.is_some() {
                    return Poll::Ready(event);
                }
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            let this = &mut *self;
            match ready!(this.body.poll_next_unpin(context)) {
                None => this.is_over = true,
                Some(Err(error)) => return Poll::Ready(Some(Err(broken(&error)))),
                Some(Ok(bytes)) => {
                    let mut rest: &[u8] = &bytes;
                    loop {
                        match this.decoder.next(&mut rest) {
                            Ok(Some(event)) => this.ready.push_back(event.data),
                            Ok(None) => break,
                            Err(error) => return Poll::Ready(Some(Err(broken(&error)))),
                        }
                    }
                }
            }
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
