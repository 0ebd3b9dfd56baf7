//! Which master of a cluster has which slot, as its servers say it.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use crate::store::redis::connection::replies::{array, text};
use crate::store::redis::connection::routing::{SLOTS, complete};

/// No master has the slot.
const NOBODY: u16 = u16::MAX;

/// The masters of a cluster and their slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store::redis) struct Slots {
    /// `host:port` of each, sorted.
    masters: Vec<String>,
    /// Per slot an index of `masters`.
    owners: Vec<u16>,
    /// `host:port` of replicas, which also know the slots, and of the master of each.
    replicas: BTreeMap<String, String>,
}

impl Slots {
    /// Reads the reply to `CLUSTER SLOTS`: `[[first, last, [host, port, …], replica…], …]`. `None` if it has another form.
    pub(super) fn read(value: Value, asked_host: &str) -> Option<Self> {
        let mut ranges = Vec::new();
        let mut replicas = BTreeMap::new();
        for range in array(value)? {
            let mut parts = array(range)?.into_iter();
            let first: u16 = text(parts.next()?)?.parse().ok()?;
            let last: u16 = text(parts.next()?)?.parse().ok()?;
            let master = address(parts.next()?, asked_host)?;
            let followers = parts.filter_map(|replica| address(replica, asked_host));
            replicas.extend(followers.map(|replica| (replica, master.clone())));
            ranges.push((first, last.min(SLOTS - 1), master));
        }
        let masters: BTreeSet<String> = ranges.iter().map(|(_, _, master)| master.clone()).collect();
        let masters: Vec<String> = masters.into_iter().collect();
        let mut owners = vec![NOBODY; usize::from(SLOTS)];
        for (first, last, master) in &ranges {
            let index =
                masters.binary_search(master).ok().and_then(|at| u16::try_from(at).ok()).unwrap_or(NOBODY);
            owners.get_mut(usize::from(*first)..=usize::from(*last))?.fill(index);
        }
        Some(Self { masters, owners, replicas })
    }

    /// `host:port` of the master of a slot.
    pub(in crate::store::redis) fn owner(&self, slot: u16) -> Option<&str> {
        let index = self.owners.get(usize::from(slot))?;
        self.masters.get(usize::from(*index)).map(String::as_str)
    }

    /// `host:port` of all masters that have slots.
    pub(in crate::store::redis) fn masters(&self) -> &[String] {
        &self.masters
    }

    /// `host:port` of all replicas.
    pub(super) fn replicas(&self) -> impl Iterator<Item = &String> {
        self.replicas.keys()
    }

    /// The number of replicas of a master.
    pub(super) fn replicas_of(&self, master: &str) -> usize {
        self.replicas.values().filter(|of| *of == master).count()
    }

    /// The same, except that a slot has moved to this address.
    pub(super) fn moved(&self, slot: u16, address: &str) -> Self {
        let mut slots = self.clone();
        let at = slots.masters.iter().position(|known| known == address).unwrap_or_else(|| {
            slots.masters.push(address.to_string());
            slots.masters.len() - 1
        });
        if let Some(owner) = slots.owners.get_mut(usize::from(slot)) {
            *owner = u16::try_from(at).unwrap_or(NOBODY);
        }
        slots
    }
}

/// The address in `[host, port, id, …]`; the host is empty or missing when the server does not know its own.
fn address(server: Value, asked_host: &str) -> Option<String> {
    let mut parts = array(server)?.into_iter();
    let host = parts.next().and_then(text).unwrap_or_default();
    let port = text(parts.next()?)?;
    Some(complete(&format!("{host}:{port}"), asked_host))
}

/// The view of most servers. They differ for a moment while slots move, and for longer when a server is cut off from the
/// others and still believes that its slots are its own.
pub(super) fn of_most(views: Vec<Slots>) -> Option<Slots> {
    let votes = |view: &Slots| {
        views.iter().filter(|other| other.owners == view.owners && other.masters == view.masters).count()
    };
    let mut best: Option<(usize, &Slots)> = None;
    for view in &views {
        let count = votes(view);
        if best.is_none_or(|(most, _)| count > most) {
            best = Some((count, view));
        }
    }
    best.map(|(_, view)| view.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn server(host: Value, port: i64) -> Value {
        Value::Array(vec![host, Value::Int(port), bulk("id"), Value::Array(vec![])])
    }

    fn range(first: i64, last: i64, servers: &[i64]) -> Value {
        let servers = servers.iter().map(|port| server(bulk("h"), *port));
        Value::Array([Value::Int(first), Value::Int(last)].into_iter().chain(servers).collect())
    }

    fn slots(ranges: Vec<Value>) -> Slots {
        Slots::read(Value::Array(ranges), "asked").expect("slots")
    }

    #[test]
    fn each_slot_has_the_master_of_its_range() {
        let slots = slots(vec![range(0, 99, &[1, 4]), range(200, 16_383, &[2]), range(100, 100, &[1])]);
        let of = |slot| slots.owner(slot).unwrap_or("-");
        assert_eq!(
            [of(0), of(99), of(100), of(101), of(200), of(16_383)],
            ["h:1", "h:1", "h:1", "-", "h:2", "h:2"]
        );
        assert_eq!(slots.masters(), ["h:1", "h:2"]);
        assert_eq!(slots.replicas().collect::<Vec<_>>(), ["h:4"]);
        assert_eq!((slots.replicas_of("h:1"), slots.replicas_of("h:2")), (1, 0));
        assert_eq!(slots.owner(SLOTS), None);
    }

    #[test]
    fn a_server_without_a_name_is_where_it_was_asked() {
        let nameless = |host| Value::Array(vec![Value::Int(0), Value::Int(5), server(host, 7)]);
        for host in [bulk(""), Value::Nil, bulk("?")] {
            assert_eq!(slots(vec![nameless(host)]).owner(0), Some("asked:7"));
        }
        assert_eq!(Slots::read(bulk("ERR"), "asked"), None);
        assert_eq!(Slots::read(Value::Array(vec![Value::Array(vec![Value::Int(1)])]), "asked"), None);
    }

    #[test]
    fn a_moved_slot_has_its_new_master_and_the_others_stay() {
        let slots = slots(vec![range(0, 16_383, &[1])]);
        let moved = slots.moved(5, "h:9");
        assert_eq!([moved.owner(4), moved.owner(5), moved.owner(6)], [Some("h:1"), Some("h:9"), Some("h:1")]);
        assert_eq!(moved.moved(5, "h:1").owner(5), Some("h:1"));
    }

    #[test]
    fn the_view_of_most_servers_counts() {
        let (old, new) = (slots(vec![range(0, 16_383, &[1])]), slots(vec![range(0, 16_383, &[2])]));
        assert_eq!(of_most(vec![old.clone(), new.clone(), new.clone()]), Some(new.clone()));
        assert_eq!(of_most(vec![old.clone(), new]), Some(old), "of several the first that answered");
        assert_eq!(of_most(vec![]), None);
    }
}
