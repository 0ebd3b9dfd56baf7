//! A simulated worker: it takes jobs, reports progress, sends results, and may die or freeze while it holds jobs.
//! Results come from the script, or for a pure node from the engine's own code.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::{Delivery, EntryId, ShardId};
use tidemill_common::limits;
use tidemill_common::store::{Accepted, Delivered, Jobs, Note, StaleJob, TakeOver};
use tidemill_common::wire::fact::report::{JobName, Report};
use tidemill_common::wire::job::{self, Job};

use super::execute::{self, Result};
use super::network::{HandIn, Message};
use super::shared::{QUEUE, Shared, at_once};
use crate::guards::Guard;

const LEASE: Duration = Duration::from_millis(limits::JOB_LEASE_MS);
/// No job is silent for so long. Only a job that was handed back can be taken over at once.
const HANDED_BACK: Duration = Duration::from_secs(365 * 24 * 3600);
/// Time after which a result without an answer is sent again.
const AGAIN: Duration = Duration::from_secs(1);
/// Number of jobs that it runs at once.
const PERMITS: usize = 3;

/// Takes a job over as it was seen.
fn again(job: &StaleJob) -> TakeOver {
    let (entry, holder, number) = (job.entry, job.holder.clone(), job.number);
    TakeOver { entry, holder, number, new_number: Some(number + 1), note: Note::Leave }
}

/// A worker with the jobs that it holds.
pub(crate) struct Worker {
    number: usize,
    life: u32,
    awake_since: Timestamp,
    frozen_until: Option<Timestamp>,
    beaten_at: Timestamp,
    held: BTreeMap<u64, HeldJob>,
    /// Shards of which an answer may have been lost: it may hold jobs of them without knowing.
    lost: BTreeSet<ShardId>,
}

struct HeldJob {
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

impl HeldJob {
    fn is(&self, shard: ShardId, entry: EntryId) -> bool {
        (self.delivered.shard, self.delivered.entry) == (shard, entry)
    }
}

impl Worker {
    /// Creates a worker without jobs.
    pub(crate) fn new(number: usize, now: Timestamp) -> Self {
        Self {
            number,
            life: 1,
            awake_since: now,
            frozen_until: None,
            beaten_at: now,
            held: BTreeMap::new(),
            lost: BTreeSet::new(),
        }
    }

    fn consumer(&self) -> String {
        format!("w{}.{}", self.number, self.life)
    }

    fn is_awake(&mut self, shared: &mut Shared) -> bool {
        if self.frozen_until.is_some_and(|until| until > shared.now()) {
            return false;
        }
        if self.frozen_until.take().is_some() {
            let consumer = self.consumer();
            shared.log(|| format!("{consumer} wakes up"));
            self.awake_since = shared.now();
            // It does not know that it was frozen: it first sends what it has, and then learns which jobs it lost.
            if shared.dice.percent(60) {
                self.work(shared);
            }
        }
        true
    }

    /// Requests to these shards have failed.
    pub(crate) fn disturbed(&mut self, shards: &[ShardId], now: Timestamp) {
        self.lost.extend(shards);
        self.awake_since = now;
    }

    /// Work by the clock: the heartbeat, which also returns the jobs that are lost.
    pub(crate) fn tick(&mut self, shared: &mut Shared) {
        if !self.is_awake(shared) || self.beaten_at.plus(LEASE / 3) > shared.now() {
            return;
        }
        self.beaten_at = shared.now();
        for shard in shared.shards().filter(|shard| !shared.is_still(*shard)).collect::<Vec<_>>() {
            let of_shard = |held: &&HeldJob| held.delivered.shard == shard;
            let entries: Vec<EntryId> =
                self.held.values().filter(of_shard).map(|it| it.delivered.entry).collect();
            let lost =
                at_once(shared.store.heartbeat(shard, QUEUE, &self.consumer(), &entries)).unwrap_or_default();
            // A result that is on its way cannot be taken back.
            self.held.retain(|_, it| {
                it.sent_at.is_some() || it.delivered.shard != shard || !lost.contains(&it.delivered.entry)
            });
        }
    }

    /// Does one thing, or has a fault.
    pub(crate) fn turn(&mut self, shared: &mut Shared) {
        if !self.is_awake(shared) {
            return;
        }
        let consumer = self.consumer();
        if shared.strikes(|f| f.worker_dies) {
            shared.log(|| format!("{consumer} dies, holding {} jobs", self.held.len()));
            shared.count("workers killed");
            *self = Self { life: self.life + 1, ..Self::new(self.number, shared.now()) };
            return;
        }
        if shared.strikes(|f| f.worker_freezes) {
            let ms = shared.dice.between(100, 30_000);
            shared.log(|| format!("{consumer} freezes for {ms} ms"));
            shared.count("workers frozen");
            self.frozen_until = Some(shared.now().plus(Duration::from_millis(ms)));
            return;
        }
        if shared.strikes(|f| f.hands_back) {
            return self.hand_back(shared);
        }
        match shared.dice.below(10) {
            0..=2 => self.take(shared),
            3 => self.take_over(shared),
            _ => self.work(shared),
        }
    }

    /// Does all pending work, without faults.
    pub(crate) fn settle(&mut self, shared: &mut Shared) {
        self.frozen_until = None;
        self.take_over(shared);
        self.take(shared);
        for slot in self.held.keys().copied().collect::<Vec<_>>() {
            self.hand_in(slot, shared);
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

    fn take(&mut self, shared: &mut Shared) {
        self.adopt(shared);
        let free = PERMITS.saturating_sub(self.held.len());
        let Ok(mut reader) = at_once(shared.store.job_reader(&self.consumer())) else { return };
        for shard in shared.shards() {
            if free == 0 {
                return;
            }
            if shared.is_still(shard) {
                self.lost.insert(shard);
                continue;
            }
            let jobs = at_once(reader.read(&[(shard, QUEUE.into())], 1, Duration::ZERO));
            jobs.into_iter().flatten().for_each(|job| self.begin(job, shared));
        }
    }

    /// Begins the jobs that it holds without knowing.
    fn adopt(&mut self, shared: &mut Shared) {
        let answering: Vec<ShardId> = self.lost.iter().copied().filter(|it| !shared.is_still(*it)).collect();
        for shard in answering {
            self.lost.remove(&shard);
            let consumer = self.consumer();
            for job in at_once(shared.store.held(shard, QUEUE, &consumer)).unwrap_or_default() {
                let is_known = self.held.values().any(|it| it.is(shard, job.entry));
                if is_known {
                    continue;
                }
                shared.count("jobs adopted");
                if self.held.len() < PERMITS {
                    self.begin(job, shared);
                } else {
                    at_once(shared.store.hand_back(shard, QUEUE, &consumer, &[(job.entry, job.number)])).ok();
                }
            }
        }
    }

    fn take_over(&mut self, shared: &mut Shared) {
        if shared.off == Some(Guard::TakeOver) || self.held.len() >= PERMITS {
            return;
        }
        // During one lease after its start all jobs may look abandoned, because it could not see heartbeats before.
        let idle = if self.awake_since.plus(LEASE) <= shared.now() { LEASE } else { HANDED_BACK };
        for shard in shared.shards().filter(|shard| !shared.is_still(*shard)).collect::<Vec<_>>() {
            let consumer = self.consumer();
            let Ok(stale) = at_once(shared.store.stale(&[(shard, QUEUE.into())], idle)) else { continue };
            let asked: Vec<TakeOver> = stale.jobs.iter().take(1).map(again).collect();
            let taken = at_once(shared.store.take_over(shard, QUEUE, &consumer, idle, &asked));
            for job in taken.into_iter().flatten() {
                shared.count("jobs taken over");
                self.begin(job, shared);
            }
        }
    }

    fn begin(&mut self, delivered: Delivered, shared: &mut Shared) {
        let consumer = self.consumer();
        shared.log(|| {
            format!("{consumer} holds {} ({}): {}", delivered.entry, delivered.number, delivered.body)
        });
        let read = delivered.run.parse().ok().and_then(|run| job::parse(run, &delivered.body).ok());
        let Some(job) = read else {
            return shared.watch.found("SIM-13", format!("a job cannot be read: {}", delivered.body));
        };
        let is_it = |it: &HeldJob| it.is(delivered.shard, delivered.entry);
        if self
            .held
            .values()
            .any(|it| is_it(it) && it.delivered.number == delivered.number && it.sent_at.is_none())
        {
            // A fail-over has lost that it holds the job.
            shared.count("jobs delivered again to their holder");
            return;
        }
        // It took the job over from itself.
        self.held.retain(|_, it| !is_it(it));
        shared.handed_out += 1;
        let name = JobName {
            lost_at: None,
            frame: job.frame.clone(),
            node: job.node.clone(),
            attempt: job.attempt,
            entry: delivered.entry,
            holder: Delivery {
                consumer: consumer.into(),
                number: job.delivered.saturating_add(delivered.number),
            },
        };
        let started_at = shared.now();
        let held = HeldJob { delivered, job, name, started_at, result: None, sent: 0, sent_at: None };
        self.held.insert(shared.handed_out, held);
    }

    /// Continues one of its jobs.
    fn work(&mut self, shared: &mut Shared) {
        let slots: Vec<u64> = self.held.keys().copied().collect();
        let Some(&slot) = shared.dice.pick(&slots) else { return };
        if self.held.get(&slot).is_some_and(|held| shared.is_still(held.delivered.shard)) {
            return;
        }
        match shared.dice.below(8) {
            0 => self.report_started(slot, shared),
            1..=5 => self.report_piece(slot, shared),
            6 => {}
            _ => self.hand_in(slot, shared),
        }
    }

    fn report_started(&mut self, slot: u64, shared: &mut Shared) {
        let Some(held) = self.held.get(&slot).filter(|held| held.sent_at.is_none()) else { return };
        let report = Report::Started { at: held.started_at };
        shared.send(Message::Report(held.job.run, report.kind(), report.to_json(&held.name)));
    }

    /// Sends a piece of its text, of random length.
    fn report_piece(&mut self, slot: u64, shared: &mut Shared) {
        let Some(held) = self.held.get_mut(&slot).filter(|held| held.sent_at.is_none()) else { return };
        let result = held
            .result
            .get_or_insert_with(|| execute::run(&held.job, &held.name, held.delivered.shard, slot, shared));
        let Some((selector, text)) = &result.streams else { return };
        let left = text.get(held.sent..).unwrap_or_default();
        let letters = 1 + shared.dice.below(12);
        let piece: String = left.chars().take(letters).collect();
        if piece.is_empty() {
            return;
        }
        let (started_at, offset) = (held.started_at, held.sent as u64);
        let report = Report::Chunk { started_at, selector: selector.clone(), offset, text: piece.clone() };
        held.sent += piece.len();
        shared.send(Message::Report(held.job.run, report.kind(), report.to_json(&held.name)));
    }

    /// Sends the result, or sends it again.
    fn hand_in(&mut self, slot: u64, shared: &mut Shared) {
        let consumer = self.consumer();
        let Some(held) = self.held.get_mut(&slot) else { return };
        if held.sent_at.is_some_and(|sent| sent.plus(AGAIN) > shared.now()) {
            return;
        }
        let shard = held.delivered.shard;
        if shared.is_still(shard) {
            return;
        }
        held.sent_at = Some(shared.now());
        let result =
            held.result.get_or_insert_with(|| execute::run(&held.job, &held.name, shard, slot, shared));
        for (id, text) in &result.blobs {
            at_once(shared.store.store_blob(shard, id, text)).ok();
        }
        let it = HandIn {
            shard,
            queue: held.delivered.queue.clone(),
            sender: (self.number, self.life, slot),
            consumer,
            completion: result.completion(&held.delivered, &held.job, &held.name, held.started_at),
            gives_up: result.gives_up.clone(),
        };
        shared.send(Message::Result(Box::new(it)));
    }

    fn hand_back(&mut self, shared: &mut Shared) {
        let slots: Vec<u64> =
            self.held.iter().filter(|(_, it)| it.sent_at.is_none()).map(|(slot, _)| *slot).collect();
        let Some(held) = shared.dice.pick(&slots).and_then(|slot| self.held.remove(slot)) else { return };
        let Delivered { shard, entry, number, .. } = held.delivered;
        if shared.is_still(shard) {
            return;
        }
        let consumer = self.consumer();
        shared.log(|| format!("{consumer} hands {entry} back"));
        shared.count("jobs handed back");
        at_once(shared.store.hand_back(shard, QUEUE, &consumer, &[(entry, number)])).ok();
    }
}
