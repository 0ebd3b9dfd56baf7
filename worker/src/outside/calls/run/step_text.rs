//! Sends a step's text to the user while it runs. The first piece after a quiet time is sent at once. Later pieces are
//! gathered for at most `worker.chunk_gather_ms`, or longer while the report queue is long.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::attempt::growing::Growing;
use crate::attempt::journal::Journal;
use crate::outside::calls::step_events::{StepEvents, emit};

/// More pending text than this is sent even when the report queue is long.
const PENDING_BYTES_MAX: usize = 64 * 1024;
/// The sleep of a timer that is not set.
const NEVER: Duration = Duration::from_secs(3600);

/// The text of one step; see the module.
pub(crate) struct StepText<'a> {
    journal: &'a Journal,
    step_events: &'a StepEvents,
    gather: Duration,
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    text: Growing,
    last: Option<Instant>,
}

impl<'a> StepText<'a> {
    pub(crate) fn new(journal: &'a Journal, step_events: &'a StepEvents) -> Self {
        Self { journal, step_events, gather: journal.chunk_gather(), pending: Mutex::default() }
    }

    /// Adds a piece.
    pub(crate) fn push(&self, text: &str) {
        let now = Instant::now();
        let mut pending = self.lock();
        let quiet = pending.last.is_none_or(|last| now.duration_since(last) >= self.gather);
        let is_first = pending.text.ready() == 0;
        pending.text.push(text, self.journal.secrets());
        let at_once = self.gather.is_zero() || quiet && is_first && !self.journal.reports_are_delayed();
        if at_once || pending.text.ready() >= PENDING_BYTES_MAX {
            self.send(&mut pending, now);
        }
    }

    /// Sends all pending text, because no more follows soon.
    pub(crate) fn flush(&self) {
        let mut pending = self.lock();
        pending.text.end();
        self.send(&mut pending, Instant::now());
    }

    /// Runs `work`, which adds pieces, and sends all of them until it is done.
    pub(crate) async fn of<T>(&self, work: impl Future<Output = T>) -> T {
        let done = tokio::select! {
            // The work comes first: the same poll then sees its pieces.
            biased;
            done = work => done,
            never = self.send_due() => match never {},
        };
        self.flush();
        done
    }

    async fn send_due(&self) -> Infallible {
        let mut sleep = pin!(tokio::time::sleep(NEVER));
        poll_fn(|cx| {
            loop {
                let due = {
                    let mut pending = self.lock();
                    let Some(last) = pending.last.filter(|_| pending.text.ready() > 0) else {
                        if pending.text.ready() == 0 {
                            return Poll::Pending;
                        }
                        // The report queue was long when the text began.
                        pending.last = Some(Instant::now());
                        continue;
                    };
                    let (due, now) = (last + self.gather, Instant::now());
                    if due <= now {
                        match self.journal.reports_are_delayed() {
                            true => pending.last = Some(now),
                            false => self.send(&mut pending, now),
                        }
                        continue;
                    }
                    due
                };
                if sleep.deadline() != due {
                    sleep.as_mut().reset(due);
                }
                ready!(sleep.as_mut().poll(cx));
            }
        })
        .await
    }

    fn send(&self, pending: &mut Pending, now: Instant) {
        if pending.text.ready() > 0 {
            emit(self.journal, self.step_events.text(&pending.text.take()));
            pending.last = Some(now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
