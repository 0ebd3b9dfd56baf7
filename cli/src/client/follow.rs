//! Follows the events of a run to its end. After a lost connection it reconnects with the id of the last complete
//! entry and skips the events that it has already seen.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use reqwest::Response;
use serde_json::Value as Json;
use tidemill_common::limits::VALUE_BYTES_MAX;
use tidemill_common::sse::{Decoder, SseError};
use tidemill_common::wire::event::kind;

use super::{Client, ClientError, view};

/// Wait before the first reconnect; it doubles with each further try.
const BACK_OFF_FIRST: Duration = Duration::from_millis(100);
/// Longest wait between two tries.
const BACK_OFF_MAX: Duration = Duration::from_secs(5);
/// Tries in a row without an event before an error is returned: about half a minute.
const TRIES_MAX: u32 = 10;

/// A connection that lived this long counts as good even without an event: a run may wait for a person for days.
const HELD_LONG: Duration = Duration::from_secs(60);

/// Largest event in bytes. It may hold a few of the largest values; the limit is for servers that never end a line.
const EVENT_BYTES_MAX: usize = 4 * VALUE_BYTES_MAX;

/// The wait before the n-th further try; n begins at 1.
pub(super) fn back_off(tries: u32) -> Duration {
    BACK_OFF_FIRST.saturating_mul(1 << tries.saturating_sub(1).min(10)).min(BACK_OFF_MAX)
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    /// The type, such as `node_run_started`.
    pub(crate) kind: String,
    pub(crate) data: Json,
    /// Position among the events of the run, from 1.
    pub(crate) seq: u64,
    /// The whole envelope as it was received.
    pub(crate) raw: Json,
}

impl Event {
    /// Parses an event envelope. Returns `None` when the text is not one, such as `reconnect`: after that the scheduler
    /// closes the connection, which is handled like any lost one.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let raw: Json = serde_json::from_str(text).ok()?;
        let kind = raw["type"].as_str()?.to_string();
        Some(Self { kind, data: raw["data"].clone(), seq: raw["seq"].as_u64()?, raw })
    }
    /// Returns a field of `data` as text; empty when it is absent.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.data[key].as_str().unwrap_or("")
    }
}

/// The events of one run, in order.
#[derive(Debug)]
pub(crate) struct Follow<'a> {
    client: &'a Client,
    run: String,
    after: Option<String>,
    seq: u64,
    connection: Option<Connection>,
    read: VecDeque<Received>,
    tries: u32,
    connected_once: bool,
    ended: bool,
    /// The scheduler said that the run no longer exists.
    gone: bool,
}

/// An event as it came.
#[derive(Debug)]
struct Received {
    id: Option<String>,
    data: String,
}

#[derive(Debug)]
struct Connection {
    response: Response,
    decoder: Decoder,
    has_events: bool,
    opened: Instant,
}

/// Adds the events that the bytes complete.
fn decode(decoder: &mut Decoder, mut bytes: &[u8], read: &mut VecDeque<Received>) -> Result<(), SseError> {
    while let Some(event) = decoder.next(&mut bytes)? {
        read.push_back(Received { id: event.id.map(Into::into), data: event.data });
    }
    Ok(())
}

/// Whether this is the last word of a stream whose run no longer exists.
fn is_gone(text: &str) -> bool {
    // Most events are none, and need not be parsed twice.
    text.contains("gone")
        && serde_json::from_str::<Json>(text)
            .is_ok_and(|event| event["type"] == "gone" && event["seq"].is_null())
}

impl<'a> Follow<'a> {
    /// Follows a run from its start, or after the entry with the given id.
    pub(crate) fn new(client: &'a Client, run: &str, after: Option<String>) -> Self {
        Self {
            client,
            run: run.into(),
            after,
            seq: 0,
            connection: None,
            read: VecDeque::new(),
            tries: 0,
            connected_once: false,
            ended: false,
            gone: false,
        }
    }

    /// Returns the next event, or `None` after the last one. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The first connection fails, the scheduler refuses, or it stays unreachable for too long.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            while let Some(received) = self.read.pop_front() {
                if let Some(event) = self.take(received) {
                    return Ok(Some(event));
                }
            }
            if self.ended {
                return Ok(None);
            }
            if std::mem::take(&mut self.gone) {
                // The answer is the error to show, unless the run is there again.
                self.connection = None;
                self.client.run(&self.run).await?;
            }
            match self.read_on().await {
                Ok(()) => {}
                Err(error) if self.connected_once && error.may_pass() => self.wait(error).await?,
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&mut self, received: Received) -> Option<Event> {
        self.gone |= is_gone(&received.data);
        let event = Event::read(&received.data).filter(|event| event.seq > self.seq);
        // Only the last event of an entry has an id, so reconnecting with it skips nothing.
        if received.id.is_some() {
            self.after = received.id;
        }
        let event = event?;
        self.seq = event.seq;
        self.tries = 0;
        self.ended = kind::TERMINAL.contains(&event.kind.as_str());
        Some(event)
    }

    async fn read_on(&mut self) -> Result<(), ClientError> {
        let broken = |url: &str, reason: String| ClientError::Broken { url: url.into(), reason };
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => {
                let response = self.client.events(&self.run, self.after.as_deref()).await?;
                self.connected_once = true;
                self.connection.insert(Connection {
                    response,
                    decoder: Decoder::new(EVENT_BYTES_MAX),
                    has_events: false,
                    opened: Instant::now(),
                })
            }
        };
        let held_long = connection.opened.elapsed() >= HELD_LONG;
        match connection.response.chunk().await {
            Ok(Some(bytes)) => {
                let decoded = decode(&mut connection.decoder, &bytes, &mut self.read);
                connection.has_events |= !self.read.is_empty();
                decoded.map_err(|error| {
                    self.connection = None;
                    broken(&self.client.base, error.to_string())
                })
            }
            Ok(None) => {
                let has_events = connection.has_events;
                if held_long {
                    self.tries = 0;
                }
                self.connection = None;
                // No events after the entry that we started from: the run may have ended there.
                if !has_events {
                    let run = self.client.run(&self.run).await?;
                    self.ended = view::has_ended(run["status"].as_str().unwrap_or(""));
                }
                if self.ended { Ok(()) } else { Err(broken(&self.client.base, "it was closed".into())) }
            }
            Err(error) => {
                self.connection = None;
                Err(broken(&self.client.base, super::error::chain(&error)))
            }
        }
    }

    async fn wait(&mut self, error: ClientError) -> Result<(), ClientError> {
        self.tries += 1;
        if self.tries > TRIES_MAX {
            return Err(error);
        }
        tokio::time::sleep(back_off(self.tries)).await;
        Ok(())
    }
}
