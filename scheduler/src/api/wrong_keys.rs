//! Slows down addresses that try keys: after too many wrong keys within a second the client must wait. No I/O: the
//! caller gives address and time, and calls only for wrong keys, so requests with a right key never wait.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time that a wrong key counts.
const COUNTS: Duration = Duration::from_secs(1);

/// The wrong keys of the last second, by address.
#[derive(Debug)]
pub struct WrongKeys {
    /// Wrong keys of one address per second that are answered with 401.
    max: usize,
    /// The most addresses to remember.
    addresses_max: usize,
    seen: Mutex<Seen>,
}

/// Two generations, so that forgetting is cheap. When the younger one is full or a second old, it replaces the older
/// one, which is dropped.
#[derive(Debug, Default)]
struct Seen {
    begun: Option<Instant>,
    young: HashMap<IpAddr, VecDeque<Instant>>,
    old: HashMap<IpAddr, VecDeque<Instant>>,
}

impl WrongKeys {
    /// Creates it without wrong keys.
    pub fn new(max: usize, addresses_max: usize) -> Self {
        Self { max, addresses_max, seen: Mutex::default() }
    }

    /// Wrong keys of one address per second that are answered with 401.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Records a wrong key. Returns true when it is one too many. Those are not recorded, so an address that continues
    /// is not blocked for longer than a second at a time.
    pub fn is_too_many(&self, address: IpAddr, now: Instant) -> bool {
        // After a panic under the lock some counts may be off by one, which is harmless.
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let times = seen.times(counted_as(address), now, self.addresses_max);
        while times.front().is_some_and(|first| now.duration_since(*first) >= COUNTS) {
            times.pop_front();
        }
        if times.len() >= self.max {
            return true;
        }
        times.push_back(now);
        false
    }
}

impl Seen {
    fn times(&mut self, address: IpAddr, now: Instant, addresses_max: usize) -> &mut VecDeque<Instant> {
        let is_over = self.begun.is_none_or(|begun| now.duration_since(begun) >= COUNTS);
        let is_full = self.young.len() >= (addresses_max / 2).max(1) && !self.young.contains_key(&address);
        if is_over || is_full {
            self.old = std::mem::take(&mut self.young);
            self.begun = Some(now);
        }
        let old = self.old.remove(&address);
        self.young.entry(address).or_insert_with(|| old.unwrap_or_default())
    }
}

/// The address that is counted: an IPv4 address, or the /64 network of an IPv6 address, which one customer has.
fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    /// The number of refused tries among this many at one time.
    fn too_many(keys: &WrongKeys, address: &str, tries: usize, now: Instant) -> usize {
        (0..tries).filter(|_| keys.is_too_many(ip(address), now)).count()
    }

    #[test]
    fn wrong_keys_above_the_limit_are_refused_for_a_second_and_other_addresses_are_not() {
        let (keys, now) = (WrongKeys::new(16, 100), Instant::now());
        let ms = |ms| now + Duration::from_millis(ms);
        assert_eq!(too_many(&keys, "192.0.2.1", 16, now), 0);
        assert_eq!(too_many(&keys, "192.0.2.1", 5, ms(999)), 5);
        assert_eq!(too_many(&keys, "192.0.2.2", 16, ms(999)), 0, "another address");
        assert_eq!(too_many(&keys, "192.0.2.1", 16, ms(1000)), 0, "a second later");
        assert_eq!(too_many(&keys, "192.0.2.1", 1, ms(1500)), 1);
    }

    #[test]
    fn the_second_is_a_sliding_window() {
        let (keys, now) = (WrongKeys::new(16, 100), Instant::now());
        let ms = |ms| now + Duration::from_millis(ms);
        assert_eq!(too_many(&keys, "192.0.2.1", 1, now), 0);
        assert_eq!(too_many(&keys, "192.0.2.1", 15, ms(900)), 0);
        assert_eq!(
            too_many(&keys, "192.0.2.1", 3, ms(1100)),
            2,
            "the first one no longer counts, the others do"
        );
    }

    #[test]
    fn addresses_of_one_network_are_counted_together() {
        let (keys, now) = (WrongKeys::new(2, 100), Instant::now());
        assert_eq!(too_many(&keys, "2001:db8::1", 2, now), 0);
        assert_eq!(too_many(&keys, "2001:db8::ffff:2", 1, now), 1);
        assert_eq!(too_many(&keys, "2001:db8:0:1::1", 1, now), 0);
        assert_eq!(too_many(&keys, "192.0.2.1", 2, now), 0);
        assert_eq!(too_many(&keys, "::ffff:192.0.2.1", 1, now), 1);
    }

    #[test]
    fn the_table_is_limited_and_an_address_that_continues_stays_in_it() {
        let (keys, now) = (WrongKeys::new(4, 100), Instant::now());
        assert_eq!(too_many(&keys, "192.0.2.1", 4, now), 0);
        for n in 0..10_000_u32 {
            let other = IpAddr::from(u32::to_be_bytes(0x0A00_0000 + n));
            assert!(!keys.is_too_many(other, now));
            assert!(keys.is_too_many(ip("192.0.2.1"), now), "after {n} others");
            let seen = keys.seen.lock().unwrap();
            assert!(seen.young.len() + seen.old.len() <= 100);
        }
    }
}
