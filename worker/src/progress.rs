//! What a job tells while it runs: that it has started, and the text it streams. The first piece after a quiet time goes
//! out at once, the following ones are gathered for at most 20 ms. A job that ends before anything is due tells nothing.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, ready};
use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::RunId;
use tidemill_common::limits;
use tidemill_common::value::Selector;
use tidemill_common::wire::fact::{JobName, Report};
use tokio::time::Instant;

use crate::lanes::Lane;
use crate::metrics;

const STARTED_AFTER: Duration = Duration::from_millis(limits::STARTED_AFTER_MS);
const GATHER: Duration = Duration::from_millis(limits::CHUNK_GATHER_MS);
/// Text that is not held back any longer, however busy the lane is.
const PENDING_BYTES_MAX: usize = 64 * 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct Progress {
    lane: Lane,
    run: RunId,
    name: JobName,
    started_at: Timestamp,
    began: Instant,
    /// The text it streams, when anybody reads it.
    selector: Option<Selector>,
    announced: bool,
    /// Bytes that were sent.
    sent: u64,
    pending: String,
    last: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(
        lane: Lane,
        run: RunId,
        name: JobName,
        started_at: Timestamp,
        selector: Option<Selector>,
    ) -> Self {
        Self {
            lane,
            run,
            name,
            started_at,
            began: Instant::now(),
            selector,
            announced: false,
            sent: 0,
            pending: String::new(),
            last: None,
        }
    }

    /// Takes a piece of text.
    pub(crate) fn push(&mut self, text: &str) {
        if self.selector.is_none() || text.is_empty() {
            return;
        }
        self.pending.push_str(text);
        let now = Instant::now();
        let quiet = self.last.is_none_or(|last| now.duration_since(last) >= GATHER);
        // Text that waits already is due by itself.
        if quiet && self.pending.len() == text.len() && !self.lane.is_busy() {
            self.send(now);
        }
    }

    /// When something is to be told.
    fn due(&self) -> Option<Instant> {
        if !self.pending.is_empty() {
            return Some(self.last.unwrap_or(self.began) + GATHER);
        }
        (!self.announced).then(|| self.began + STARTED_AFTER)
    }

    fn fire(&mut self, now: Instant) {
        if self.pending.is_empty() {
            self.announced = true;
            self.report(&Report::Started { at: self.started_at });
        } else if self.lane.is_busy() && self.pending.len() < PENDING_BYTES_MAX {
            self.last = Some(now);
        } else {
            self.send(now);
        }
    }

    /// Sends what is pending.
    pub(crate) fn flush(&mut self) {
        if !self.pending.is_empty() {
            self.send(Instant::now());
        }
    }

    /// How many bytes of which text were streamed, sent or not: what was not sent is found in the outputs.
    pub(crate) fn streamed(&self) -> Vec<(Selector, u64)> {
        let total = self.sent + self.pending.len() as u64;
        self.selector.iter().map(|selector| (selector.clone(), total)).collect()
    }

    fn send(&mut self, now: Instant) {
        let Some(selector) = self.selector.clone() else { return };
        let text = std::mem::take(&mut self.pending);
        let length = text.len() as u64;
        let chunk = Report::Chunk { started_at: self.started_at, selector, offset: self.sent, text };
        self.report(&chunk);
        metrics::CHUNKS.count();
        self.announced = true;
        self.sent += length;
        self.last = Some(now);
    }

    fn report(&self, report: &Report) {
        self.lane.report(self.run, report.kind(), report.to_json(&self.name));
    }
}

/// The progress of one attempt, shared between the node, which pushes, and [`tell`], which sends.
#[derive(Debug)]
pub(crate) struct SharedProgress(Mutex<Progress>);

impl SharedProgress {
    pub(crate) fn new(progress: Progress) -> Self {
        Self(Mutex::new(progress))
    }
    pub(crate) fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs something and tells of its progress meanwhile.
pub(crate) async fn telling<T>(progress: &SharedProgress, work: impl Future<Output = T>) -> T {
    tokio::select! {
        // The work first: what it pushes is looked at in the same turn, so that no waking is needed between the two.
        biased;
        done = work => done,
        never = tell(progress) => match never {},
    }
}

async fn tell(progress: &SharedProgress) -> Infallible {
    let mut sleep = pin!(tokio::time::sleep(STARTED_AFTER));
    poll_fn(|cx| {
        loop {
            let due = {
                let mut progress = progress.lock();
                let (due, now) = (progress.due(), Instant::now());
                match due {
                    None => return Poll::Pending,
                    Some(due) if due <= now => {
                        progress.fire(now);
                        continue;
                    }
                    Some(due) => due,
                }
            };
            if sleep.deadline() != due {
                sleep.as_mut().reset(due);
            }
            ready!(sleep.as_mut().poll(cx));
        }
    })
    .await
}
