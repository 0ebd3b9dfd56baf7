//! The events of a run, from its first one to its last one, live or afterwards.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use serde_json::Value as Json;
use tidemill_common::wire::event::kind;

use crate::document::{self, Times};
use crate::error::EmbedError;
use crate::forgetting::Hold;

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
    events: BoxStream<'static, Json>,
    is_over: bool,
    /// The run is not forgotten while its events are read.
    _hold: Hold,
}

impl EventStream {
    pub(crate) fn new(events: BoxStream<'static, Json>, hold: Hold) -> Self {
        Self { events, is_over: false, _hold: hold }
    }

    /// The next event. `None` after the last event of the run, and when the engine stops. Dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// [`EmbedError::Unreadable`] for an event without a type, which is a bug.
    pub async fn next(&mut self) -> Result<Option<Event>, EmbedError> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
    }
}

impl Stream for EventStream {
    type Item = Result<Event, EmbedError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let event = ready!(self.events.poll_next_unpin(context)).map(read);
        self.is_over = match &event {
            Some(Ok(event)) => event.is_last(),
            Some(Err(_)) => false,
            None => true,
        };
        Poll::Ready(event)
    }
}

fn read(raw: Json) -> Result<Event, EmbedError> {
    match (raw["type"].as_str(), raw["seq"].as_u64()) {
        (Some(kind), Some(seq)) => Ok(Event { kind: kind.to_owned(), seq, data: raw["data"].clone(), raw }),
        _ => Err(EmbedError::Unreadable(raw.to_string())),
    }
}
