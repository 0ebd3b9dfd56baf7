//! Avoids connections that may carry unexpected bytes. An answer with 204 or 304 has no body, but faulty servers send
//! one. The next call on that connection, perhaps of another run, would take it for its answer.
//!
//! The HTTP client closes an idle connection when bytes arrive on it. So after such an answer it is enough not to use a
//! server's idle connections for a moment. Calls in that time open their own connections; connections still idle
//! afterwards are clean. (`HEAD` calls always have their own.)

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::Url;
use tokio::time::Instant;
use url::Origin;

/// Duration of a quarantine. A body follows its head at once, so this is long enough; and short for a correct server.
const LASTS: Duration = Duration::from_secs(5);

/// The servers in quarantine, with the end of each.
#[derive(Debug, Default)]
pub struct Quarantine(Mutex<HashMap<Origin, Instant>>);

impl Quarantine {
    /// Starts a quarantine for the server of this URL and forgets ended ones.
    pub fn begin(&self, url: &Url) {
        let now = Instant::now();
        let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.retain(|_, until| *until > now);
        until.insert(url.origin(), now + LASTS);
    }

    /// Returns true if a call to this URL needs its own connection.
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
