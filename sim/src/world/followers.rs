//! Clients that follow runs, with the rules of the API ([`Position`]), and the checks of what they were told against what is
//! there.

use std::sync::Arc;
use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::{EntryId, RunId, ShardId};
use tidemill_common::store::Runs;
use tidemill_common::wire::entry::EventEntry;
use tidemill_scheduler::api::events::After;
use tidemill_scheduler::api::position::{Position, Step};

use super::shared::{Shared, at_once};
use crate::guards::Guard;

/// Time between the two looks after which a run counts as gone.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A client that follows a run.
pub(crate) struct Follower {
    run: RunId,
    position: Position,
    /// The entries that it was sent since the beginning or the last reset.
    told: Vec<Told>,
    /// Something that it was sent was lost, and it was not told so yet.
    is_owed: bool,
    /// It may be told that something is lost.
    may_be_told: bool,
    /// When the run was first found missing.
    missing_since: Option<Timestamp>,
    /// The stream has ended.
    is_done: bool,
    /// It was told that the run is gone, or something was lost after its stream had ended.
    is_excused: bool,
}

/// An entry that was sent: its id, and kind, number and time of each event.
type Told = (EntryId, Vec<(String, u64, i64)>);

fn told(entry: &EventEntry) -> Told {
    (entry.id, entry.events().map(|(event, _)| (event.kind.clone(), event.seq, event.ts)).collect())
}

impl Shared {
    /// Adds a follower of a run.
    pub(crate) fn follower_comes(&mut self, run: RunId) {
        self.followers.push(Follower {
            run,
            position: Position::new(After::Start),
            told: Vec::new(),
            is_owed: false,
            may_be_told: false,
            missing_since: None,
            is_done: false,
            is_excused: false,
        });
    }

    /// Lets one follower read.
    pub(crate) fn some_follower_reads(&mut self) {
        if !self.followers.is_empty() {
            let at = self.dice.below(self.followers.len());
            self.follow(at);
        }
    }

    /// Lets all followers read.
    pub(crate) fn all_followers_read(&mut self) {
        (0..self.followers.len()).for_each(|at| self.follow(at));
    }

    /// Returns true if all streams have ended.
    pub(crate) fn all_streams_ended(&self) -> bool {
        self.followers.iter().all(|it| it.is_done)
    }

    fn follow(&mut self, at: usize) {
        let it = &self.followers[at];
        if it.is_done || self.is_still(it.run.shard()) {
            return;
        }
        if self.dice.percent(5) {
            // Its connection breaks, and it goes on at another scheduler.
            let it = &mut self.followers[at];
            let after = it.told.last().map_or(After::Start, |(entry, _)| After::Entry(*entry));
            it.position = Position::new(after);
        }
        let asked = [1, 3, 256][self.dice.below(3)] + 1;
        let it = &self.followers[at];
        let is_careless = self.off == Some(Guard::Reset);
        let from = if is_careless { it.position.reached() } else { it.position.read_after() };
        let read = at_once(self.store.entries(it.run, from, asked)).unwrap_or_default();
        let has_seen_end = read.len() < asked;
        let mut read = read.into_iter().map(Arc::new);
        if !is_careless && !it.position.begins_with_last(&mut read) {
            return self.last_is_gone(at);
        }
        let mut is_quiet = true;
        for entry in read {
            is_quiet = false;
            let it = &mut self.followers[at];
            match it.position.step(&entry) {
                Step::Broken if is_careless => it.told.push(told(&entry)),
                Step::Broken => return self.tell_reset(at),
                Step::Old => {}
                Step::New => it.told.push(told(&entry)),
            }
            it.is_done |= entry.is_terminal();
        }
        if is_quiet && has_seen_end {
            if !self.followers[at].position.catch_up() && !is_careless {
                return self.tell_reset(at);
            }
            if !self.is_there(self.followers[at].run) {
                self.last_is_gone(at);
            }
        }
    }

    fn is_there(&self, run: RunId) -> bool {
        at_once(self.store.run_fields(run)).ok().flatten().is_some()
    }

    /// An entry is missing: the run is gone if it is missing at two looks.
    fn last_is_gone(&mut self, at: usize) {
        let now = self.now();
        if self.is_there(self.followers[at].run) {
            self.followers[at].missing_since = None;
            return self.tell_reset(at);
        }
        let it = &mut self.followers[at];
        let since = *it.missing_since.get_or_insert(now);
        if since.plus(LOOK_AGAIN) > now {
            return;
        }
        let (run, may_be_told) = (it.run, it.may_be_told);
        (it.is_done, it.is_excused, it.is_owed) = (true, true, false);
        self.count("followers told: gone");
        self.log(|| format!("a follower of {run} is told that it is gone"));
        if !may_be_told {
            self.watch
                .found("SIM-17", format!("a follower of {run} is told that it is gone, and it never was"));
        }
    }

    fn tell_reset(&mut self, at: usize) {
        let it = &mut self.followers[at];
        let (run, may_be_told) = (it.run, it.may_be_told);
        it.position.restart();
        it.told.clear();
        it.is_owed = false;
        // A run that is missing may yet be told as gone.
        let is_missing = !self.is_there(run);
        self.followers[at].may_be_told = is_missing;
        self.count("followers told: reset");
        self.log(|| format!("a follower of {run} is told to begin again"));
        if !may_be_told {
            let found =
                format!("a follower of {run} is told to begin again, and nothing that it was sent is lost");
            self.watch.found("SIM-17", found);
        }
    }

    /// After a fail-over: notes which followers were sent something that is not there any more.
    pub(crate) fn followers_lost(&mut self, shards: &[ShardId]) {
        for at in 0..self.followers.len() {
            let it = &self.followers[at];
            if !shards.contains(&it.run.shard()) {
                continue;
            }
            let stored = self.stored(it.run);
            let is_lost = it.told.iter().any(|told| !stored.contains(told));
            let (is_missing, is_done) = (!self.is_there(it.run), it.is_done);
            let it = &mut self.followers[at];
            if is_done {
                if is_lost && !it.is_excused {
                    it.is_excused = true;
                    self.count("ends told and lost");
                }
                continue;
            }
            it.is_owed = is_lost;
            it.may_be_told |= is_lost || is_missing;
            if is_lost {
                self.count("followers that were sent what is lost");
            }
        }
    }

    fn stored(&self, run: RunId) -> Vec<Told> {
        at_once(self.store.entries(run, EntryId::ZERO, 100_000))
            .unwrap_or_default()
            .iter()
            .map(told)
            .collect()
    }

    /// At the end of the story: all that a follower was sent since the last reset is what is stored.
    pub(crate) fn check_followers(&mut self) {
        for at in 0..self.followers.len() {
            let it = &self.followers[at];
            let run = it.run;
            if it.is_excused {
                continue;
            }
            if it.is_owed {
                self.watch
                    .found("SIM-17", format!("a follower of {run} is never told that something is lost"));
            } else if it.is_done && it.told != self.stored(run) {
                let found = format!(
                    "a follower of {run} was sent {:?}, but stored is {:?}",
                    it.told,
                    self.stored(run)
                );
                self.watch.found("SIM-18", found);
            }
        }
    }
}
