//! A run's events to their end, through lost connections: it comes back with the id of the last entry it has whole,
//! and passes over what it has seen of the next.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use reqwest::Response;
use serde_json::Value as Json;
use tidemill_common::wire::event::kind;

use super::sse::{SseEvent, SseReader};
use super::{Client, ClientError, view};

/// First wait before a lost connection is tried again; doubled each time.
const BACK_OFF_FIRST: Duration = Duration::from_millis(100);
/// Longest wait between two tries.
const BACK_OFF_MAX: Duration = Duration::from_secs(5);
/// Tries in a row without a single event before it is given up: about half a minute.
const TRIES_MAX: u32 = 10;

/// A connection that held so long was no failure, even if nothing was told: a run may wait for somebody for days.
const HELD_LONG: Duration = Duration::from_secs(60);

/// The wait before the n-th further try, n from 1.
pub(super) fn back_off(tries: u32) -> Duration {
    BACK_OFF_FIRST.saturating_mul(1 << tries.saturating_sub(1).min(10)).min(BACK_OFF_MAX)
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    /// Its type, such as `node_run_started`.
    pub(crate) kind: String,
    /// Its own fields.
    pub(crate) data: Json,
    /// Counts the run's events from 1.
    pub(crate) seq: u64,
    /// All of it, as it came.
    pub(crate) raw: Json,
}

impl Event {
    /// Reads the envelope; none when it is not one.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let raw: Json = serde_json::from_str(text).ok()?;
        let kind = raw["type"].as_str()?.to_string();
        Some(Self { kind, data: raw["data"].clone(), seq: raw["seq"].as_u64()?, raw })
    }
    /// A field of `data` as text; empty when absent.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.data[key].as_str().unwrap_or("")
    }
}

/// The events of one run, one after the other.
#[derive(Debug)]
pub(crate) struct Follow<'a> {
    client: &'a Client,
    run: String,
    after: Option<String>,
    seq: u64,
    connection: Option<Connection>,
    read: VecDeque<SseEvent>,
    tries: u32,
    connected_once: bool,
    ended: bool,
}

#[derive(Debug)]
struct Connection {
    response: Response,
    reader: SseReader,
    told_anything: bool,
    opened: Instant,
}

impl<'a> Follow<'a> {
    /// Follows a run from an entry on, or from its start.
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
        }
    }

    /// The next event; none behind the last. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The first connection fails, the scheduler refuses, or it stays away for too long.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            while let Some(told) = self.read.pop_front() {
                if let Some(event) = self.take(told) {
                    return Ok(Some(event));
                }
            }
            if self.ended {
                return Ok(None);
            }
            match self.read_on().await {
                Ok(()) => {}
                Err(error) if self.connected_once && error.may_pass() => self.wait(error).await?,
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&mut self, told: SseEvent) -> Option<Event> {
        let event = Event::read(&told.data).filter(|event| event.seq > self.seq);
        // Only the last event of an entry has an id; coming back with it misses nothing.
        if told.id.is_some() {
            self.after = told.id;
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
                    reader: SseReader::default(),
                    told_anything: false,
                    opened: Instant::now(),
                })
            }
        };
        let held_long = connection.opened.elapsed() >= HELD_LONG;
        match connection.response.chunk().await {
            Ok(Some(bytes)) => {
                self.read.extend(connection.reader.push(&bytes));
                connection.told_anything |= !self.read.is_empty();
                Ok(())
            }
            Ok(None) => {
                let told_anything = connection.told_anything;
                if held_long {
                    self.tries = 0;
                }
                self.connection = None;
                // Nothing behind the place where we came in: the run may have ended there.
                if !told_anything {
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
