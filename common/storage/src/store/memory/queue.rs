//! A jobs stream with its consumer group: the holder of each entry, its delivery count, and how long it has
//! been idle.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::stream::Stream;
use crate::store::{Delivered, JobHeld, JobPlace, Note, QueueState, StaleJob, TakeOver};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{Delivery, EntryId, ShardId};
use tidemill_base::limits;
use tidemill_wire::job::queued_at;
use tidemill_wire::suspect::Suspect;

/// A job that waits or is held.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) run: String,
    pub(super) body: String,
}

/// A delivery.
#[derive(Debug, Clone)]
struct Pending {
    /// `None` after the job was returned: any consumer may take it.
    consumer: Option<String>,
    number: u32,
    /// The last heartbeat; `None` for a returned job, which counts as idle at once.
    seen: Option<Timestamp>,
}

impl Pending {
    fn is_idle(&self, now: Timestamp, idle: Duration) -> bool {
        self.seen.is_none_or(|seen| seen.plus(idle) <= now)
    }
}

/// The state of a queue that was never used.
pub(super) fn state_of_none(asked: &[EntryId]) -> QueueState {
    QueueState { places: vec![JobPlace::default(); asked.len()], ..QueueState::default() }
}

fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::from_micros(u64::try_from(later.micros() - earlier.micros()).unwrap_or(0))
}

#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    jobs: Stream<Job>,
    /// The last entry that was delivered for the first time.
    read: EntryId,
    pending: BTreeMap<EntryId, Pending>,
    consumers: BTreeMap<String, Timestamp>,
    /// Records of jobs that were lost with a worker.
    suspects: BTreeMap<EntryId, Suspect>,
}

/// The origin of a delivery.
pub(super) struct JobSource<'a> {
    pub(super) shard: ShardId,
    pub(super) queue: &'a Arc<str>,
}

impl JobSource<'_> {
    fn delivered(&self, entry: EntryId, number: u32, job: &Job) -> Delivered {
        Delivered {
            shard: self.shard,
            queue: self.queue.clone(),
            entry,
            number,
            run: job.run.clone(),
            body: job.body.clone(),
        }
    }
}

impl Queue {
    pub(super) fn last(&self) -> EntryId {
        self.jobs.last()
    }

    pub(super) fn add(&mut self, entry: EntryId, job: Job) {
        self.jobs.put(entry, job);
    }

    /// Every job with its run, waiting or held.
    pub(super) fn all(&self) -> impl Iterator<Item = (EntryId, &str)> {
        self.jobs.after(EntryId::ZERO).map(|(entry, job)| (entry, job.run.as_str()))
    }

    /// Removes an entry, held or not.
    pub(super) fn remove(&mut self, entry: EntryId) {
        self.jobs.remove(entry);
        self.pending.remove(&entry);
        self.suspects.remove(&entry);
    }

    /// Delivers new jobs (`XREADGROUP >`).
    pub(super) fn read(
        &mut self,
        source: &JobSource<'_>,
        consumer: &str,
        count: usize,
        now: Timestamp,
    ) -> Vec<Delivered> {
        self.consumers.insert(consumer.to_string(), now);
        let jobs = self.jobs.after(self.read).take(count);
        let fresh: Vec<Delivered> = jobs.map(|(entry, job)| source.delivered(entry, 1, job)).collect();
        for job in &fresh {
            self.read = job.entry;
            let held = Pending { consumer: Some(consumer.to_string()), number: 1, seen: Some(now) };
            self.pending.insert(job.entry, held);
        }
        fresh
    }

    /// The jobs of a consumer.
    pub(super) fn held(&self, source: &JobSource<'_>, consumer: &str) -> Vec<Delivered> {
        let of_consumer = |pending: &Pending| pending.consumer.as_deref() == Some(consumer);
        self.pending
            .iter()
            .filter(|(_, pending)| of_consumer(pending))
            .filter_map(|(entry, pending)| {
                Some(source.delivered(*entry, pending.number, self.jobs.get(*entry)?))
            })
            .collect()
    }

    /// Whether the consumer holds the entry with this delivery count.
    pub(super) fn is_held(&self, entry: EntryId, consumer: &str, number: u32) -> bool {
        self.pending
            .get(&entry)
            .is_some_and(|p| p.consumer.as_deref() == Some(consumer) && p.number == number)
    }

    /// The time since the last sign of life of the worker that holds the entry.
    pub(super) fn idle(&self, entry: EntryId, now: Timestamp) -> Option<Duration> {
        let seen = self.pending.get(&entry)?.seen?;
        Some(Duration::from_micros((now.micros() - seen.micros()).max(0).unsigned_abs()))
    }

    /// Whether a job is held, or was returned and not taken since.
    pub(super) fn holds_any(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Renews the consumer's jobs; returns the entries that it does not hold.
    pub(super) fn heartbeat(&mut self, consumer: &str, entries: &[EntryId], now: Timestamp) -> Vec<EntryId> {
        self.consumers.insert(consumer.to_string(), now);
        let mut lost = Vec::new();
        for entry in entries {
            match self.pending.get_mut(entry) {
                Some(held) if held.consumer.as_deref() == Some(consumer) => held.seen = Some(now),
                Some(_) | None => lost.push(*entry),
            }
        }
        lost
    }

    /// The jobs without a heartbeat for `idle`.
    pub(super) fn stale(&self, source: &JobSource<'_>, idle: Duration, now: Timestamp) -> Vec<StaleJob> {
        let silent = self.pending.iter().filter(|(_, pending)| pending.is_idle(now, idle));
        let job = |(entry, pending): (&EntryId, &Pending)| StaleJob {
            shard: source.shard,
            queue: source.queue.clone(),
            entry: *entry,
            holder: pending.consumer.clone().unwrap_or_default(),
            idle: pending.seen.map_or(Duration::MAX, |seen| between(seen, now)),
            number: pending.number,
            suspect: self.suspects.get(entry).cloned(),
        };
        silent.take(limits::STALE_READ_MAX).map(job).collect()
    }

    /// Delivers a job to another consumer, if it is as it was seen, and writes the note.
    pub(super) fn take_over(
        &mut self,
        source: &JobSource<'_>,
        consumer: &str,
        idle: Duration,
        it: &TakeOver,
        now: Timestamp,
    ) -> Option<Delivered> {
        let pending = self.pending.get_mut(&it.entry)?;
        let holder = pending.consumer.as_deref().unwrap_or_default();
        if holder != it.holder || pending.number != it.number {
            return None;
        }
        let taken = match it.new_number {
            None => None,
            Some(_) if !pending.is_idle(now, idle) => return None,
            Some(_) if self.jobs.get(it.entry).is_none() => {
                self.remove(it.entry);
                return None;
            }
            Some(number) => {
                let held = Pending { consumer: Some(consumer.to_string()), number, seen: Some(now) };
                *pending = held;
                self.consumers.insert(consumer.to_string(), now);
                self.jobs.get(it.entry).map(|job| source.delivered(it.entry, number, job))
            }
        };
        match &it.note {
            Note::Leave => {}
            Note::Remove => self.forget(it.entry),
            Note::Write(suspect) => drop(self.suspects.insert(it.entry, suspect.clone())),
        }
        taken
    }

    /// Removes the record of a suspect.
    pub(super) fn forget(&mut self, entry: EntryId) {
        self.suspects.remove(&entry);
    }

    /// Returns a held job. The delivery is not counted, but the next one has a distinct number.
    pub(super) fn hand_back(&mut self, consumer: &str, entry: EntryId, number: u32) {
        if !self.is_held(entry, consumer, number) {
            return;
        }
        if let Some(held) = self.pending.get_mut(&entry) {
            *held = Pending { consumer: None, number: number + Delivery::HAND_BACK - 1, seen: None };
        }
    }

    /// Deletes consumers that hold nothing: this one, and those that were idle.
    pub(super) fn drop_consumers(&mut self, consumer: &str, idle: Duration, now: Timestamp) {
        let pending = &self.pending;
        let holds = |name: &str| pending.values().any(|p| p.consumer.as_deref() == Some(name));
        self.consumers.retain(|name, seen| holds(name) || (name != consumer && seen.plus(idle) > now));
    }

    /// Drops delivered entries that no consumer holds.
    pub(super) fn trim(&mut self) {
        let left: Vec<EntryId> = self.jobs.after(EntryId::ZERO).map(|(entry, _)| entry).collect();
        for entry in left.into_iter().filter(|entry| *entry <= self.read) {
            if !self.pending.contains_key(&entry) {
                self.jobs.remove(entry);
            }
        }
    }

    /// Counts jobs, and finds the places of some.
    pub(super) fn state(&self, asked: &[EntryId]) -> QueueState {
        let is_waiting = |entry: &EntryId| match self.pending.get(entry) {
            Some(pending) => pending.consumer.is_none(),
            None => *entry > self.read,
        };
        let all = || self.jobs.after(EntryId::ZERO).map(|(entry, _)| entry);
        let waiting: Vec<EntryId> = all().filter(is_waiting).collect();
        let place = |entry: &EntryId| {
            let (Ok(before) | Err(before)) = waiting.binary_search(entry);
            let job = self.jobs.get(*entry);
            let is_there = job.is_some();
            let held = match self.pending.get(entry) {
                _ if !is_there => JobHeld::Gone,
                Some(Pending { consumer: Some(holder), .. }) => JobHeld::By(holder.clone()),
                Some(_) | None => JobHeld::Waits,
            };
            let queued_at = job.and_then(|job| queued_at(&job.body));
            JobPlace { before: before.min(limits::JOBS_COUNTED_MAX) as u64, held, queued_at }
        };
        QueueState {
            waiting: waiting.len() as u64,
            held: (all().count() - waiting.len()) as u64,
            oldest: waiting.first().and_then(|entry| queued_at(&self.jobs.get(*entry)?.body)),
            places: asked.iter().map(place).collect(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether an entry is neither waiting nor held.
    pub(super) fn is_lost(&self, entry: EntryId) -> bool {
        let waits = entry > self.read && self.jobs.get(entry).is_some();
        !waits && !self.pending.contains_key(&entry)
    }
}
