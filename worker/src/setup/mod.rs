//! The set-up of this worker: what it can do, what it lacks, and which jobs it hands back because another living worker
//! can do them.
//!
//! [`survey`] finds out what this worker can do, and the heartbeat writes that into the worker's record in Redis.
//! [`decide`] compares a need with the records of others, and [`pass_on`] hands a job back.

pub(crate) mod decide;
pub(crate) mod of_settings;
pub(crate) mod pass_on;
pub(crate) mod survey;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::config::Config;
use tidemill_common::dsl::SealingKey;
use tidemill_common::need::Need;
use tidemill_common::store::{Jobs, LiveWorker, StoreError};
use tidemill_common::wire::worker::{AboutWorker, Missing};
use tokio::time::Instant;

use crate::jobs::in_flight::JobPlace;
use crate::setup::decide::Wanted;

/// The time for which a need counts as missing after a job has asked for it. After it the worker tries again.
const ASKED_KEPT: Duration = Duration::from_secs(600);
/// The least time between two notes of the same need, so that many failures do not write the record each time.
const ASKED_AGAIN: Duration = Duration::from_secs(5);
/// Most needs that are remembered; the oldest go first.
const ASKED_MAX: usize = 64;
/// The longest age of the list of workers when a job is handed back.
pub(crate) const FLEET_KEPT: Duration = Duration::from_secs(2);
/// The time after which a job that was handed back is forgotten. One that still waits is handed back again.
const PASSED_KEPT: Duration = Duration::from_secs(3600);
/// Most handed back jobs that are remembered. A forgotten one is handed back again.
const PASSED_MAX: usize = 10_000;

/// The state of the set-up. One per worker.
pub(crate) struct Setup {
    /// The key that opens sealed secrets.
    pub(crate) key: Option<SealingKey>,
    /// True if the record has the key's fingerprint.
    pub(crate) shows_key: bool,
    host: String,
    started_at: i64,
    inner: Mutex<Inner>,
    /// Held while the list of workers is read, so that one job reads it for all.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Inner {
    /// As surveyed, without what jobs have asked for.
    surveyed: AboutWorker,
    /// Needs of jobs that could not be met here.
    asked: Vec<Asked>,
    /// The record that was last written.
    written: Option<Arc<AboutWorker>>,
    fleet: Option<(Instant, Arc<Vec<LiveWorker>>)>,
    /// Jobs that were handed back, with what they need, and when.
    passed: HashMap<JobPlace, (Wanted, Instant)>,
}

/// A need of a job that could not be met here.
struct Asked {
    missing: Missing,
    at: Instant,
    /// The survey had found the need missing at that time.
    was_lacking: bool,
}

impl Asked {
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < ASKED_KEPT
    }
}

impl Setup {
    pub(crate) fn new(key: Option<SealingKey>) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            key,
            shows_key: true,
            host: host.trim().to_owned(),
            started_at: SystemClock.now().micros(),
            inner: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        }
    }

    /// The record of this worker.
    pub(crate) fn about(&self) -> AboutWorker {
        let inner = self.lock();
        let mut about = inner.surveyed.clone();
        let fresh = inner.asked.iter().filter(|asked| asked.is_fresh());
        let asked: Vec<Missing> = fresh.map(|asked| asked.missing.clone()).collect();
        about.missing.retain(|known| asked.iter().all(|one| one.need != known.need));
        about.missing.extend(asked);
        about
    }

    /// The fingerprint of the secret key, as far as it is known.
    pub(crate) fn fingerprint(&self) -> Option<String> {
        self.lock().surveyed.key.clone()
    }

    /// Replaces what is known. A need that can be met again is no longer missing.
    fn set(&self, surveyed: AboutWorker) {
        let mut inner = self.lock();
        inner.asked.retain(|asked| asked.is_fresh() && !is_mended(asked, &surveyed));
        inner.surveyed = surveyed;
    }

    /// Notes that a job needed what this worker lacks.
    fn note(&self, need: &Need, reason: &str) {
        let missing =
            Missing { need: need.clone(), reason: reason.into(), asked_at: Some(SystemClock.now().micros()) };
        let mut inner = self.lock();
        if inner.asked.iter().any(|known| known.missing.need == *need && known.at.elapsed() < ASKED_AGAIN) {
            return;
        }
        inner.asked.retain(|known| known.missing.need != *need);
        if inner.asked.len() >= ASKED_MAX {
            inner.asked.remove(0);
        }
        let was_lacking = inner.surveyed.missing.iter().any(|known| known.need == *need);
        inner.asked.push(Asked { missing, at: Instant::now(), was_lacking });
    }

    /// Notes that a job has got what it needed here, so other workers may count on this one again. They read it with
    /// the next heartbeat.
    pub(crate) fn met(&self, need: &Need) {
        let mut inner = self.lock();
        inner.asked.retain(|known| known.missing.need != *need);
    }

    /// Returns true if the record differs from the written one.
    fn is_changed(&self) -> bool {
        let about = self.about();
        self.lock().written.as_deref() != Some(&about)
    }

    /// Writes the record; all of it only when it has changed or is not there.
    ///
    /// # Errors
    /// An error of the store.
    pub(crate) async fn write(
        &self,
        jobs: &dyn Jobs,
        (name, ttl, held): (&str, Duration, usize),
    ) -> Result<(), StoreError> {
        let (about, is_changed) = (Arc::new(self.about()), self.is_changed());
        let fleet = jobs.fleet();
        let is_new = fleet.note_worker(name, ttl, held, is_changed.then_some(&*about)).await?;
        if is_new && !is_changed {
            fleet.note_worker(name, ttl, held, Some(&about)).await?;
        }
        self.lock().written = Some(about);
        Ok(())
    }

    /// Returns the living workers, at most [`FLEET_KEPT`] old. `None` when the store does not answer.
    async fn fleet(&self, jobs: &dyn Jobs) -> Option<Arc<Vec<LiveWorker>>> {
        if let Some(fresh) = self.fresh_fleet() {
            return Some(fresh);
        }
        let _reading = self.reading.lock().await;
        if let Some(fresh) = self.fresh_fleet() {
            return Some(fresh);
        }
        let read = jobs.fleet().workers().await.map(Arc::new);
        let fleet = read.inspect_err(|error| tracing::warn!(%error, "the list of workers cannot be read"));
        let fleet = fleet.ok()?;
        self.lock().fleet = Some((Instant::now(), fleet.clone()));
        Some(fleet)
    }

    fn fresh_fleet(&self) -> Option<Arc<Vec<LiveWorker>>> {
        let known = self.lock().fleet.clone();
        known.filter(|(at, _)| at.elapsed() < FLEET_KEPT).map(|(_, fleet)| fleet)
    }

    /// Remembers a job that was handed back. Returns false if it was known already.
    fn remember(&self, place: &JobPlace, wanted: Wanted) -> bool {
        let mut inner = self.lock();
        if inner.passed.len() >= PASSED_MAX {
            inner.passed.retain(|_, (_, at)| at.elapsed() < PASSED_KEPT);
        }
        if inner.passed.len() >= PASSED_MAX {
            inner.passed.clear();
        }
        inner.passed.insert(place.clone(), (wanted, Instant::now())).is_none()
    }

    /// Returns true if this worker has handed the job back.
    pub(crate) fn has_passed(&self, place: &JobPlace) -> bool {
        self.lock().passed.contains_key(place)
    }

    /// Reads the list of workers again, if it is too old.
    pub(crate) async fn look_at_fleet(&self, jobs: &dyn Jobs) {
        drop(self.fleet(jobs).await);
    }

    /// Returns true if this worker, `me`, has handed the job back, and others can still do it, as far as is known.
    pub(crate) fn is_for_others(&self, me: &str, place: &JobPlace) -> bool {
        let inner = self.lock();
        let (Some((wanted, _)), Some((_, fleet))) = (inner.passed.get(place), &inner.fleet) else {
            return false;
        };
        !decide::able(fleet, me, &place.queue, wanted, inner.surveyed.key.as_deref()).is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code panics while it holds the lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if a survey shows that a need can be met now. Only for what a survey can know better than the job that
/// has failed: code and documents may look well in a survey even when they do not run. But if the survey had found them
/// missing too, it sees when they are there.
fn is_mended(asked: &Asked, surveyed: &AboutWorker) -> bool {
    let need = &asked.missing.need;
    match need {
        Need::Provider { .. }
        | Need::Profile { .. }
        | Need::Tool { .. }
        | Need::Call { .. }
        | Need::Variable { .. } => decide::can(surveyed, need, None),
        // One that is still being prepared is not there.
        Need::Plugin { id, sha256 } => surveyed.has_plugin(id, sha256),
        Need::Code { .. } | Need::Documents => asked.was_lacking && decide::can(surveyed, need, None),
        Need::SecretKey { .. } => false,
    }
}

/// The settings that never change while the worker runs.
pub(crate) fn fixed(setup: &Setup, config: &Config) -> AboutWorker {
    AboutWorker {
        version: env!("CARGO_PKG_VERSION").into(),
        host: setup.host.clone(),
        pid: std::process::id(),
        started_at: setup.started_at,
        queues: config.worker.queues.clone(),
        permits: config.worker.permits,
        datasets: config.knowledge.names().map(str::to_owned).collect(),
        ..AboutWorker::default()
    }
}

#[cfg(test)]
mod tests;
