//! The writes that wait for one server, and when each of them is done. Pure: [`super::waiter`] asks the server.

use std::time::{Duration, Instant};

use super::replication::{Replication, Seen};
use crate::store::{Durability, Unconfirmed};

/// The longest that the server is asked to wait at once. Writes that come meanwhile wait for the rest of it.
const SLICE: Duration = Duration::from_millis(50);

/// A write that waits.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    pub(super) since: Instant,
    pub(super) within: Duration,
    /// The master's offset after the write, and which master that was, once the write was seen there.
    pub(super) at: Option<(String, u64)>,
    /// The client that gets the answer.
    pub(super) client: T,
}

impl<T> Waiting<T> {
    fn waited(&self, now: Instant) -> Duration {
        now.duration_since(self.since)
    }
}

/// What the server has answered to a wait.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) said: &'a Replication,
    pub(super) seen: &'a Seen,
    /// The disk has all writes from before the wait.
    pub(super) is_on_disk: bool,
}

/// How long to wait at once: until the first client gives up, but not too long.
pub(super) fn slice<T>(waiting: &[Waiting<T>], now: Instant) -> Duration {
    let left = |one: &Waiting<T>| one.within.saturating_sub(one.waited(now));
    // 0 would be for ever.
    waiting.iter().map(left).min().unwrap_or(SLICE).clamp(Duration::from_millis(1), SLICE)
}

/// Takes out the writes that are done, or can wait no longer, each with its result.
pub(super) fn settled<T>(
    waiting: &mut Vec<Waiting<T>>,
    level: Durability,
    answer: &Answer<'_>,
    now: Instant,
) -> Vec<(T, Result<(), Unconfirmed>)> {
    let mut done = Vec::new();
    for one in std::mem::take(waiting) {
        match verdict(&one, level, answer, now) {
            Some(result) => done.push((one.client, result)),
            None => waiting.push(one),
        }
    }
    done
}

fn verdict<T>(
    one: &Waiting<T>,
    level: Durability,
    answer: &Answer<'_>,
    now: Instant,
) -> Option<Result<(), Unconfirmed>> {
    let is_same = one.at.as_ref().is_some_and(|(id, _)| *id == answer.said.id);
    let Some((_, offset)) = one.at.as_ref().filter(|_| is_same && answer.said.is_master) else {
        return Some(Err(Unconfirmed::NoLongerMaster));
    };
    let missing = match level {
        Durability::Memory => return Some(Ok(())),
        Durability::Fsync if answer.is_on_disk => return Some(Ok(())),
        Durability::Fsync => "the disk".to_string(),
        Durability::Replicated if answer.seen.needed() == 0 => return Some(Err(Unconfirmed::NoReplica)),
        Durability::Replicated => match answer.seen.behind(answer.said, *offset) {
            0 => return Some(Ok(())),
            behind => format!("{behind} of {} replicas", answer.seen.needed()),
        },
    };
    let waited = one.waited(now);
    (waited >= one.within).then(|| {
        Err(Unconfirmed::Late { missing, waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX) })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::replication::Promotable;
    use super::*;

    fn said(id: &str, replicas: &[(&str, u64)]) -> Replication {
        let replicas: HashMap<_, _> = replicas.iter().map(|(p, o)| ((*p).to_string(), *o)).collect();
        Replication { is_master: true, id: id.into(), offset: 100, replicas }
    }

    fn waiting(at: Option<(&str, u64)>, since: Instant) -> Waiting<()> {
        let within = Duration::from_millis(100);
        Waiting { since, within, at: at.map(|(id, offset)| (id.into(), offset)), client: () }
    }

    /// The result of one write; `None` while it waits.
    fn told(
        level: Durability,
        at: Option<(&str, u64)>,
        now: &Replication,
        disk: bool,
        ms: u64,
    ) -> Option<String> {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let both = said("a", &[("one", 0), ("two", 0)]);
        seen.note(start, &both, Promotable::default(), Duration::from_secs(30));
        if now.replicas.is_empty() {
            seen = Seen::default();
        }
        let answer = Answer { said: now, seen: &seen, is_on_disk: disk };
        let mut all = vec![waiting(at, start)];
        let mut done = settled(&mut all, level, &answer, start + Duration::from_millis(ms));
        assert_eq!(done.len() + all.len(), 1);
        done.pop().map(|((), result)| result.map_or_else(|e| e.to_string(), |()| "done".into()))
    }

    #[test]
    fn a_write_is_done_when_all_that_its_level_asks_for_have_it() {
        use Durability::{Fsync, Replicated};
        let demoted = Replication { is_master: false, ..said("a", &[("one", 9), ("two", 9)]) };
        for (level, at, now, disk, ms, expected) in [
            (Replicated, Some(("a", 5)), said("a", &[("one", 5), ("two", 9)]), false, 1, Some("done")),
            (Replicated, Some(("a", 5)), said("a", &[("one", 5), ("two", 4)]), false, 1, None),
            (Replicated, Some(("a", 5)), said("a", &[("one", 5)]), false, 1, None),
            (Replicated, Some(("a", 5)), said("a", &[("one", 5)]), false, 100, Some("1 of 2 replicas")),
            (Replicated, Some(("a", 5)), said("a", &[("one", 5), ("two", 5)]), false, 500, Some("done")),
            (Replicated, Some(("a", 5)), said("a", &[]), false, 1, Some("no replica")),
            (Replicated, Some(("a", 5)), demoted.clone(), false, 1, Some("failed over")),
            (Replicated, Some(("a", 5)), said("b", &[("one", 9), ("two", 9)]), false, 1, Some("failed over")),
            (Replicated, None, said("a", &[("one", 9), ("two", 9)]), false, 1, Some("failed over")),
            (Fsync, Some(("a", 5)), said("a", &[]), true, 1, Some("done")),
            (Fsync, Some(("a", 5)), said("a", &[]), false, 1, None),
            (Fsync, Some(("a", 5)), said("a", &[]), false, 100, Some("the disk did not")),
            (Fsync, Some(("a", 5)), demoted, true, 1, Some("failed over")),
        ] {
            let told = told(level, at, &now, disk, ms);
            let case = format!("{level} {at:?} {now:?} {ms}: {told:?}");
            assert_eq!(told.is_some(), expected.is_some(), "{case}");
            assert!(told.is_none_or(|told| told.contains(expected.unwrap_or("?"))), "{case}");
        }
    }

    #[test]
    fn the_server_is_asked_to_wait_until_the_first_client_gives_up_but_never_for_ever() {
        let now = Instant::now();
        let after = |ms| now + Duration::from_millis(ms);
        let all = [waiting(None, now), waiting(None, after(20))];
        assert_eq!(slice(&all, after(20)), SLICE);
        assert_eq!(slice(&all, after(80)), Duration::from_millis(20));
        assert_eq!(slice(&all, after(300)), Duration::from_millis(1));
    }
}
