//! From which address a request comes: that of the connection, or, where that is a proxy's that is trusted, the last
//! one in `X-Forwarded-For` that is not. What stands before it anybody may have written.

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

/// What is known of those who ask.
#[derive(Debug)]
pub struct Callers {
    trusted: Networks,
    wrong_keys: WrongKeys,
}

impl Callers {
    /// By the settings, which were looked at when they were read; proxies that cannot be read are not trusted.
    pub fn new(config: &SchedulerConfig) -> Self {
        Self {
            trusted: Networks::parse(&config.trusted_proxies).unwrap_or_default(),
            wrong_keys: WrongKeys::new(config.wrong_keys_max, limits::WRONG_KEY_ADDRESSES_MAX),
        }
    }

    /// The answer to a wrong key.
    pub fn refuse(&self, headers: &HeaderMap, extensions: &Extensions) -> ApiError {
        let wrong = ApiError::unauthorized("Access token is invalid");
        // There is always a peer, except where no connection is.
        let Some(Peer(peer)) = extensions.get::<Peer>() else { return wrong };
        let address = client_address(*peer, headers, &self.trusted);
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

/// See the head of this file.
fn client_address(peer: SocketAddr, headers: &HeaderMap, trusted: &Networks) -> IpAddr {
    let mut last = peer.ip();
    let values = headers.get_all(FORWARDED_FOR).iter().collect::<Vec<_>>().into_iter().rev();
    for hop in values.flat_map(|value| value.to_str().unwrap_or("?").rsplit(',')) {
        if !trusted.contain(last) {
            return last;
        }
        // What is no address was not written by a proxy that does its work: then it is the proxy that counts.
        let Some(address) = address_of(hop.trim()) else { return last };
        last = address;
    }
    last
}

/// `192.0.2.7`, `192.0.2.7:4711`, `2001:db8::1`, `[2001:db8::1]:4711`.
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
    fn only_a_trusted_proxy_is_believed_and_only_its_own_word() {
        let near = &["10.0.0.0/8"][..];
        for (peer, forwarded, trusted, address) in [
            ("192.0.2.1:5", &["198.51.100.1"][..], &[][..], "192.0.2.1"),
            ("192.0.2.1:5", &["198.51.100.1"], near, "192.0.2.1"),
            ("10.0.0.1:5", &["198.51.100.1"], near, "198.51.100.1"),
            // The client has written the first one itself.
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
