//! A simulated worker: it takes jobs, reports progress, sends results, and may die or freeze while it holds jobs.
//! Results come from the script, or for a pure node from the engine's own code.

use std::collections::BTreeMap;
use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::{Delivery, EntryId};
use tidemill_common::limits;
use tidemill_common::store::{Accepted, Delivered, Jobs};
use tidemill_common::wire::job::{self, Job};
use tidemill_common::wire::report::{JobName, Report};

use super::execute::{self, Result};
use super::ground::{Ground, QUEUE, at_once};
use super::network::{HandIn, Message};
use crate::guards::Guard;

const LEASE: Duration = Duration::from_millis(limits::JOB_LEASE_MS);
/// No job is silent for so long. Only a job that was handed back can be taken over at once.
const HANDED_BACK: Duration = Duration::from_secs(365 * 24 * 3600);
/// Time after which a result without an answer is sent again.
const AGAIN: Duration = Duration::from_secs(1);
/// Number of jobs that it runs at once.
const PERMITS: usize = 3;

/// A worker with the jobs that it holds.
pub(crate) struct Worker {
    number: usize,
    life: u32,
    awake_since: Timestamp,
    frozen_until: Option<Timestamp>,
    beaten_at: Timestamp,
    held: BTreeMap<u64, Held>,
}

struct Held {
    delivered: Delivered,
    job: Job,
    name: JobName,
    started_at: Timestamp,
    /// The result; computed when it is first needed.
    result: Option<Result>,
    /// Bytes of the text that were sent.
    sent: usize,
    /// Time when the result was last sent.
    sent_at: Option<Timestamp>,
}

impl Worker {
    /// Creates a worker without jobs.
    pub(crate) fn new(number: usize, now: Timestamp) -> Self {
        Self { number, life: 1, awake_since: now, frozen_until: None, beaten_at: now, held: BTreeMap::new() }
    }

    fn consumer(&self) -> String {
        format!("w{}.{}", self.number, self.life)
    }

    fn is_awake(&mut self, ground: &mut Ground) -> bool {
        if self.frozen_until.is_some_and(|until| until > ground.now()) {
            return false;
        }
        if self.frozen_until.take().is_some() {
            let consumer = self.consumer();
            ground.tell(|| format!("{consumer} wakes up"));
            self.awake_since = ground.now();
            // It does not know that it was frozen: it first sends what it has, and then learns which jobs it lost.
            if ground.dice.percent(60) {
                self.work(ground);
            }
        }
        true
    }

    /// Work by the clock: the heartbeat, which also returns the jobs that are lost.
    pub(crate) fn tick(&mut self, ground: &mut Ground) {
        if !self.is_awake(ground) || self.beaten_at.plus(LEASE / 3) > ground.now() {
            return;
        }
        self.beaten_at = ground.now();
        for shard in ground.shards() {
            let of_shard = |held: &&Held| held.delivered.shard == shard;
            let entries: Vec<EntryId> =
                self.held.values().filter(of_shard).map(|it| it.delivered.entry).collect();
            let lost =
                at_once(ground.store.heartbeat(shard, QUEUE, &self.consumer(), &entries)).unwrap_or_default();
            // A result that is on its way cannot be taken back.
            self.held.retain(|_, it| {
                it.sent_at.is_some() || it.delivered.shard != shard || !lost.contains(&it.delivered.entry)
            });
        }
    }

    /// Does one thing, or has a fault.
    pub(crate) fn turn(&mut self, ground: &mut Ground) {
        if !self.is_awake(ground) {
            return;
        }
        let consumer = self.consumer();
        if ground.strikes(|f| f.worker_dies) {
            ground.tell(|| format!("{consumer} dies, holding {} jobs", self.held.len()));
            ground.count("workers killed");
            *self = Self { life: self.life + 1, ..Self::new(self.number, ground.now()) };
            return;
        }
        if ground.strikes(|f| f.worker_freezes) {
            let ms = ground.dice.between(100, 30_000);
            ground.tell(|| format!("{consumer} freezes for {ms} ms"));
            ground.count("workers frozen");
            self.frozen_until = Some(ground.now().plus(Duration::from_millis(ms)));
            return;
        }
        if ground.strikes(|f| f.hands_back) {
            return self.hand_back(ground);
        }
        match ground.dice.below(10) {
            0..=2 => self.take(ground),
            3 => self.take_over(ground),
            _ => self.work(ground),
        }
    }

    /// Does all pending work, without faults.
    pub(crate) fn settle(&mut self, ground: &mut Ground) {
        self.frozen_until = None;
        self.take_over(ground);
        self.take(ground);
        for slot in self.held.keys().copied().collect::<Vec<_>>() {
            self.hand_in(slot, ground);
        }
    }

    /// Handles the answer to a result.
    pub(crate) fn answered(&mut self, life: u32, slot: u64, accepted: Accepted) {
        match accepted {
            _ if life != self.life => {}
            Accepted::Stored | Accepted::NotYours => {
                self.held.remove(&slot);
            }
            Accepted::BlobMissing => {
                if let Some(held) = self.held.get_mut(&slot) {
                    held.sent_at = None;
                }
            }
        }
    }

    fn take(&mut self, ground: &mut Ground) {
        let free = PERMITS.saturating_sub(self.held.len());
        let Ok(mut reader) = at_once(ground.store.job_reader(&self.consumer())) else { return };
        for shard in ground.shards() {
            if free == 0 {
                return;
            }
            let jobs = at_once(reader.read(&[(shard, QUEUE.into())], 1, Duration::ZERO));
            jobs.into_iter().flatten().for_each(|job| self.begin(job, ground));
        }
    }

    fn take_over(&mut self, ground: &mut Ground) {
        if ground.off == Some(Guard::TakeOver) || self.held.len() >= PERMITS {
            return;
        }
        // During one lease after its start all jobs may look abandoned, because it could not see heartbeats before.
        let idle = if self.awake_since.plus(LEASE) <= ground.now() { LEASE } else { HANDED_BACK };
        for shard in ground.shards() {
            let taken = at_once(ground.store.take_over(shard, QUEUE, &self.consumer(), idle, 1));
            for job in taken.into_iter().flatten() {
                ground.count("jobs taken over");
                self.begin(job, ground);
            }
        }
    }

    fn begin(&mut self, delivered: Delivered, ground: &mut Ground) {
        let consumer = self.consumer();
        ground.tell(|| {
            format!("{consumer} holds {} ({}): {}", delivered.entry, delivered.number, delivered.body)
        });
        let read = delivered.run.parse().ok().and_then(|run| job::parse(run, &delivered.body).ok());
        let Some(job) = read else {
            return ground.watch.found("SIM-13", format!("a job cannot be read: {}", delivered.body));
        };
        ground.handed_out += 1;
        let name = JobName {
            frame: job.frame.clone(),
            node: job.node.clone(),
            attempt: job.attempt,
            entry: delivered.entry,
            holder: Delivery {
                consumer: consumer.into(),
                number: job.delivered.saturating_add(delivered.number),
            },
        };
        let started_at = ground.now();
        let held = Held { delivered, job, name, started_at, result: None, sent: 0, sent_at: None };
        self.held.insert(ground.handed_out, held);
    }

    /// Continues one of its jobs.
    fn work(&mut self, ground: &mut Ground) {
        let slots: Vec<u64> = self.held.keys().copied().collect();
        let Some(&slot) = ground.dice.pick(&slots) else { return };
        match ground.dice.below(8) {
            0 => self.report_started(slot, ground),
            1..=5 => self.report_piece(slot, ground),
            6 => {}
            _ => self.hand_in(slot, ground),
        }
    }

    fn report_started(&mut self, slot: u64, ground: &mut Ground) {
        let Some(held) = self.held.get(&slot).filter(|held| held.sent_at.is_none()) else { return };
        let report = Report::Started { at: held.started_at };
        ground.send(Message::Report(held.job.run, report.kind(), report.to_json(&held.name)));
    }

    /// Sends a piece of its text, of random length.
    fn report_piece(&mut self, slot: u64, ground: &mut Ground) {
        let Some(held) = self.held.get_mut(&slot).filter(|held| held.sent_at.is_none()) else { return };
        let result = held
            .result
            .get_or_insert_with(|| execute::run(&held.job, &held.name, held.delivered.shard, slot, ground));
        let Some((selector, text)) = &result.streams else { return };
        let left = text.get(held.sent..).unwrap_or_default();
        let letters = 1 + ground.dice.below(12);
        let piece: String = left.chars().take(letters).collect();
        if piece.is_empty() {
            return;
        }
        let (started_at, offset) = (held.started_at, held.sent as u64);
        let report = Report::Chunk { started_at, selector: selector.clone(), offset, text: piece.clone() };
        held.sent += piece.len();
        ground.send(Message::Report(held.job.run, report.kind(), report.to_json(&held.name)));
    }

    /// Sends the result, or sends it again.
    fn hand_in(&mut self, slot: u64, ground: &mut Ground) {
        let consumer = self.consumer();
        let Some(held) = self.held.get_mut(&slot) else { return };
        if held.sent_at.is_some_and(|sent| sent.plus(AGAIN) > ground.now()) {
            return;
        }
        held.sent_at = Some(ground.now());
        let shard = held.delivered.shard;
        let result =
            held.result.get_or_insert_with(|| execute::run(&held.job, &held.name, shard, slot, ground));
        for (id, text) in &result.blobs {
            at_once(ground.store.store_blob(shard, id, text)).ok();
        }
        let it = HandIn {
            shard,
            queue: held.delivered.queue.clone(),
            sender: (self.number, self.life, slot),
            consumer,
            completion: result.completion(&held.delivered, &held.job, &held.name, held.started_at),
            gives_up: result.gives_up.clone(),
        };
        ground.send(Message::Result(Box::new(it)));
    }

    fn hand_back(&mut self, ground: &mut Ground) {
        let slots: Vec<u64> =
            self.held.iter().filter(|(_, it)| it.sent_at.is_none()).map(|(slot, _)| *slot).collect();
        let Some(held) = ground.dice.pick(&slots).and_then(|slot| self.held.remove(slot)) else { return };
        let Delivered { shard, entry, number, .. } = held.delivered;
        let consumer = self.consumer();
        ground.tell(|| format!("{consumer} hands {entry} back"));
        ground.count("jobs handed back");
        at_once(ground.store.hand_back(shard, QUEUE, &consumer, &[(entry, number)])).ok();
    }
}
