//! Decides how a request finds its server in a Redis Cluster: the slot of a key, and what an answer of a server says about
//! where to ask. Nothing here does I/O.

use redis::RedisError;

/// The number of slots of a cluster.
pub(in crate::store::redis) const SLOTS: u16 = 16_384;

/// The slot of a key: CRC16 of its hash tag, or of the whole key if it has none.
pub(in crate::store::redis) fn slot_of(key: &[u8]) -> u16 {
    let tag = || {
        let (_, rest) = split_at(key, b'{')?;
        let (tag, _) = split_at(rest, b'}')?;
        (!tag.is_empty()).then_some(tag)
    };
    crc16(tag().unwrap_or(key)) % SLOTS
}

fn split_at(text: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|it| *it == byte)?;
    Some((&text[..at], &text[at + 1..]))
}

/// CRC-16/XMODEM, which the cluster specification prescribes.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc: u16, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

/// What an error of a server says about where to ask. In all these cases the server has done nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store::redis) enum Redirect {
    /// The slot belongs to the server at this address from now on.
    Moved { slot: u16, address: String },
    /// The slot is on its way to the server at this address. This request alone goes there, after `ASKING`.
    Ask { address: String },
    /// The keys of the request are on their way and not all in one place yet, or the slot has no server at the moment.
    Wait,
}

impl Redirect {
    /// `None` for errors that say nothing of the kind.
    pub(in crate::store::redis) fn of(error: &RedisError) -> Option<Self> {
        let several = error.clone().into_server_errors();
        let first = several.as_ref().and_then(|errors| errors.first());
        let code = error.code().or_else(|| first.map(|(_, error)| error.code()))?;
        let detail =
            error.detail().or_else(|| first.and_then(|(_, error)| error.details())).unwrap_or_default();
        Self::read(code, detail)
    }

    fn read(code: &str, detail: &str) -> Option<Self> {
        let mut words = detail.split_whitespace();
        let slot = words.next().and_then(|slot| slot.parse().ok()).filter(|slot| *slot < SLOTS);
        let address = words.next().filter(|address| address.contains(':')).map(str::to_string);
        match (code, slot, address) {
            ("MOVED", Some(slot), Some(address)) => Some(Self::Moved { slot, address }),
            ("ASK", Some(_), Some(address)) => Some(Self::Ask { address }),
            ("TRYAGAIN" | "CLUSTERDOWN", _, _) => Some(Self::Wait),
            _ => None,
        }
    }
}

/// The address that a redirect names. A server that does not know its own name sends only `:port`; then the host is the one
/// that was asked.
pub(in crate::store::redis) fn complete(address: &str, asked_host: &str) -> String {
    match address.rsplit_once(':') {
        Some(("" | "?", port)) => format!("{asked_host}:{port}"),
        Some(_) | None => address.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_servers() {
        // From `CLUSTER KEYSLOT` of Redis 7.0.15.
        for (key, slot) in
            [("123456789", 12_739), ("tm:meta", 13_929), ("tm:{0}:owner", 13_907), ("foo", 12_182)]
        {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn keys_with_the_same_tag_share_a_slot() {
        assert_eq!(slot_of(b"tm:{3}:inbox"), slot_of(b"other:{3}:fence"));
        assert_eq!(slot_of(b"{tm}:meta"), slot_of(b"tm"));
        assert_eq!(slot_of(b"{tm}:limit:{a}"), slot_of(b"tm"), "the first tag counts");
        assert_ne!(slot_of(b"a{}b"), slot_of(b""), "an empty tag is none");
        assert_ne!(slot_of(b"a{b"), slot_of(b"b"));
    }

    #[test]
    fn each_answer_says_where_to_ask() {
        let moved = Redirect::Moved { slot: 7, address: "10.0.0.1:7000".into() };
        for (code, detail, expected) in [
            ("MOVED", "7 10.0.0.1:7000", Some(moved)),
            ("ASK", "7 :7001", Some(Redirect::Ask { address: ":7001".into() })),
            ("TRYAGAIN", "Multiple keys request during rehashing of slot", Some(Redirect::Wait)),
            ("CLUSTERDOWN", "The cluster is down", Some(Redirect::Wait)),
            ("MOVED", "16384 10.0.0.1:7000", None),
            ("MOVED", "7", None),
            ("READONLY", "You can't write", None),
        ] {
            assert_eq!(Redirect::read(code, detail), expected, "{code} {detail}");
        }
    }

    #[test]
    fn an_answer_without_a_host_means_the_host_that_was_asked() {
        assert_eq!(complete(":7001", "10.0.0.1"), "10.0.0.1:7001");
        assert_eq!(complete("?:7001", "10.0.0.1"), "10.0.0.1:7001");
        assert_eq!(complete("::1:7001", "10.0.0.1"), "::1:7001");
        assert_eq!(complete("a.b:7001", "10.0.0.1"), "a.b:7001");
    }
}
