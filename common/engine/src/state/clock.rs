//! The clock of a run: the time that the run has worked. Waiting is not working.
//!
//! The clock runs while at least one job of the run is with a living worker, and while a failed node waits for its next
//! attempt. It stands still while jobs wait in a queue, are parked, or were lost with their worker, and while the run is
//! paused.
//!
//! Only reports move the clock: the begin of a job, its end, a back-off. So a [`Clock`] is a pair: how far the time of
//! the run has been counted, and how much of it was idle. All the rest was work. The begin of a job ends a gap, which
//! counts as idle at first. When a job that was under way during the gap ends, the gap is work after all: each running
//! node keeps the clock of its begin for that.

use tidemill_base::clock::Timestamp;

use crate::state::node::{NodeState, NodeStatus};
use crate::state::run::RunState;

/// The time of a run up to a moment; see the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clock {
    /// The moment up to which the time is counted. It may lie ahead: a back-off is counted when it begins.
    pub at: Timestamp,
    /// The idle time since the run began, in microseconds.
    pub idle: i64,
}

impl Clock {
    /// Notes that a job or a back-off begins. If the clock stood still until then, the time between was idle.
    pub(crate) fn begins(&mut self, at: Timestamp) {
        let gap = at.micros().saturating_sub(self.at.micros()).max(0);
        self.idle = self.idle.saturating_add(gap);
        self.at = self.at.max(at);
    }

    /// Notes that a job has worked without a gap since `begun`, until a moment. Returns true if a gap of others in that
    /// time was counted as idle.
    pub(crate) fn worked(&mut self, begun: Self, until: Timestamp) -> bool {
        let later = self.at.micros().saturating_sub(until.micros()).max(0);
        let idle = begun.idle.saturating_add(later);
        let has_gap = idle < self.idle;
        self.idle = self.idle.min(idle);
        self.at = self.at.max(until);
        has_gap
    }

    /// Notes a back-off from `now` to `due`.
    pub(crate) fn waits(&mut self, now: Timestamp, due: Timestamp) {
        self.begins(now);
        self.at = self.at.max(due);
    }

    /// The clock when the present attempt of a node began. An older version has stored none.
    pub(crate) fn at_begin_of(mut self, node: &NodeState, now: Timestamp) -> Self {
        if node.clock != Self::default() {
            return node.clock;
        }
        self.begins(node.started_at.unwrap_or(now));
        self
    }

    /// The working time since `began`, in microseconds, as far as it is counted at `now`.
    fn micros(self, began: Timestamp, now: Timestamp) -> i64 {
        self.at.min(now).micros().saturating_sub(began.micros()).saturating_sub(self.idle).max(0)
    }
}

impl RunState {
    /// The working time since the run began, in microseconds, as far as it was reported.
    pub fn worked_micros(&self, now: Timestamp) -> i64 {
        self.started_at.map_or(0, |began| self.clock.micros(began, now))
    }

    /// The same, under the assumption that each running job was with its worker until the moment that `seen` gives for
    /// it: the last sign of life of the worker.
    pub fn worked_micros_with(&self, now: Timestamp, seen: impl Fn(&NodeState) -> Option<Timestamp>) -> i64 {
        let began = self.started_at.unwrap_or(now);
        let held = |node: &NodeState| {
            let until = seen(node).filter(|_| node.status == NodeStatus::Running && node.job.is_some())?;
            let begun = self.clock.at_begin_of(node, now);
            (until > begun.at).then(|| Clock { at: until, ..begun }.micros(began, now))
        };
        let nodes = self.frames.values().flat_map(|frame| &frame.nodes);
        nodes.filter_map(held).fold(self.worked_micros(now), i64::max)
    }

    /// The clock of a run that has stored none: nothing is counted since it began, or since its last pause ended.
    pub fn clock_at_last_begin(&self) -> Clock {
        let began = self.started_at.unwrap_or_default();
        let at = self.control.resumed_at.unwrap_or(began);
        let idle = at.micros().saturating_sub(began.micros()).saturating_sub(self.control.worked_before);
        Clock { at, idle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: Timestamp = Timestamp::from_millis(1_000_000);

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_micros(BEGAN.micros() + ms * 1000)
    }

    /// What is reported about a job, in milliseconds since the run began.
    #[derive(Clone, Copy)]
    enum Told {
        /// The job with this number began.
        Begin(usize, i64),
        /// It ended.
        End(usize, i64),
        /// A back-off.
        Wait(i64, i64),
    }
    use Told::{Begin, End, Wait};

    fn worked_ms(told: &[Told], now: i64) -> i64 {
        let mut clock = Clock { at: BEGAN, idle: 0 };
        let mut begun = [Clock::default(); 4];
        for one in told {
            match *one {
                Begin(job, when) => {
                    clock.begins(at(when));
                    begun[job] = clock;
                }
                End(job, when) => {
                    clock.worked(begun[job], at(when));
                }
                Wait(from, to) => clock.waits(at(from), at(to)),
            }
        }
        clock.micros(BEGAN, at(now)) / 1000
    }

    #[test]
    fn only_the_time_with_a_worker_and_back_offs_count() {
        let table: &[(&str, &[Told], i64, i64)] = &[
            ("nothing", &[], 500, 0),
            ("one job after a wait", &[Begin(0, 300), End(0, 400)], 900, 100),
            ("two in a row", &[Begin(0, 0), End(0, 10), Begin(1, 15), End(1, 20)], 99, 15),
            ("two in parallel", &[Begin(0, 0), Begin(1, 5), End(1, 15), End(0, 20)], 99, 20),
            ("told late, but overlapping", &[Begin(0, 0), End(0, 10), Begin(1, 5), End(1, 12)], 99, 12),
            (
                "a long job covers the gaps between short ones",
                &[
                    Begin(0, 0),
                    Begin(1, 10),
                    End(1, 20),
                    Begin(2, 50),
                    End(2, 60),
                    Begin(3, 80),
                    End(3, 90),
                    End(0, 100),
                ],
                999,
                100,
            ),
            (
                "the end of a job arrives after a later end: the time that only this job worked is not counted",
                &[Begin(0, 0), Begin(1, 5), End(1, 30), End(0, 20)],
                99,
                25,
            ),
            (
                "a job that was lost, and its next delivery",
                &[Begin(0, 0), Begin(0, 900), End(0, 950)],
                999,
                50,
            ),
            ("a back-off", &[Begin(0, 0), End(0, 10), Wait(10, 60)], 99, 60),
            ("the middle of a back-off", &[Begin(0, 0), End(0, 10), Wait(10, 60)], 40, 40),
            ("a back-off that begins late", &[Begin(0, 0), End(0, 10), Wait(30, 40)], 99, 20),
            ("a job inside a back-off", &[Wait(0, 60), Begin(0, 10), End(0, 30)], 99, 60),
            ("a job beyond a back-off", &[Wait(0, 60), Begin(0, 10), End(0, 80)], 99, 80),
        ];
        for (name, told, now, expected) in table {
            assert_eq!(worked_ms(told, *now), *expected, "{name}");
        }
    }
}
