//! Connections that may still carry bytes nobody asked for. An answer of 204 or 304 ends with its head, but faulty servers
//! send a body all the same, and the next call on that connection, perhaps of another run, would take it for its answer.
//!
//! An idle connection on which something arrives is closed by the HTTP client. So it is enough to leave a server's idle
//! connections alone for a moment after such an answer: calls in that time have connections of their own, and what is idle
//! afterwards is clean. (An answer to `HEAD` is known beforehand to have no body: such calls always have their own.)

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::Url;
use tokio::time::Instant;
use url::Origin;

/// How long: a body comes right behind its head, so this is long; and short for a server that does nothing wrong.
const LASTS: Duration = Duration::from_secs(5);

/// The servers whose idle connections are not used, and until when.
#[derive(Debug, Default)]
pub struct Quarantine(Mutex<HashMap<Origin, Instant>>);

impl Quarantine {
    /// From now on, for the server of this address. Those that are over are forgotten.
    pub fn begin(&self, url: &Url) {
        let now = Instant::now();
        let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.retain(|_, until| *until > now);
        until.insert(url.origin(), now + LASTS);
    }

    /// Whether a call to this address has to have a connection of its own.
    pub fn holds(&self, url: &Url) -> bool {
        let until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.get(&url.origin()).is_some_and(|until| *until > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_is_left_alone_for_a_moment_and_others_are_not() {
        let [server, same, other] =
            ["http://a/x", "http://a:80/y", "http://a:81/"].map(|url| Url::parse(url).unwrap());
        let quarantine = Quarantine::default();
        quarantine.begin(&server);
        assert_eq!([&server, &same, &other].map(|url| quarantine.holds(url)), [true, true, false]);
        tokio::time::advance(LASTS).await;
        assert!(!quarantine.holds(&server));
        quarantine.begin(&other);
        assert_eq!(quarantine.0.lock().unwrap().len(), 1);
    }
}
