//! What a server says of its replicas, and which of them must have a write before it counts as replicated. Pure.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// The part of `INFO replication` that counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Replication {
    /// The server says that it is a master.
    pub(super) is_master: bool,
    /// Changes when a server is promoted.
    pub(super) id: String,
    /// The end of what the server has written.
    pub(super) offset: u64,
    /// The replicas that are connected and have all older data: their addresses, and how far they have acknowledged.
    pub(super) replicas: HashMap<String, u64>,
}

impl Replication {
    /// Reads the answer of the server.
    pub(super) fn read(info: &str) -> Self {
        let mut read = Self::default();
        for line in info.lines() {
            let Some((name, value)) = line.trim_end().split_once(':') else { continue };
            match name {
                "role" => read.is_master = value == "master",
                "master_replid" => read.id = value.into(),
                "master_repl_offset" => read.offset = value.parse().unwrap_or(0),
                _ => read.replicas.extend(replica(name, value)),
            }
        }
        read
    }
}

/// A line such as `slave0:ip=10.0.0.2,port=6379,state=online,offset=4711,lag=0`. A replica that still receives the data
/// cannot be counted on.
fn replica(name: &str, value: &str) -> Option<(String, u64)> {
    name.strip_prefix("slave")?.parse::<u32>().ok()?;
    let fields: HashMap<&str, &str> = value.split(',').filter_map(|field| field.split_once('=')).collect();
    if fields.get("state") != Some(&"online") {
        return None;
    }
    let place = format!("{}:{}", fields.get("ip")?, fields.get("port")?);
    Some((place, fields.get("offset")?.parse().ok()?))
}

/// The replicas that may be promoted, as Sentinels or a cluster say it; empty for one server without Sentinels.
#[derive(Debug, Default)]
pub(super) struct Promotable {
    /// Their addresses as the master has them, and for how long each has been away.
    pub(super) listed: Vec<(String, Duration)>,
    /// The address of the master itself. Sentinels list it as a replica until they have finished its promotion.
    pub(super) leader: String,
    /// Replicas that are never promoted.
    pub(super) never: HashSet<String>,
    /// There are at least so many. A cluster may have other addresses for them than the master.
    pub(super) at_least: usize,
}

/// The replicas that a master has had, and when they were last seen. One that left a moment ago may still be promoted.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The history of which master.
    id: String,
    replicas: HashMap<String, Instant>,
    never: HashSet<String>,
    at_least: usize,
}

impl Seen {
    /// Notes the replicas that are there now, as the master says and as others do. Returns those that have now been away
    /// for longer than `away`, which are not waited for any more.
    pub(super) fn note(
        &mut self,
        now: Instant,
        said: &Replication,
        promotable: Promotable,
        away: Duration,
    ) -> Vec<String> {
        if self.id != said.id {
            // Another master: the replicas of the old one, and it itself, are its replicas when they have connected.
            self.id.clone_from(&said.id);
            self.replicas.clear();
        }
        self.at_least = promotable.at_least;
        let leader = promotable.leader;
        let listed = promotable.listed.into_iter();
        for (place, since) in listed.filter(|(place, since)| *place != leader && *since <= away) {
            let Some(seen) = now.checked_sub(since) else { continue };
            let known = self.replicas.entry(place).or_insert(seen);
            *known = seen.max(*known);
        }
        self.replicas.extend(said.replicas.keys().map(|place| (place.clone(), now)));
        self.replicas.retain(|place, _| !promotable.never.contains(place));
        self.never = promotable.never;
        let gone = self.replicas.iter().filter(|(_, seen)| now.duration_since(**seen) > away);
        let mut gone: Vec<String> = gone.map(|(place, _)| place.clone()).collect();
        for place in &gone {
            self.replicas.remove(place);
        }
        gone.sort();
        gone
    }

    /// The number of replicas that must acknowledge a write.
    pub(super) fn needed(&self) -> usize {
        self.replicas.len().max(self.at_least)
    }

    /// The number of those that have not acknowledged this offset, as the server says.
    pub(super) fn behind(&self, said: &Replication, offset: u64) -> usize {
        let has = |place: &String| said.replicas.get(place).is_some_and(|reached| *reached >= offset);
        let behind = self.replicas.keys().filter(|place| !has(place)).count();
        let have = said.replicas.keys().filter(|place| has(place) && !self.never.contains(*place)).count();
        behind.max(self.at_least.saturating_sub(have))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWAY: Duration = Duration::from_secs(30);

    fn said(id: &str, replicas: &[(&str, u64)]) -> Replication {
        let replicas = replicas.iter().map(|(place, offset)| ((*place).to_string(), *offset)).collect();
        Replication { is_master: true, id: id.into(), offset: 0, replicas }
    }

    #[test]
    fn what_a_master_says_of_its_replicas_is_read() {
        let info = "# Replication\r\nrole:master\r\nconnected_slaves:3\r\n\
            slave0:ip=127.0.0.1,port=7001,state=online,offset=40,lag=0\r\n\
            slave1:ip=::1,port=7002,state=wait_bgsave,offset=0,lag=0\r\n\
            slave2:ip=replica.example,port=7003,state=online,offset=42,lag=1\r\n\
            slave_read_only:1\r\nmaster_failover_state:no-failover\r\nmaster_replid:abc\r\nmaster_repl_offset:42\r\n";
        let read = Replication::read(info);
        assert_eq!(
            read,
            Replication {
                offset: 42,
                ..said("abc", &[("127.0.0.1:7001", 40), ("replica.example:7003", 42)])
            }
        );
        assert!(!Replication::read("role:slave\r\nmaster_replid:abc\r\n").is_master);
    }

    #[test]
    fn a_replica_that_left_is_waited_for_until_it_has_been_away_for_long() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        assert!(
            seen.note(start, &said("a", &[("one", 1), ("two", 1)]), Promotable::default(), AWAY).is_empty()
        );
        let left = said("a", &[("one", 9)]);
        assert!(seen.note(start + AWAY, &left, Promotable::default(), AWAY).is_empty());
        assert_eq!((seen.needed(), seen.behind(&left, 5)), (2, 1));
        let later = start + AWAY + Duration::from_secs(1);
        assert_eq!(seen.note(later, &left, Promotable::default(), AWAY), ["two"]);
        assert_eq!((seen.needed(), seen.behind(&left, 5), seen.behind(&left, 10)), (1, 0, 1));
        assert!(
            seen.note(later, &left, Promotable::default(), AWAY).is_empty(),
            "a lost replica is reported once"
        );
    }

    #[test]
    fn another_replica_does_not_stand_in_for_one_that_left() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        seen.note(start, &said("a", &[("one", 1), ("two", 1)]), Promotable::default(), AWAY);
        let swapped = said("a", &[("one", 9), ("three", 9)]);
        seen.note(start, &swapped, Promotable::default(), AWAY);
        assert_eq!((seen.needed(), seen.behind(&swapped, 5)), (3, 1));
    }

    #[test]
    fn the_replicas_of_another_master_do_not_count() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        seen.note(start, &said("a", &[("one", 1)]), Promotable::default(), AWAY);
        seen.note(start, &said("b", &[]), Promotable::default(), AWAY);
        assert_eq!(seen.needed(), 0);
    }

    fn listed(places: &[(&str, u64)]) -> Promotable {
        let listed = places.iter().map(|(place, away)| ((*place).to_string(), Duration::from_secs(*away)));
        Promotable { listed: listed.collect(), ..Promotable::default() }
    }

    #[test]
    fn a_replica_that_only_the_sentinels_know_is_waited_for_until_it_has_been_away_for_long() {
        let (mut seen, start) = (Seen::default(), Instant::now() + AWAY * 4);
        let now = said("a", &[("one", 9)]);
        seen.note(start, &now, listed(&[("one", 0), ("two", 0), ("three", 20), ("four", 31)]), AWAY);
        assert_eq!((seen.needed(), seen.behind(&now, 5)), (3, 2));
        let later = start + Duration::from_secs(11);
        assert_eq!(seen.note(later, &now, listed(&[("two", 5), ("three", 31)]), AWAY), ["three"]);
        assert_eq!((seen.needed(), seen.behind(&now, 5)), (2, 1));
    }

    #[test]
    fn a_new_master_that_sentinels_still_list_as_a_replica_is_not_waited_for() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let now = said("b", &[("three", 9)]);
        let promotable = Promotable { leader: "two".into(), ..listed(&[("two", 0), ("three", 0)]) };
        assert!(seen.note(start, &now, promotable, AWAY).is_empty());
        assert_eq!((seen.needed(), seen.behind(&now, 5)), (1, 0));
        // The Sentinels have finished, and the old master is back.
        let both = said("b", &[("one", 9), ("three", 9)]);
        let promotable = Promotable { leader: "two".into(), ..listed(&[("one", 0), ("three", 0)]) };
        assert!(seen.note(start + AWAY * 2, &both, promotable, AWAY).is_empty());
        assert_eq!((seen.needed(), seen.behind(&both, 5)), (2, 0));
    }

    #[test]
    fn a_replica_that_is_never_promoted_does_not_count() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let now = said("a", &[("one", 1), ("never", 9)]);
        let mut promotable = listed(&[("one", 0), ("never", 0)]);
        promotable.never.insert("never".into());
        promotable.at_least = 1;
        seen.note(start, &now, promotable, AWAY);
        assert_eq!((seen.needed(), seen.behind(&now, 5)), (1, 1));
    }

    #[test]
    fn as_many_replicas_as_a_cluster_counts_on_are_waited_for() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let now = said("a", &[("one", 9)]);
        seen.note(start, &now, Promotable { at_least: 2, ..Promotable::default() }, AWAY);
        assert_eq!((seen.needed(), seen.behind(&now, 5)), (2, 1));
        let both = said("a", &[("one", 9), ("two", 9)]);
        seen.note(start, &both, Promotable { at_least: 2, ..Promotable::default() }, AWAY);
        assert_eq!((seen.needed(), seen.behind(&both, 5)), (2, 0));
    }
}
