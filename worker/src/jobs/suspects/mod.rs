//! Decides which jobs of silent workers this worker takes over, so that a job that ends its worker takes few others with
//! it. All that is decided here is decided by [`plan`], without the store and without a clock.
//!
//! When a worker dies, each of its jobs may have been the reason, so all of them become suspects. A worker takes over at
//! most half as many as the dead one held, and the other half is left to another worker, or until these have ended. So
//! each further death halves the suspects, until the job that kills is alone. Only a job that was alone is given up;
//! then the others are cleared. Workers that die at the same time are an outage: it speaks against no job, and their
//! jobs are taken over all at once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidemill_common::ids::Delivery;
use tidemill_common::limits;
use tidemill_common::store::{Note, Stale, StaleJob, TakeOver};
use tidemill_common::wire::suspect::Suspect;

/// The idle time that only returned jobs reach: the store sets their last sign of life to the epoch. It is many years,
/// because a test may move the clock of an embedded engine ahead while nodes run.
pub(crate) const HANDED_BACK: Duration = Duration::from_secs(20 * 365 * 24 * 3600);
/// The least [`Suspect::alone`] with which a job can be given up.
const ALONE_ENOUGH: u32 = 2;

/// After this time without a sign of life a worker counts as one that died at the same time as others. Workers give a
/// sign of life three times in a lease, so it has missed one.
pub(crate) fn silent_after(lease: Duration) -> Duration {
    lease * 3 / 5
}

/// The suspects that a worker holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) held: usize,
    /// The most that it may hold because of one of them; `None` when it holds none.
    pub(crate) most: Option<usize>,
}

impl Window {
    /// Adds a suspect that allows `most`, if there is room for it.
    fn admit(&mut self, most: usize) -> bool {
        let most = self.most.map_or(most, |earlier| earlier.min(most));
        let has_room = self.held < most;
        if has_room {
            *self = Self { held: self.held + 1, most: Some(most) };
        }
        has_room
    }
}

/// The state of the worker that decides.
pub(crate) struct Situation<'a> {
    pub(crate) consumer: &'a str,
    pub(crate) lease: Duration,
    pub(crate) deliveries_max: u32,
    /// Jobs that it can take.
    pub(crate) permits: usize,
    pub(crate) window: Window,
    /// Returns true for a job that this worker must not take.
    pub(crate) barred: &'a dyn Fn(&StaleJob) -> bool,
}

/// A change that the store is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// The index in [`Stale::jobs`].
    pub(crate) job: usize,
    pub(crate) take_over: TakeOver,
    /// Time since the last sign of life of its holder; decades if the holder returned it.
    pub(crate) idle: Duration,
    /// The record with which the job is taken.
    pub(crate) suspect: Option<Suspect>,
}

/// The decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) changes: Vec<Change>,
    /// Suspects are left because this worker holds as many as it may.
    pub(crate) suspects_wait: bool,
    /// Jobs are left because there are no more permits.
    pub(crate) lacks_permits: bool,
}

/// The way in which a job is taken over, in the order in which permits are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// It was returned, belongs to this worker, or is cleared.
    Free,
    /// It is taken only to be given up.
    Convicted,
    /// All workers that held such jobs died at the same time.
    Outage,
    /// Only within the window; the suspects of the smallest group first.
    Suspected { size: u32 },
}

/// A job that can be taken.
struct Candidate<'a> {
    at: usize,
    job: &'a StaleJob,
    way: Way,
    new_number: u32,
    note: Note,
    suspect: Option<Suspect>,
}

/// Chooses the jobs that this worker takes over now, and the notes on those that it leaves.
pub(crate) fn plan(stale: &Stale, it: &Situation<'_>) -> Plan {
    let mut candidates = candidates(stale, it);
    candidates.sort_by_key(|c| (c.way, Reverse(c.job.idle), c.job.shard, c.job.queue.clone(), c.job.entry));
    let (mut plan, mut permits, mut window) = (Plan::default(), it.permits, it.window);
    for Candidate { at, job, way, new_number, note, suspect } in candidates {
        let is_barred = (it.barred)(job);
        let has_permit = permits > 0;
        let is_taken = has_permit
            && !is_barred
            && match way {
                Way::Free | Way::Convicted | Way::Outage => true,
                Way::Suspected { size } => {
                    let has_room = window.admit(half(size));
                    plan.suspects_wait |= !has_room;
                    has_room
                }
            };
        plan.lacks_permits |= !has_permit && !is_barred;
        if is_taken {
            permits -= 1;
        } else if !matches!(note, Note::Write(_)) {
            continue;
        }
        let new_number = is_taken.then_some(new_number);
        let (entry, holder, number) = (job.entry, job.holder.clone(), job.number);
        let take_over = TakeOver { entry, holder, number, new_number, note };
        plan.changes.push(Change { job: at, take_over, idle: job.idle, suspect });
    }
    plan
}

/// The most suspects of a group of this size that one worker holds.
pub(crate) fn half(size: u32) -> usize {
    usize::try_from(size.div_ceil(2)).unwrap_or(usize::MAX).max(1)
}

/// The most suspects that a worker may hold beside this one; `None` if it is not suspected.
pub(crate) fn most_beside(suspect: &Suspect) -> Option<usize> {
    is_suspected(suspect).then(|| half(suspect.size))
}

/// Returns true if a job that was delivered so often is given up.
pub(crate) fn is_convicted(suspect: &Suspect, counted: u32, deliveries_max: u32) -> bool {
    let is_alone = suspect.size <= 1;
    let is_worn_out = !suspect.outage && suspect.alone >= ALONE_ENOUGH && counted > deliveries_max;
    // Jobs that always die together look like an outage each time. They must not circulate forever.
    let losses_max = deliveries_max.saturating_mul(limits::LOSSES_FACTOR);
    (is_alone && (is_worn_out || suspect.lost >= losses_max))
        || suspect.lost >= losses_max.saturating_add(limits::LOSSES_MORE)
}

/// A first loss in an outage makes no suspect.
fn is_suspected(suspect: &Suspect) -> bool {
    !suspect.outage || suspect.lost > 1
}

fn is_returned(job: &StaleJob) -> bool {
    job.idle >= HANDED_BACK
}

fn candidates<'a>(stale: &'a Stale, it: &Situation<'_>) -> Vec<Candidate<'a>> {
    let mut found = Vec::new();
    let mut groups: BTreeMap<&str, Vec<(usize, &StaleJob)>> = BTreeMap::new();
    for (at, job) in stale.jobs.iter().enumerate() {
        if is_returned(job) {
            // The store has raised its number already.
            found.push(free(at, job, job.number.saturating_add(1)));
        } else if job.holder != it.consumer {
            groups.entry(&job.holder).or_default().push((at, job));
        } else if job.idle >= it.lease {
            // This worker lives, so the job has ended nothing.
            found.push(free(at, job, job.number.saturating_add(Delivery::HAND_BACK)));
        }
    }
    let outages = outages(&groups, it.lease);
    for (holder, jobs) in &groups {
        let group = Group::of(jobs, holder, &stale.cleared, outages.contains(holder));
        for &(at, job) in jobs.iter().filter(|(_, job)| job.idle >= it.lease) {
            found.push(group.candidate(at, job, it.deliveries_max));
        }
    }
    found
}

fn free(at: usize, job: &StaleJob, new_number: u32) -> Candidate<'_> {
    let note = if job.suspect.is_some() { Note::Remove } else { Note::Leave };
    Candidate { at, job, way: Way::Free, new_number, note, suspect: None }
}

/// The consumers that died within one lease of another one.
fn outages<'a>(groups: &BTreeMap<&'a str, Vec<(usize, &StaleJob)>>, lease: Duration) -> BTreeSet<&'a str> {
    let newest = |jobs: &[(usize, &StaleJob)]| jobs.iter().map(|(_, job)| job.idle).min();
    let mut deaths: Vec<(Duration, &str)> =
        groups.iter().filter_map(|(holder, jobs)| Some((newest(jobs)?, *holder))).collect();
    deaths.sort_unstable();
    let near = |pair: &&[(Duration, &str)]| pair[1].0 - pair[0].0 < lease;
    deaths.windows(2).filter(near).flat_map(|pair| [pair[0].1, pair[1].1]).collect()
}

/// The jobs of a silent consumer.
struct Group<'a> {
    holder: &'a str,
    cleared: &'a BTreeSet<String>,
    is_outage: bool,
    jobs: u32,
    /// Jobs that were suspects before.
    suspects: u32,
    /// The largest size that was noted for this loss; 0 when this is the first look at it.
    noted: u32,
    origin: &'a str,
}

impl<'a> Group<'a> {
    fn of(
        jobs: &[(usize, &'a StaleJob)],
        holder: &'a str,
        cleared: &'a BTreeSet<String>,
        is_outage: bool,
    ) -> Self {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let noted = jobs.iter().filter_map(|(_, job)| job.suspect.as_ref()).filter(|s| s.holder == holder);
        let was_outage = noted.clone().any(|s| s.outage);
        let mut group = Self {
            holder,
            cleared,
            is_outage: is_outage || was_outage,
            jobs: count(jobs.len()),
            suspects: 0,
            noted: noted.map(|s| s.size).max().unwrap_or(0),
            origin: holder,
        };
        let earlier = || jobs.iter().filter_map(|(_, job)| group.earlier(job)).filter(|s| is_suspected(s));
        let origin = earlier().min_by_key(|s| s.size).map(|s| s.origin.as_str());
        group.suspects = count(earlier().count());
        group.origin = origin.unwrap_or(holder);
        group
    }

    /// What was known of a job before this loss.
    fn earlier<'b>(&self, job: &'b StaleJob) -> Option<&'b Suspect> {
        job.suspect.as_ref().filter(|s| s.holder != self.holder && !self.cleared.contains(&s.origin))
    }

    fn candidate<'b>(&self, at: usize, job: &'b StaleJob, deliveries_max: u32) -> Candidate<'b> {
        let noted = job.suspect.as_ref().filter(|s| s.holder == self.holder);
        if noted.is_some_and(|s| self.cleared.contains(&s.origin)) {
            return free(at, job, job.number.saturating_add(1));
        }
        let suspect = noted.cloned().unwrap_or_else(|| self.loss_of(job));
        let counts = if suspect.outage { Delivery::HAND_BACK } else { 1 };
        let new_number = job.number.saturating_add(counts);
        let way = if is_convicted(&suspect, Delivery::counted_of(new_number), deliveries_max) {
            Way::Convicted
        } else if is_suspected(&suspect) {
            Way::Suspected { size: suspect.size }
        } else {
            Way::Outage
        };
        let note = if noted.is_some() { Note::Leave } else { Note::Write(suspect.clone()) };
        Candidate { at, job, way, new_number, note, suspect: Some(suspect) }
    }

    /// The record of a job after this loss.
    fn loss_of(&self, job: &StaleJob) -> Suspect {
        let earlier = self.earlier(job);
        let was_suspected = earlier.is_some_and(is_suspected);
        let size = match (self.noted, was_suspected) {
            (0, true) => self.suspects,
            // While there are suspects, a job that has joined them is the least suspicious.
            (0, false) => self.jobs,
            // Another worker has noted a part of the group and may have taken from it.
            (noted, _) => noted.max(self.jobs),
        };
        let (alone, lost) = earlier.map_or((0, 0), |s| (s.alone, s.lost));
        let speaks = match (self.is_outage, size) {
            (true, _) => 0,
            (false, 1) if self.jobs == 1 => ALONE_ENOUGH,
            (false, 1) => 1,
            (false, _) => 0,
        };
        Suspect {
            holder: self.holder.to_string(),
            size,
            lost: lost.saturating_add(1),
            alone: alone.saturating_add(speaks),
            outage: self.is_outage,
            origin: self.origin.to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
