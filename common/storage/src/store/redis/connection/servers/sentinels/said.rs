//! What a Sentinel says of a master, and whose word counts. Pure.

use std::collections::HashMap;
use std::time::Duration;

use redis::Value;

use crate::store::redis::connection::replies::{array, pairs, text};

/// The answer of one Sentinel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// `host:port` of the master.
    pub(super) master: String,
    /// Rises with each fail-over; 0 if this Sentinel does not say it.
    pub(super) epoch: u64,
    /// `host:port` of the other Sentinels.
    pub(super) others: Vec<String>,
    /// The replicas; `None` if its user may not ask for them.
    pub(super) replicas: Option<Vec<Replica>>,
}

/// A replica as Sentinels see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store::redis) struct Replica {
    /// `host:port`
    pub(in crate::store::redis) place: String,
    /// Zero while it is reached and follows its master; otherwise the time since then.
    pub(in crate::store::redis) away: Duration,
    /// It has not the priority 0, which is never promoted.
    pub(in crate::store::redis) may_lead: bool,
}

impl Said {
    /// Reads the replies to `GET-MASTER-ADDR-BY-NAME`, `MASTER`, `SENTINELS` and `REPLICAS`. The last three may be errors:
    /// then less is known. `None` if the Sentinel does not know the master.
    pub(super) fn read(mut replies: impl Iterator<Item = Value>) -> Option<Self> {
        let mut address = array(replies.next()?)?.into_iter();
        let master = format!("{}:{}", text(address.next()?)?, text(address.next()?)?);
        let epoch = replies.next().and_then(fields).and_then(|of| of.get("config-epoch")?.parse().ok());
        let others = replies.next().and_then(list).unwrap_or_default();
        let replicas = replies.next().and_then(list);
        let replicas = replicas.map(|all| all.iter().filter_map(replica).collect());
        let others = others.iter().filter_map(place).collect();
        Some(Self { master, epoch: epoch.unwrap_or(0), others, replicas })
    }
}

type Fields = HashMap<String, String>;

fn fields(value: Value) -> Option<Fields> {
    Some(pairs(value)?.into_iter().collect())
}

fn list(value: Value) -> Option<Vec<Fields>> {
    array(value)?.into_iter().map(fields).collect()
}

fn place(of: &Fields) -> Option<String> {
    let (host, port) = (of.get("ip")?, of.get("port")?);
    // A Sentinel that was not reached yet has no address.
    (!host.is_empty() && port != "0").then(|| format!("{host}:{port}"))
}

fn replica(of: &Fields) -> Option<Replica> {
    let flags: Vec<&str> = of.get("flags").map(|flags| flags.split(',').collect()).unwrap_or_default();
    let ms = |name: &str| of.get(name).and_then(|ms| ms.parse::<u64>().ok()).unwrap_or(0);
    let when = |holds: bool, name: &str| if holds { ms(name) } else { 0 };
    let is_linked = of.get("master-link-status").is_none_or(|status| status == "ok");
    let away = when(flags.contains(&"s_down"), "s-down-time")
        .max(when(flags.contains(&"disconnected"), "last-ok-ping-reply"))
        .max(when(!is_linked, "master-link-down-time"));
    Some(Replica {
        place: place(of)?,
        away: Duration::from_millis(away),
        may_lead: of.get("slave-priority").is_none_or(|priority| priority != "0"),
    })
}

/// Whose word counts: a Sentinel of the newest fail-over; among several of them the one that most agree with, and of these
/// the one that answered first.
pub(super) fn newest(said: &[Said]) -> Option<&Said> {
    let agree = |it: &Said| {
        said.iter().filter(|other| (other.epoch, &other.master) == (it.epoch, &it.master)).count()
    };
    let mut best: Option<&Said> = None;
    for it in said {
        if best.is_none_or(|best| (it.epoch, agree(it)) > (best.epoch, agree(best))) {
            best = Some(it);
        }
    }
    best
}

/// The replicas in all answers that name this master: one is away only as long as all say so, and may lead if any says so.
pub(super) fn replicas_of(said: &[Said], master: &str) -> Option<Vec<Replica>> {
    let mut known: Option<Vec<Replica>> = None;
    for replica in said.iter().filter(|said| said.master == master).filter_map(|said| said.replicas.as_ref())
    {
        let known = known.get_or_insert_default();
        for replica in replica {
            match known.iter_mut().find(|other| other.place == replica.place) {
                Some(other) => {
                    other.away = other.away.min(replica.away);
                    other.may_lead |= replica.may_lead;
                }
                None => known.push(replica.clone()),
            }
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn flat(pairs: &[(&str, &str)]) -> Value {
        Value::Array(pairs.iter().flat_map(|(name, value)| [bulk(name), bulk(value)]).collect())
    }

    fn said(master: &str, epoch: u64) -> Said {
        Said { master: master.into(), epoch, ..Said::default() }
    }

    fn server<'a>(port: &'a str, more: &[(&'a str, &'a str)]) -> Value {
        flat(&[&[("ip", "10.0.0.2"), ("port", port)], more].concat())
    }

    #[test]
    fn the_answers_of_a_sentinel_are_read() {
        let address = Value::Array(vec![bulk("10.0.0.1"), bulk("6379")]);
        let replicas = Value::Array(vec![
            server("1", &[("flags", "slave"), ("master-link-status", "ok"), ("slave-priority", "100")]),
            server(
                "2",
                &[
                    ("flags", "s_down,slave,disconnected"),
                    ("s-down-time", "700"),
                    ("last-ok-ping-reply", "900"),
                ],
            ),
            server(
                "3",
                &[("flags", "slave"), ("master-link-status", "err"), ("master-link-down-time", "5000")],
            ),
            server("4", &[("flags", "slave"), ("slave-priority", "0"), ("s-down-time", "9")]),
        ]);
        let others = Value::Array(vec![server("26379", &[]), flat(&[("ip", ""), ("port", "0")])]);
        let master = flat(&[("config-epoch", "7"), ("flags", "master")]);
        let read = Said::read([address.clone(), master, others, replicas].into_iter()).expect("an answer");
        assert_eq!((read.master.as_str(), read.epoch), ("10.0.0.1:6379", 7));
        assert_eq!(read.others, ["10.0.0.2:26379"]);
        let replicas = read.replicas.expect("replicas");
        let found: Vec<_> = replicas.iter().map(|it| (it.away.as_millis(), it.may_lead)).collect();
        assert_eq!(found, [(0, true), (900, true), (5000, true), (0, false)]);

        let less = Said::read([address].into_iter()).expect("an answer");
        assert_eq!(less, said("10.0.0.1:6379", 0));
        assert_eq!(Said::read([Value::Nil].into_iter()), None);
    }

    #[test]
    fn the_newest_fail_over_counts_and_then_the_number() {
        let of = |said: &[Said]| newest(said).map(|it| it.master.clone());
        assert_eq!(of(&[said("a", 1), said("b", 2), said("a", 1)]).as_deref(), Some("b"));
        assert_eq!(of(&[said("a", 0), said("b", 0), said("b", 0)]).as_deref(), Some("b"));
        assert_eq!(of(&[said("a", 3), said("b", 3)]).as_deref(), Some("a"), "of two the first that answered");
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_replica_is_away_only_if_all_sentinels_say_so() {
        let replica =
            |away, may_lead| Replica { place: "r".into(), away: Duration::from_secs(away), may_lead };
        let with = |master: &str, it| Said { replicas: Some(vec![it]), ..said(master, 1) };
        let known = [with("a", replica(9, false)), with("a", replica(0, true)), with("b", replica(5, true))];
        assert_eq!(replicas_of(&known, "a"), Some(vec![replica(0, true)]));
        assert_eq!(replicas_of(&known[..1], "a"), Some(vec![replica(9, false)]));
        assert_eq!(replicas_of(&[said("a", 1)], "a"), None);
    }
}
