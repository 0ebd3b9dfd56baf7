//! What a server says of its replicas, and which of them must have a write before it counts as replicated. Pure.

use std::collections::HashMap;
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

/// The replicas that a master has had, and when they were last seen. One that left a moment ago may still be promoted.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The history of which master.
    id: String,
    replicas: HashMap<String, Instant>,
}

impl Seen {
    /// Notes the replicas that are there now. Returns those that have now been away for longer than `away`, which are
    /// not waited for any more.
    pub(super) fn note(&mut self, now: Instant, said: &Replication, away: Duration) -> Vec<String> {
        if self.id != said.id {
            // Another master: the replicas of the old one, and it itself, are its replicas when they have connected.
            self.id.clone_from(&said.id);
            self.replicas.clear();
        }
        self.replicas.extend(said.replicas.keys().map(|place| (place.clone(), now)));
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
        self.replicas.len()
    }

    /// The number of those that have not acknowledged this offset, as the server says.
    pub(super) fn behind(&self, said: &Replication, offset: u64) -> usize {
        let has = |place: &String| said.replicas.get(place).is_some_and(|reached| *reached >= offset);
        self.replicas.keys().filter(|place| !has(place)).count()
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
        assert!(seen.note(start, &said("a", &[("one", 1), ("two", 1)]), AWAY).is_empty());
        let left = said("a", &[("one", 9)]);
        assert!(seen.note(start + AWAY, &left, AWAY).is_empty());
        assert_eq!((seen.needed(), seen.behind(&left, 5)), (2, 1));
        let later = start + AWAY + Duration::from_secs(1);
        assert_eq!(seen.note(later, &left, AWAY), ["two"]);
        assert_eq!((seen.needed(), seen.behind(&left, 5), seen.behind(&left, 10)), (1, 0, 1));
        assert!(seen.note(later, &left, AWAY).is_empty(), "it is told once");
    }

    #[test]
    fn another_replica_does_not_stand_in_for_one_that_left() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        seen.note(start, &said("a", &[("one", 1), ("two", 1)]), AWAY);
        let swapped = said("a", &[("one", 9), ("three", 9)]);
        seen.note(start, &swapped, AWAY);
        assert_eq!((seen.needed(), seen.behind(&swapped, 5)), (3, 1));
    }

    #[test]
    fn the_replicas_of_another_master_do_not_count() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        seen.note(start, &said("a", &[("one", 1)]), AWAY);
        seen.note(start, &said("b", &[]), AWAY);
        assert_eq!(seen.needed(), 0);
    }
}
