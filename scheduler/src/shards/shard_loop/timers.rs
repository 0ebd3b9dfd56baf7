//! When a shard's loop reads due timers. It knows exactly when the next timer is due, so that timers fire in time and
//! Redis is asked for none while none is due.
//!
//! Exact, because only the owner's commits set timers: at the start the earliest one is read, each commit tells what it
//! sets, and each read of due timers returns the time of the next one.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tidemill_common::clock::Timestamp;

use crate::shards::batch::Input;

/// The most new timers that are read at once. While so many wait to be applied, no others are read.
const TIMERS_MAX: usize = 64;
/// The pause between two reads of due timers while facts keep coming: many timers that are due shortly after each other
/// cost one read.
const TIMERS_PAUSE: Duration = Duration::from_millis(2);

/// What the loop knows about the timers of its shard.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// The due time of the earliest timer that is not queued.
    next: Option<Timestamp>,
    /// Timers that were read; the commit that removes them is not written yet.
    queued: HashSet<String>,
    /// The time of the last read.
    looked_at: Timestamp,
}

impl Timers {
    /// `next` is the due time of the earliest timer in the store.
    pub(super) fn new(next: Option<Timestamp>) -> Self {
        Self { next, ..Self::default() }
    }

    /// Notes what a commit has written.
    pub(super) fn written(&mut self, cleared: &[String], set: impl IntoIterator<Item = Timestamp>) {
        for member in cleared {
            self.queued.remove(member);
        }
        for due in set {
            // The store keeps milliseconds.
            let due = Timestamp::from_millis(due.plus(Duration::from_micros(999)).millis());
            self.next = Some(self.next.map_or(due, |known| known.min(due)));
        }
    }

    /// Corrects the list of queued timers when nothing is queued: a timer that no commit has removed is read again.
    pub(super) fn none_is_queued(&mut self, now: Timestamp) {
        if !self.queued.is_empty() {
            self.queued.clear();
            self.next = Some(self.next.map_or(now, |known| known.min(now)));
        }
    }

    /// The moment of the next read, if one is needed. While the shard `is_quiet` a timer is read when it is due.
    pub(super) fn look_at(&self, is_quiet: bool) -> Option<Timestamp> {
        match self.next {
            Some(due) if is_quiet => Some(due),
            Some(_) if self.queued.len() >= TIMERS_MAX => None,
            Some(due) => Some(due.max(self.looked_at.plus(TIMERS_PAUSE))),
            None => None,
        }
    }

    /// The due time of the earliest timer, if timers have to be read now.
    pub(super) fn due(&self, now: Timestamp, is_quiet: bool) -> Option<Timestamp> {
        self.next.filter(|_| self.look_at(is_quiet).is_some_and(|at| at <= now))
    }

    /// The number of timers to ask for: the queued ones are returned again.
    pub(super) fn ask(&self) -> usize {
        TIMERS_MAX + self.queued.len()
    }

    /// Takes the result of a read at `now`; returns the timers to queue. Those that are due after `read_all_at` have to
    /// wait for facts.
    pub(super) fn found(
        &mut self,
        due: Vec<(Timestamp, String)>,
        next: Option<Timestamp>,
        read_all_at: Timestamp,
        now: Timestamp,
    ) -> Vec<(Timestamp, String)> {
        self.looked_at = now;
        self.next = next;
        let mut taken = Vec::with_capacity(due.len());
        for (due, member) in due {
            if self.queued.contains(&member) {
                continue;
            }
            if due > read_all_at {
                self.next = Some(self.next.map_or(due, |known| known.min(due)));
                continue;
            }
            self.queued.insert(member.clone());
            taken.push((due, member));
        }
        taken
    }
}

/// Queues a due timer after all facts that were received up to its time, and before those that were received later.
pub(super) fn queue(to: &mut VecDeque<Input>, due: Timestamp, member: String) {
    let is_before = |input: &Input| match input {
        Input::Fact(fact) => i64::try_from(fact.entry.major).is_ok_and(|millis| millis <= due.millis()),
        Input::Timer(_) | Input::TimeLimit(..) | Input::Lost(..) => false,
    };
    let after_facts = to.iter().rposition(is_before).map_or(0, |last| last + 1);
    let is_timer = |input: &&Input| matches!(input, Input::Timer(_) | Input::TimeLimit(..));
    let timers = to.iter().skip(after_facts).take_while(is_timer).count();
    to.insert(after_facts + timers, Input::Timer(member));
}

#[cfg(test)]
mod tests {
    use tidemill_common::ids::EntryId;
    use tidemill_common::store::RawFact;

    use super::*;

    const QUIET: bool = true;
    const BUSY: bool = false;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// The members to queue after a read at `now` that found `due`.
    fn found(
        known: &mut Timers,
        due: &[(i64, &str)],
        next: Option<i64>,
        read_all_at: i64,
        now: i64,
    ) -> Vec<String> {
        let due = due.iter().map(|(due, member)| (at(*due), (*member).to_string())).collect();
        let found = known.found(due, next.map(at), at(read_all_at), at(now));
        found.into_iter().map(|(_, member)| member).collect()
    }

    #[test]
    fn a_timer_stands_between_the_facts_before_its_time_and_those_after_it() {
        let fact = |millis| RawFact::read(EntryId::new(millis, 0), "done", "", String::new());
        let mut inputs: VecDeque<Input> = [3, 5, 5, 6, 8].map(|millis| Input::Fact(fact(millis))).into();
        for (due, member) in [(5, "a"), (5, "b"), (7, "c"), (9, "d"), (2, "late")] {
            queue(&mut inputs, at(due), member.into());
        }
        let name = |input: &Input| match input {
            Input::Timer(member) | Input::TimeLimit(member, _) => member.clone(),
            Input::Fact(fact) => fact.entry.major.to_string(),
            Input::Lost(..) => "lost".into(),
        };
        let order: Vec<String> = inputs.iter().map(name).collect();
        assert_eq!(order.join(" "), "late 3 5 5 a b 6 c 8 d");
    }

    #[test]
    fn timers_are_read_when_the_earliest_is_due_and_not_before() {
        let mut known = Timers::new(None);
        assert_eq!(known.look_at(QUIET), None);
        known.written(&[], [at(500), at(300), at(400)]);
        assert_eq!([known.look_at(QUIET), known.look_at(BUSY)], [Some(at(300)); 2]);
        assert_eq!(known.due(at(299), QUIET), None);
        assert_eq!(known.due(at(300), QUIET), Some(at(300)));
        assert_eq!(found(&mut known, &[(300, "a")], Some(400), 301, 301), ["a"]);
        assert_eq!(known.due(at(399), QUIET), None);
    }

    #[test]
    fn a_timer_between_two_milliseconds_is_read_at_the_second_as_it_is_stored() {
        let mut known = Timers::default();
        known.written(&[], [Timestamp::from_micros(300_001)]);
        assert_eq!(known.look_at(QUIET), Some(at(301)));
    }

    #[test]
    fn a_busy_shard_reads_timers_at_intervals_and_not_while_many_wait() {
        let mut known = Timers::new(Some(at(100)));
        assert_eq!(found(&mut known, &[(100, "a")], Some(101), 100, 100), ["a"]);
        assert_eq!((known.look_at(QUIET), known.look_at(BUSY)), (Some(at(101)), Some(at(102))));
        let many: Vec<String> = (0..TIMERS_MAX).map(|n| n.to_string()).collect();
        let due: Vec<(i64, &str)> = many.iter().map(|member| (101, member.as_str())).collect();
        assert_eq!(found(&mut known, &due, Some(101), 105, 105).len(), TIMERS_MAX);
        assert_eq!(known.look_at(BUSY), None);
        known.written(&many, []);
        assert_eq!(known.look_at(BUSY), Some(at(107)));
    }

    #[test]
    fn a_queued_timer_is_queued_again_only_after_a_commit_has_removed_it() {
        let mut known = Timers::new(Some(at(1)));
        assert_eq!(found(&mut known, &[(1, "a")], None, 2, 2), ["a"]);
        assert_eq!(known.ask(), TIMERS_MAX + 1);
        let both = [(1, "a"), (2, "b")];
        assert_eq!(found(&mut known, &both, None, 3, 3), ["b"]);
        known.written(&["a".to_string()], [at(3)]);
        assert_eq!(found(&mut known, &both, None, 4, 4), ["a"]);
    }

    #[test]
    fn a_timer_waits_for_the_facts_before_it() {
        let mut known = Timers::new(Some(at(1)));
        let due = [(1, "a"), (5, "b"), (6, "c")];
        assert_eq!(found(&mut known, &due, Some(9), 4, 7), ["a"]);
        assert_eq!(known.look_at(QUIET), Some(at(5)));
    }

    #[test]
    fn a_timer_that_no_commit_has_removed_is_read_again() {
        let mut known = Timers::new(Some(at(1)));
        found(&mut known, &[(1, "a")], None, 2, 2);
        known.none_is_queued(at(3));
        assert_eq!(known.due(at(3), QUIET), Some(at(3)));
        found(&mut known, &[(1, "a")], None, 3, 3);
        known.written(&["a".to_string()], []);
        known.none_is_queued(at(4));
        assert_eq!(known.look_at(QUIET), None);
    }
}
