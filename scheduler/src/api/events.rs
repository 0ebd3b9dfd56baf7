//! The follower: a run's events in order, from the beginning, for whoever tells them. It notices when events that a
//! client has seen, or should see, are gone, and then begins anew.
//!
//! Each read begins with the last entry known, so that its absence shows: Redis may have lost writes, or the stream
//! was cut at its bound. What lies before the point that the client asked for is handed out too, marked as old: a
//! projection needs it for its state.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use tidemill_common::ids::{EntryId, RunId};
use tidemill_common::machine::run::RunStatus;
use tidemill_common::store::{Runs, StoreError};
use tidemill_common::wire::event::EventRecord;
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::ApiState;
use super::error::ApiError;
use super::metrics::{OpenStream, RESETS};

/// Entries read at once.
const PAGE: usize = 256;
/// Longest wait between two looks; hints may get lost.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Silence after which a sign of life is due (Dify's).
pub const PING_EVERY: Duration = Duration::from_secs(10);
/// Pause after the store failed.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// From where on a client wants to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Everything.
    Start,
    /// What lies behind this entry.
    Entry(EntryId),
    /// What comes from now on.
    Now,
}

impl After {
    /// What the header `Last-Event-ID` asks for; `0` is the start.
    ///
    /// # Errors
    /// 400 when it is no entry's id.
    pub fn of_header(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        match headers.get("last-event-id") {
            None => Ok(None),
            Some(value) => Self::of_text(value.to_str().unwrap_or("?")).map(Some),
        }
    }
    /// Reads an entry's id.
    ///
    /// # Errors
    /// 400 when it is none.
    pub fn of_text(text: &str) -> Result<Self, ApiError> {
        let id: EntryId =
            text.trim().parse().map_err(|e| ApiError::invalid_param(format!("event id: {e}")))?;
        Ok(if id == EntryId::ZERO { Self::Start } else { Self::Entry(id) })
    }
}

/// The events of one entry.
#[derive(Debug)]
pub struct Entry {
    /// Its id.
    pub id: EntryId,
    /// Its events.
    pub records: Vec<EventRecord>,
    /// Whether it lies before what the client asked for.
    pub is_old: bool,
}

/// What a follower has to tell.
#[derive(Debug)]
pub enum News {
    /// Events.
    Entry(Entry),
    /// All that was there is told; what comes now is live.
    CaughtUp,
    /// Events are gone: forget what was told, it begins anew.
    Reset,
    /// Nothing for a while.
    Silence,
}

/// Follows one run.
pub struct Follower {
    store: Arc<dyn Runs>,
    run: RunId,
    /// Changes when there may be news; taken before the first look, so that nothing falls between the two.
    ticks: Receiver<u64>,
    shutdown: Receiver<bool>,
    /// Longest silence; none for a caller who waits for the end.
    idle_max: Option<Duration>,
    after: After,
    /// Whether the entry that was asked for has come by.
    is_found: bool,
    /// The last entry that was handed out, and the number of its last event.
    last: Option<(EntryId, u64)>,
    /// The number that the next event must have.
    next_seq: Option<u64>,
    /// After a reset the gaps of what is left are known.
    forgives_gaps: bool,
    ready: VecDeque<Entry>,
    /// The last look saw the stream to its end.
    has_seen_end: bool,
    is_caught_up: bool,
    is_ended: bool,
    told_at: Instant,
    pinged_at: Instant,
    /// Looks at a run that is over but whose last event does not come.
    looks_after_end: u32,
    _open: OpenStream,
}

enum Read {
    Some,
    Nothing,
    LastIsGone,
    Failed,
}

impl Follower {
    /// Begins to follow.
    pub fn new(state: &ApiState, run: RunId, after: After) -> Self {
        let now = Instant::now();
        Self {
            store: state.store.clone(),
            run,
            ticks: state.store.follow(run),
            shutdown: state.shutdown.clone(),
            idle_max: Some(Duration::from_secs(state.config.scheduler.stream_idle_seconds)),
            after,
            is_found: !matches!(after, After::Entry(_)),
            last: None,
            next_seq: (after == After::Start).then_some(1),
            forgives_gaps: false,
            ready: VecDeque::new(),
            has_seen_end: false,
            is_caught_up: false,
            is_ended: false,
            told_at: now,
            pinged_at: now,
            looks_after_end: 0,
            _open: OpenStream::count(),
        }
    }

    /// Follows to the end, however long it is silent and whether or not the process is told to stop.
    pub fn to_the_end(state: &ApiState, run: RunId) -> Self {
        // A closed channel never says stop.
        let (_, never) = tokio::sync::watch::channel(false);
        Self { idle_max: None, shutdown: never, ..Self::new(state, run, After::Start) }
    }

    /// The next news; none when the run's last event was told, nothing came for too long, or the process stops.
    pub async fn next(&mut self) -> Option<News> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Some(self.hand_out(entry));
            }
            if self.is_ended || *self.shutdown.borrow() {
                return None;
            }
            // Another look would find nothing: whatever was written since then has changed the ticks, or is found after
            // the wait like every hint that got lost. It would double what a follower costs.
            let looks = !(self.is_caught_up && std::mem::take(&mut self.has_seen_end) && !self.has_ticked());
            match if looks { self.read().await } else { Read::Nothing } {
                Read::Some => continue,
                Read::LastIsGone => return Some(self.begin_anew()),
                Read::Nothing if !self.is_caught_up => return Some(self.catch_up()),
                Read::Nothing => self.wait().await,
                Read::Failed => tokio::time::sleep(FAILURE_PAUSE).await,
            }
            if self.idle_max.is_some_and(|max| self.told_at.elapsed() >= max) {
                return None;
            }
            if self.pinged_at.elapsed() >= PING_EVERY {
                self.pinged_at = Instant::now();
                self.look_at_the_run().await;
                return Some(News::Silence);
            }
        }
    }

    fn hand_out(&mut self, mut entry: Entry) -> News {
        match self.after {
            After::Start => {}
            After::Now => entry.is_old = !self.is_caught_up,
            After::Entry(asked) => {
                self.is_found |= entry.id == asked;
                entry.is_old = entry.id <= asked;
            }
        }
        if !entry.is_old && (!self.is_found || self.has_gap(&entry)) {
            return self.begin_anew();
        }
        if let Some(record) = entry.records.last() {
            self.last = Some((entry.id, record.seq));
            self.next_seq = Some(record.seq + 1);
        }
        self.is_ended |= entry.records.iter().any(EventRecord::is_terminal);
        self.told_at = Instant::now();
        self.pinged_at = self.told_at;
        News::Entry(entry)
    }

    fn has_gap(&self, entry: &Entry) -> bool {
        let mut expected = self.next_seq;
        let mut has_gap = false;
        for record in &entry.records {
            has_gap |= expected.is_some_and(|seq| seq != record.seq);
            expected = Some(record.seq + 1);
        }
        has_gap && !self.forgives_gaps
    }

    fn catch_up(&mut self) -> News {
        if !self.is_found {
            return self.begin_anew();
        }
        self.is_caught_up = true;
        self.forgives_gaps = false;
        News::CaughtUp
    }

    fn begin_anew(&mut self) -> News {
        tracing::warn!(run = %self.run, last = ?self.last, "events are gone, the follower begins anew");
        ::metrics::counter!(RESETS).increment(1);
        self.after = After::Start;
        self.is_found = true;
        self.last = None;
        self.next_seq = None;
        self.forgives_gaps = true;
        self.is_caught_up = false;
        self.has_seen_end = false;
        self.ready.clear();
        News::Reset
    }

    async fn read(&mut self) -> Read {
        self.ticks.mark_unchanged();
        let from = self.last.map_or(EntryId::ZERO, |(entry, _)| before(entry));
        let records = match self.store.events(self.run, from, PAGE).await {
            Ok(records) => records,
            Err(error) => {
                self.note_failure(&error);
                return Read::Failed;
            }
        };
        let mut entries = by_entry(records);
        self.has_seen_end = entries.len() < PAGE;
        if let Some(last) = self.last {
            let first = entries.pop_front().and_then(|entry| Some((entry.id, entry.records.last()?.seq)));
            if first != Some(last) {
                return Read::LastIsGone;
            }
        }
        self.ready = entries;
        if self.ready.is_empty() { Read::Nothing } else { Read::Some }
    }

    /// Whether something may have been written since the last look began.
    fn has_ticked(&self) -> bool {
        self.ticks.has_changed().unwrap_or(false)
    }

    fn note_failure(&mut self, error: &StoreError) {
        tracing::warn!(run = %self.run, %error, "events cannot be read");
        // What will not pass ends the stream; the client comes back by itself.
        self.is_ended |= !error.is_passing();
    }

    async fn wait(&mut self) {
        let at_most = LOOK_EVERY.min(PING_EVERY.saturating_sub(self.pinged_at.elapsed()));
        let Self { ticks, shutdown, .. } = self;
        let tick = async {
            if ticks.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = tick => {}
            () = tokio::time::sleep(at_most) => {}
            () = closing(shutdown) => {}
        }
    }

    /// A run that is gone, or over without a last event that could still come, has nothing more to tell.
    async fn look_at_the_run(&mut self) {
        let Ok(fields) = self.store.run_fields(self.run).await else { return };
        let status = fields.as_ref().and_then(|f| f.get("status")).and_then(|s| RunStatus::from_name(s));
        match status {
            Some(status) if !status.is_over() => {}
            Some(_) => self.looks_after_end += 1,
            None => self.is_ended = true,
        }
        self.is_ended |= self.looks_after_end > 1;
    }
}

/// Returns when the process is about to stop, and never otherwise.
pub async fn closing(shutdown: &mut Receiver<bool>) {
    if shutdown.wait_for(|is_closing| *is_closing).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The id just before another.
fn before(entry: EntryId) -> EntryId {
    match entry.minor.checked_sub(1) {
        Some(minor) => EntryId::new(entry.major, minor),
        None => EntryId::new(entry.major.saturating_sub(1), u64::MAX),
    }
}

fn by_entry(records: Vec<EventRecord>) -> VecDeque<Entry> {
    let mut entries: VecDeque<Entry> = VecDeque::new();
    for record in records {
        match entries.back_mut() {
            Some(entry) if entry.id == record.entry => entry.records.push(record),
            Some(_) | None => {
                entries.push_back(Entry { id: record.entry, records: vec![record], is_old: false });
            }
        }
    }
    entries
}
