//! The follower: reads a run's events in order, from the beginning. When events that a client has seen, or should see,
//! are missing, it starts again from the beginning.
//!
//! Each read starts with the last known entry, to notice when that is missing ([`super::position`]): Redis may have lost
//! writes, or the stream was trimmed. Events before the client's position are returned too, marked as old, because a projection needs
//! them for its state. A follower that has caught up gets most entries from [`Following`], which reads once for many
//! followers. The numbers of the events show that none is missing between two entries.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use tidemill_common::ids::{EntryId, RunId};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{Following, Runs, StoreError};
use tidemill_common::wire::entry::EventEntry;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, Sleep};

use super::ApiState;
use super::error::ApiError;
use super::metrics::{OpenStream, RESETS};
use super::position::{Position, Step};
use crate::stopping::{Stage, reached};

/// Most entries read at once.
const PAGE: usize = 256;
/// The longest wait between two looks, because hints may get lost.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Time without events after which a ping is due, as on Dify.
pub const PING_EVERY: Duration = Duration::from_secs(10);
/// The pause after the store has failed.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// The position after which a client wants events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// From the beginning.
    Start,
    /// After this entry.
    Entry(EntryId),
    /// Only new events.
    Now,
}

impl After {
    /// Reads the header `Last-Event-ID`; `0` is the start. An empty one names no entry.
    ///
    /// # Errors
    /// 400 when it is not an entry's id.
    pub fn of_header(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        match headers.get("last-event-id") {
            None => Ok(None),
            Some(value) if value.is_empty() => Ok(None),
            Some(value) => Self::of_text(value.to_str().unwrap_or("?")).map(Some),
        }
    }
    /// Reads an entry's id.
    ///
    /// # Errors
    /// 400 when it is invalid.
    pub fn of_text(text: &str) -> Result<Self, ApiError> {
        let id: EntryId =
            text.trim().parse().map_err(|e| ApiError::invalid_param(format!("event id: {e}")))?;
        Ok(if id == EntryId::ZERO { Self::Start } else { Self::Entry(id) })
    }
}

/// An entry of events.
#[derive(Debug)]
pub struct Entry {
    /// The events in the entry.
    pub events: Arc<EventEntry>,
    /// True when the entry comes before the client's position.
    pub is_old: bool,
}

/// News for the client of a follower.
#[derive(Debug)]
pub enum News {
    /// Events.
    Entry(Entry),
    /// All earlier events were returned; the next ones are live.
    CaughtUp,
    /// Events are missing. Forget the earlier ones: they come again from the beginning.
    Reset,
    /// The run no longer exists, because Redis lost it or it was removed. The stream ends.
    Gone,
    /// Nothing for some time.
    Silence,
    /// The process stops, and the stream ends before its run. It goes on at another scheduler.
    Closing,
}

/// Follows one run.
pub struct Follower {
    store: Arc<dyn Runs>,
    run: RunId,
    /// Signals that there may be news. It is created before the first look, so that nothing is missed in between.
    following: Following,
    shutdown: Receiver<Stage>,
    /// Completes when the process closes its streams.
    closing: Pin<Box<dyn Future<Output = ()> + Send + Sync>>,
    /// Completes when the next look is due, or earlier: it is set again only when it fires.
    timer: Pin<Box<Sleep>>,
    /// The longest silence before the stream ends; `None` for a caller that waits for the end of the run.
    idle_max: Option<Duration>,
    position: Position,
    /// Entries that were read and not returned yet: at most `bytes_max` bytes, or one entry.
    ready: VecDeque<Arc<EventEntry>>,
    bytes_max: usize,
    /// How many entries the next read asks for: fewer while they are large.
    page: usize,
    /// The result of the look that [`Self::begin`] took.
    first: Option<PollResult>,
    /// True when the last look has read the stream to its end.
    has_seen_end: bool,
    is_ended: bool,
    /// The time of the last read, or of the last entry.
    polled_at: Instant,
    returned_at: Instant,
    pinged_at: Instant,
    /// Looks at a run that has ended while its last event is missing.
    looks_after_end: u32,
    _open: OpenStream,
}

/// The result of a look.
enum PollResult {
    Some,
    Nothing,
    LastIsGone,
    Failed,
}

impl Follower {
    /// Starts to follow a run.
    pub fn new(state: &ApiState, run: RunId, after: After) -> Self {
        Self::until(state, run, after, state.shutdown.clone())
    }

    fn until(state: &ApiState, run: RunId, after: After, shutdown: Receiver<Stage>) -> Self {
        let now = Instant::now();
        let mut stops = shutdown.clone();
        Self {
            store: state.store.clone(),
            run,
            following: state.store.follow(run),
            shutdown,
            closing: Box::pin(async move { reached(Stage::Closing, &mut stops).await }),
            timer: Box::pin(tokio::time::sleep_until(now)),
            idle_max: Some(Duration::from_secs(state.config.scheduler.stream_idle_seconds)),
            position: Position::new(after),
            ready: VecDeque::new(),
            bytes_max: state.config.scheduler.stream_buffer_bytes,
            page: PAGE,
            first: None,
            has_seen_end: false,
            is_ended: false,
            polled_at: now,
            returned_at: now,
            pinged_at: now,
            looks_after_end: 0,
            _open: OpenStream::count(),
        }
    }

    /// Follows a run to its end, however long it is silent, and even when the process is about to stop.
    pub fn to_the_end(state: &ApiState, run: RunId) -> Self {
        // The receiver of a closed channel keeps its last value.
        let (_, never) = tokio::sync::watch::channel(Stage::Serving);
        Self { idle_max: None, ..Self::until(state, run, After::Start, never) }
    }

    /// Takes the first look ahead of time, so that it runs concurrently with other reads.
    pub async fn begin(&mut self) {
        self.first = Some(self.read().await);
    }

    /// Returns the next news. Returns `None` after the run's last event, after too much silence, or after
    /// [`News::Closing`].
    pub async fn next(&mut self) -> Option<News> {
        loop {
            if let Some(events) = self.ready.pop_front() {
                return Some(self.hand_out(events));
            }
            if self.is_ended {
                return None;
            }
            if *self.shutdown.borrow() == Stage::Closing {
                self.is_ended = true;
                return Some(News::Closing);
            }
            let poll = match self.first.take() {
                Some(poll) => poll,
                None => self.poll().await,
            };
            match poll {
                PollResult::Some => continue,
                PollResult::LastIsGone if self.is_run_gone().await => return Some(self.gone()),
                PollResult::LastIsGone => return Some(self.restart()),
                PollResult::Nothing if !self.position.is_caught_up() => return Some(self.catch_up()),
                PollResult::Nothing => self.wait().await,
                PollResult::Failed => Box::pin(tokio::time::sleep(FAILURE_PAUSE)).await,
            }
            if self.idle_max.is_some_and(|max| self.returned_at.elapsed() >= max) {
                return None;
            }
            if self.pinged_at.elapsed() >= PING_EVERY {
                self.pinged_at = Instant::now();
                let is_gone = self.look_at_the_run().await;
                return Some(if is_gone { self.gone() } else { News::Silence });
            }
        }
    }

    fn hand_out(&mut self, events: Arc<EventEntry>) -> News {
        let is_old = match self.position.step(&events) {
            Step::Broken => return self.restart(),
            step => step == Step::Old,
        };
        self.is_ended |= events.is_terminal();
        self.returned_at = Instant::now();
        (self.pinged_at, self.polled_at) = (self.returned_at, self.returned_at);
        News::Entry(Entry { events, is_old })
    }

    fn catch_up(&mut self) -> News {
        if self.position.catch_up() { News::CaughtUp } else { self.restart() }
    }

    fn restart(&mut self) -> News {
        tracing::warn!(run = %self.run, last = ?self.position.last(), "events are missing; the follower starts again from the beginning");
        ::metrics::counter!(RESETS).increment(1);
        self.position.restart();
        self.has_seen_end = false;
        self.ready.clear();
        News::Reset
    }

    /// Looks for entries after the last one, in the shared page if that has them.
    async fn poll(&mut self) -> PollResult {
        // Without a hint a read would find nothing: each write since then has sent one, or is found after the wait,
        // like every lost hint. So the read is left out; it would double the cost of a follower.
        if !self.has_seen_end {
            return self.read().await;
        }
        if !self.position.is_caught_up() {
            return PollResult::Nothing;
        }
        if self.polled_at.elapsed() >= POLL_EVERY {
            return self.read().await;
        }
        let page = match self.following.take() {
            None => return PollResult::Nothing,
            Some(None) => return self.read().await,
            Some(Some(page)) => page,
        };
        let Some(entries) = page.behind(self.position.reached()) else { return self.read().await };
        self.ready.extend(entries.iter().cloned());
        self.has_seen_end = page.is_whole;
        if self.ready.is_empty() { PollResult::Nothing } else { PollResult::Some }
    }

    async fn read(&mut self) -> PollResult {
        // Clears the hint, because the read covers it.
        self.following.take();
        self.polled_at = Instant::now();
        let asked = self.page;
        let entries = match self.store.entries(self.run, self.position.read_after(), asked).await {
            Ok(entries) => entries,
            Err(error) => {
                self.note_failure(&error);
                return PollResult::Failed;
            }
        };
        self.has_seen_end = entries.len() < asked;
        let mut entries = entries.into_iter().map(Arc::new);
        if !self.position.begins_with_last(&mut entries) {
            return PollResult::LastIsGone;
        }
        self.ready = entries.collect();
        self.keep_in_bounds();
        if self.has_seen_end {
            let last = self.position.last().unwrap_or((EntryId::ZERO, 0));
            let (entry, seq) = self.ready.back().map_or(last, |entry| (entry.id, entry.last_seq()));
            self.following.has_reached(entry, seq);
        }
        if self.ready.is_empty() { PollResult::Nothing } else { PollResult::Some }
    }

    /// Drops entries that a client would have to take before it needs them; they are read again.
    fn keep_in_bounds(&mut self) {
        let mut bytes = 0;
        let fit = self.ready.iter().take_while(|entry| {
            let is_first = bytes == 0;
            bytes += entry.bytes();
            is_first || bytes <= self.bytes_max
        });
        let fit = fit.count();
        if fit == self.ready.len() {
            self.page = (self.page * 2).min(PAGE);
            return;
        }
        self.ready.truncate(fit);
        self.has_seen_end = false;
        // And the last known one, with which each read begins.
        self.page = fit + 1;
    }

    fn note_failure(&mut self, error: &StoreError) {
        tracing::warn!(run = %self.run, %error, "events cannot be read");
        // A permanent error ends the stream; the client connects again.
        self.is_ended |= !error.is_passing();
    }

    async fn wait(&mut self) {
        let due = (self.polled_at + POLL_EVERY).min(self.pinged_at + PING_EVERY);
        // A timer that fires too early is set again then, and not with every event.
        if self.timer.is_elapsed() || self.timer.deadline() > due {
            self.timer.as_mut().reset(due);
        }
        tokio::select! {
            biased;
            () = self.following.changed() => {}
            () = &mut self.timer => {}
            () = &mut self.closing => {}
        }
    }

    /// Ends the stream when the run has ended and its last event is still missing at the second look. Returns true when
    /// the run no longer exists.
    async fn look_at_the_run(&mut self) -> bool {
        let Ok(fields) = self.store.run_fields(self.run).await else { return false };
        let status = fields.as_ref().and_then(|f| f.get("status")).and_then(|s| RunStatus::from_name(s));
        match status {
            Some(status) if !status.is_over() => {}
            Some(_) => self.looks_after_end += 1,
            None => return self.is_run_gone().await,
        }
        self.is_ended |= self.looks_after_end > 1;
        false
    }

    /// Whether the run no longer exists. During a fail-over an old master or a replica may lack a run, so only a server that
    /// takes writes counts, and only if it lacks the run at two looks.
    async fn is_run_gone(&self) -> bool {
        for look in 0..2 {
            if look > 0 {
                tokio::time::sleep(POLL_EVERY).await;
            }
            let is_missing = matches!(self.store.run_fields(self.run).await, Ok(None));
            if !is_missing || self.store.writable().await.is_err() {
                return false;
            }
        }
        true
    }

    fn gone(&mut self) -> News {
        tracing::warn!(run = %self.run, last = ?self.position.last(), "the run of a follower no longer exists");
        self.is_ended = true;
        News::Gone
    }
}
