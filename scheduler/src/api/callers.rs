//! Finds the client's address of a request: the address of the connection. If that is a trusted proxy, it is the last
//! address in `X-Forwarded-For` that is not trusted. The client itself can write what comes before that one.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use axum::http::{Extensions, HeaderMap, StatusCode};
use tidemill_common::config::SchedulerConfig;
use tidemill_common::limits;
use tidemill_common::networks::Networks;
use tidemill_common::serve::Peer;

use super::error::ApiError;
use super::wrong_keys::WrongKeys;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The trusted proxies, and the addresses that have sent wrong keys.
#[derive(Debug)]
pub struct Callers {
    trusted: Networks,
    wrong_keys: WrongKeys,
}

impl Callers {
    /// Creates it from the settings, which were checked before. Invalid proxies would not be trusted.
    pub fn new(config: &SchedulerConfig) -> Self {
        Self {
            trusted: Networks::parse(&config.trusted_proxies).unwrap_or_default(),
            wrong_keys: WrongKeys::new(config.wrong_keys_max, limits::WRONG_KEY_ADDRESSES_MAX),
        }
    }

    /// The address of the client. It is missing only in tests without a connection.
    pub fn address(&self, headers: &HeaderMap, extensions: &Extensions) -> Option<IpAddr> {
        let Peer(peer) = extensions.get::<Peer>()?;
        Some(client_address(*peer, headers, &self.trusted))
    }

    /// Counts a wrong key and returns the error for it.
    pub fn refuse(&self, headers: &HeaderMap, extensions: &Extensions) -> ApiError {
        let wrong = ApiError::unauthorized("Access token is invalid");
        let Some(address) = self.address(headers, extensions) else { return wrong };
        if !self.wrong_keys.is_too_many(address, Instant::now()) {
            return wrong;
        }
        let max = self.wrong_keys.max();
        let message = format!(
            "more than {max} wrong keys within a second from this address (scheduler.wrong_keys_max); try again in a \
             second, with the right one"
        );
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", message)
    }
}

/// The address of the client, as the head of this file explains.
fn client_address(peer: SocketAddr, headers: &HeaderMap, trusted: &Networks) -> IpAddr {
    let mut last = peer.ip();
    let values = headers.get_all(FORWARDED_FOR).iter().collect::<Vec<_>>().into_iter().rev();
    for hop in values.flat_map(|value| value.to_str().unwrap_or("?").rsplit(',')) {
        if !trusted.contain(last) {
            return last;
        }
        // A correct proxy writes only addresses. With anything else the proxy itself counts as the client.
        let Some(address) = address_of(hop.trim()) else { return last };
        last = address;
    }
    last
}

/// Parses `192.0.2.7`, `192.0.2.7:4711`, `2001:db8::1` or `[2001:db8::1]:4711`.
fn address_of(hop: &str) -> Option<IpAddr> {
    let bare = hop.trim_start_matches('[').trim_end_matches(']');
    bare.parse().ok().or_else(|| hop.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(peer: &str, forwarded: &[&str], trusted: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED_FOR, value.parse().unwrap());
        }
        let trusted: Vec<String> = trusted.iter().map(ToString::to_string).collect();
        client_address(peer.parse().unwrap(), &headers, &Networks::parse(&trusted).unwrap()).to_string()
    }

    #[test]
    fn only_the_entry_of_a_trusted_proxy_is_believed() {
        let near = &["10.0.0.0/8"][..];
        for (peer, forwarded, trusted, address) in [
            ("192.0.2.1:5", &["198.51.100.1"][..], &[][..], "192.0.2.1"),
            ("192.0.2.1:5", &["198.51.100.1"], near, "192.0.2.1"),
            ("10.0.0.1:5", &["198.51.100.1"], near, "198.51.100.1"),
            // The client itself has written the first address.
            ("10.0.0.1:5", &["1.1.1.1, 198.51.100.1"], near, "198.51.100.1"),
            ("10.0.0.1:5", &["1.1.1.1, 198.51.100.1, 10.0.0.2"], near, "198.51.100.1"),
            ("10.0.0.1:5", &["1.1.1.1", "198.51.100.1,10.0.0.2"], near, "198.51.100.1"),
            ("10.0.0.1:5", &["10.0.0.3"], near, "10.0.0.3"),
            ("10.0.0.1:5", &[], near, "10.0.0.1"),
            ("10.0.0.1:5", &["1.1.1.1, unknown"], near, "10.0.0.1"),
            ("10.0.0.1:5", &["198.51.100.1:443"], near, "198.51.100.1"),
            ("10.0.0.1:5", &["[2001:db8::1]:443"], near, "2001:db8::1"),
            ("[::ffff:10.0.0.1]:5", &["2001:db8::1"], near, "2001:db8::1"),
        ] {
            assert_eq!(seen(peer, forwarded, trusted), address, "{peer} {forwarded:?} {trusted:?}");
        }
    }
}
