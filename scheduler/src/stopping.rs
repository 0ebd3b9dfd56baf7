//! The stages of a stop. Proxies must notice that a process leaves before it refuses them, and clients that follow a run
//! should see its end if it comes soon. So a stop takes some time, although the shards are given up at once.

use std::time::Duration;

use tidemill_common::config::SchedulerConfig;
use tokio::sync::watch::Receiver;

/// How far a stop has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Stage {
    /// No stop was asked for.
    #[default]
    Serving,
    /// `/readyz` fails, and the shards are given up. Requests are still taken.
    Leaving,
    /// No new requests are taken. Open streams and waiting requests go on.
    Draining,
    /// Open streams say that they end, and end.
    Closing,
}

/// The times of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// From the signal until no new requests are taken.
    pub leaving: Duration,
    /// From then until open streams end.
    pub draining: Duration,
    /// From then until the process ends at the latest: streams must still send their last bytes.
    pub closing: Duration,
}

impl Schedule {
    /// Both settings count from the signal, and the grace period is the longer one.
    pub fn of(config: &SchedulerConfig) -> Self {
        let grace = Duration::from_secs(config.grace_seconds);
        let leaving = Duration::from_millis(config.unready_ms).min(grace);
        Self { leaving, draining: grace.saturating_sub(leaving), closing: Duration::from_secs(1) }
    }
}

/// Returns when a stage is reached, and never if the process does not stop.
pub async fn reached(stage: Stage, now: &mut Receiver<Stage>) {
    if now.wait_for(|now| *now >= stage).await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_taken_for_a_while_but_never_longer_than_the_grace_period() {
        for (unready_ms, grace_seconds, leaving, draining) in
            [(1000, 10, 1000, 9000), (0, 10, 0, 10_000), (5000, 2, 2000, 0), (1000, 0, 0, 0)]
        {
            let config = SchedulerConfig { unready_ms, grace_seconds, ..SchedulerConfig::default() };
            let schedule = Schedule::of(&config);
            let found = (schedule.leaving.as_millis(), schedule.draining.as_millis());
            assert_eq!(found, (leaving, draining), "{unready_ms} ms, {grace_seconds} s");
        }
    }
}
