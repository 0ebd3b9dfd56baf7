//! The settings of webhooks of apps: what is sent about runs to servers that an app names.

use serde::{Deserialize, Serialize};

use tidemill_base::limits;

/// `[webhooks]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhooksConfig {
    /// Longest time for a receiver to answer, in milliseconds.
    pub timeout_ms: u64,
    /// Most tries of a notice; then it is given up.
    pub tries_max: u32,
    /// Longest pause between two tries, in seconds.
    pub pause_seconds_max: u64,
    /// Most notices of an app that wait on a shard; above it those are given up whose next try is the latest.
    pub waiting_max: u64,
    /// Most records of notices of an app that were given up, kept on each shard.
    pub given_up_max: usize,
    /// Largest body of a notice, in bytes; outputs that do not fit are left out.
    pub body_bytes_max: usize,
}

impl Default for WebhooksConfig {
    fn default() -> Self {
        Self {
            timeout_ms: limits::WEBHOOK_TIMEOUT_MS,
            tries_max: limits::WEBHOOK_TRIES_MAX,
            pause_seconds_max: limits::WEBHOOK_PAUSE_SECONDS_MAX,
            waiting_max: limits::WEBHOOK_WAITING_MAX,
            given_up_max: limits::WEBHOOK_GIVEN_UP_MAX,
            body_bytes_max: limits::WEBHOOK_BODY_BYTES_MAX,
        }
    }
}
