//! The fleet as Redis shows it: live processes, the owners of shards, waiting jobs. Finds what keeps runs from moving,
//! for `tidemill doctor`. Reading is the store's ([`super::redis::RedisStore::diagnose`]); judging is pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidemill_base::ids::{EntryId, ShardId};

/// A fact that waits longer means that its shard is late.
const FACT_LATE: Duration = Duration::from_secs(10);
/// A job of a run that is older is late, if it waits.
const JOB_LATE: Duration = Duration::from_secs(30);
/// Names that a finding lists at most.
const NAMES_MAX: usize = 5;

/// A live process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveProcess {
    pub id: String,
    /// The time since its last announcement.
    pub silent: Duration,
    /// Whether it knows the newest format of stored data that this program knows.
    pub is_current: bool,
}

/// A shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardState {
    pub shard: ShardId,
    /// The scheduler that holds its lease.
    pub owner: Option<String>,
    /// The last fact applied.
    pub cursor: EntryId,
    /// The time that the oldest fact after it waits; `None` without one.
    pub fact_waits: Option<Duration>,
    /// The number of facts in the inbox, applied ones included that are not trimmed yet.
    pub inbox: u64,
}

/// The job of a queue that has waited longest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldestJob {
    pub entry: EntryId,
    pub run: String,
    /// The time since its run began; the job waits no longer than that.
    pub run_age: Option<Duration>,
}

/// The jobs of a queue on one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueState {
    pub shard: ShardId,
    pub queue: String,
    /// Jobs that no worker has taken.
    pub waiting: u64,
    /// Jobs that workers hold.
    pub held: u64,
    /// The waiting job that is served next.
    pub oldest: Option<OldestJob>,
    /// Workers that have read from the queue, and living workers whose record lists it.
    pub readers: Vec<String>,
}

/// The fleet at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Whether a process has ever used the namespace.
    pub is_new: bool,
    pub schedulers: Vec<LiveProcess>,
    pub workers: Vec<LiveProcess>,
    pub shards: Vec<ShardState>,
    pub queues: Vec<QueueState>,
    /// The version of the stored data, and the newest that this program knows.
    pub versions: (u32, u32),
    /// Patterns of channels that the user may not subscribe to.
    pub patterns_refused: Vec<String>,
    /// What living workers lack, as their records say.
    pub lacks: Vec<Lack>,
    /// The ids of apps that are off.
    pub apps_off: Vec<String>,
    /// The number of removals of apps and users that are under way.
    pub removals: usize,
}

/// Something that a worker lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    pub worker: String,
    pub need: String,
    pub reason: String,
}

/// The weight of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Runs do not move.
    Error,
    /// Runs move, but late, or may stop moving.
    Warning,
    /// Worth to know.
    Hint,
}

/// A problem of the fleet, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    pub text: String,
}

impl Finding {
    fn new(severity: Severity, text: impl Into<String>) -> Self {
        Self { severity, text: text.into() }
    }
}

impl Fleet {
    /// Keeps the processes that announced themselves within these times.
    pub fn forget_silent(&mut self, schedulers: Duration, workers: Duration) {
        self.schedulers.retain(|one| one.silent <= schedulers);
        self.workers.retain(|one| one.silent <= workers);
    }

    /// Whether a second look, a moment later, can tell a problem from a short delay.
    pub fn is_worth_a_second_look(&self) -> bool {
        let late = |shard: &ShardState| shard.owner.is_none() || shard.fact_waits > Some(FACT_LATE);
        let waits = |queue: &QueueState| queue.waiting > 0;
        self.queues.iter().any(waits) || (!self.schedulers.is_empty() && self.shards.iter().any(late))
    }

    /// Finds the problems. `before` is an earlier look at the same fleet: a shard that has moved since is not stuck.
    pub fn findings(&self, before: Option<&Self>) -> Vec<Finding> {
        let mut found = Vec::new();
        self.judge_processes(&mut found);
        // Without a scheduler no shard has an owner, and the first finding says why.
        if !self.schedulers.is_empty() {
            self.shards.iter().for_each(|shard| found.extend(self.judge_shard(shard, before)));
        }
        self.judge_queues(before, &mut found);
        for Lack { worker, need, reason } in &self.lacks {
            if self.workers.iter().any(|one| one.id == *worker) {
                let text = format!("the worker {worker} lacks {need}: {}", reason.replace('\n', " "));
                found.push(Finding::new(Severity::Warning, text));
            }
        }
        for pattern in &self.patterns_refused {
            let text = format!(
                "the ACL of this user refuses subscriptions to {pattern}: streams and stops are late by up to a second; \
                 add the channel pattern `&{pattern}` to the user"
            );
            found.push(Finding::new(Severity::Warning, text));
        }
        if !self.apps_off.is_empty() {
            let text = format!("apps that are off and accept no new runs: {}", self.apps_off.join(", "));
            found.push(Finding::new(Severity::Hint, text));
        }
        if self.removals > 0 {
            let text = format!("apps or users that are being removed: {}", self.removals);
            found.push(Finding::new(Severity::Hint, text));
        }
        found
    }

    fn judge_processes(&self, found: &mut Vec<Finding>) {
        if self.is_new {
            let text = "no scheduler has used this namespace yet; nothing else can be said about the fleet";
            found.push(Finding::new(Severity::Hint, text));
            return;
        }
        if self.schedulers.is_empty() {
            let text =
                "no scheduler is alive: no run moves, and the API does not answer; start tidemill-scheduler";
            found.push(Finding::new(Severity::Error, text));
        }
        if self.workers.is_empty() {
            let text = "no worker is alive: nodes with jobs wait; start tidemill-worker";
            found.push(Finding::new(Severity::Error, text));
        }
        let old = self.schedulers.iter().chain(&self.workers).filter(|one| !one.is_current);
        let old: Vec<&str> = old.map(|one| one.id.as_str()).collect();
        if !old.is_empty() {
            let text = format!(
                "the processes are of different versions: {} do not know version {} of stored data; upgrade them",
                names(&old),
                self.versions.1
            );
            found.push(Finding::new(Severity::Warning, text));
        }
    }

    fn judge_shard(&self, now: &ShardState, before: Option<&Self>) -> Option<Finding> {
        let shard = now.shard;
        let earlier = before.and_then(|fleet| fleet.shards.iter().find(|earlier| earlier.shard == shard));
        let lives = |owner: &String| self.schedulers.iter().any(|one| one.id == *owner);
        if !now.owner.as_ref().is_some_and(lives) {
            let was_owned = earlier.is_some_and(|earlier| earlier.owner.is_some());
            let text = format!(
                "shard {shard} has no living owner: its runs do not move; a scheduler takes it within the lease, else look \
                 in the schedulers' logs for its number"
            );
            return Some(Finding::new(if was_owned { Severity::Warning } else { Severity::Error }, text));
        }
        let waits = now.fact_waits.filter(|waits| *waits > FACT_LATE)?;
        let owner = now.owner.as_deref().unwrap_or("");
        let is_stuck =
            earlier.is_some_and(|earlier| earlier.cursor == now.cursor && earlier.fact_waits.is_some());
        Some(if is_stuck {
            let text = format!(
                "the inbox of shard {shard} does not move: its oldest fact waits for {}; look in the log of {owner}, its \
                 owner",
                seconds(waits)
            );
            Finding::new(Severity::Error, text)
        } else {
            let text = format!(
                "the inbox of shard {shard} is late by {}: its owner, {owner}, does not keep up",
                seconds(waits)
            );
            Finding::new(Severity::Warning, text)
        })
    }

    fn judge_queues(&self, before: Option<&Self>, found: &mut Vec<Finding>) {
        let living: BTreeSet<&str> = self.workers.iter().map(|one| one.id.as_str()).collect();
        let mut queues: BTreeMap<&str, Waiting<'_>> = BTreeMap::new();
        for state in &self.queues {
            let queue = queues.entry(&state.queue).or_default();
            queue.jobs += state.waiting;
            queue.is_read |= state.readers.iter().any(|reader| living.contains(reader.as_str()));
            let Some(job) = state.oldest.as_ref().filter(|_| state.waiting > 0) else { continue };
            // A job that waited at the earlier look as well has found no worker since.
            queue.stands |= before.is_none_or(|fleet| fleet.waited(state, job));
            if queue.oldest.is_none_or(|oldest| job.run_age > oldest.run_age) {
                queue.oldest = Some(job);
            }
        }
        let waiting = queues.into_iter().filter(|(_, queue)| queue.stands);
        found.extend(waiting.filter_map(|(name, queue)| queue.judge(name)));
    }

    /// Whether this job of the same queue was the next one to be served.
    fn waited(&self, state: &QueueState, job: &OldestJob) -> bool {
        let same = |one: &&QueueState| one.shard == state.shard && one.queue == state.queue;
        let earlier = self.queues.iter().find(same).and_then(|one| one.oldest.as_ref());
        earlier.is_some_and(|earlier| earlier.entry == job.entry)
    }
}

/// The waiting jobs of a queue on all shards.
#[derive(Default)]
struct Waiting<'a> {
    jobs: u64,
    oldest: Option<&'a OldestJob>,
    /// Whether a living worker has read from the queue.
    is_read: bool,
    /// Whether a job waits longer than a moment.
    stands: bool,
}

impl Waiting<'_> {
    fn judge(&self, name: &str) -> Option<Finding> {
        let oldest = self.oldest?;
        let jobs = if self.jobs == 1 { "a job".to_string() } else { format!("{} jobs", self.jobs) };
        let waits = if self.jobs == 1 { "waits" } else { "wait" };
        let age = oldest.run_age.unwrap_or_default();
        let since = format!("the oldest in run {}, which began {} ago", oldest.run, seconds(age));
        if !self.is_read {
            let text = format!(
                "{jobs} of the queue {name:?} {waits} ({since}), and no living worker serves the queue; start a worker \
                 with {name:?} in worker.queues"
            );
            return Some(Finding::new(Severity::Error, text));
        }
        (age > JOB_LATE).then(|| {
            let text = format!(
                "{jobs} of the queue {name:?} {waits} ({since}): its workers do not keep up; start more workers, or raise \
                 worker.permits"
            );
            Finding::new(Severity::Warning, text)
        })
    }
}

/// Lists some of the names.
fn names(all: &[&str]) -> String {
    let shown = all.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn seconds(time: Duration) -> String {
    match time.as_secs() {
        0 => "less than a second".into(),
        1 => "1 second".into(),
        seconds @ 2..120 => format!("{seconds} seconds"),
        seconds @ 120..7_200 => format!("{} minutes", seconds / 60),
        seconds => format!("{} hours", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests;
