//! The settings of listeners: their limits and their checks.

use std::time::Duration;

use super::{Config, ConfigError, SchedulerConfig, WorkerConfig};
use crate::networks::Networks;
use crate::serve::{Limits, StreamLimits, TlsFiles};

impl SchedulerConfig {
    /// The limits of an event stream.
    pub fn stream_limits(&self) -> StreamLimits {
        let stalled = Duration::from_secs(self.stream_idle_seconds);
        StreamLimits { buffer_bytes: self.stream_buffer_bytes, stalled }
    }

    /// The files of the API's certificate; `None`: plain HTTP.
    pub fn tls_files(&self) -> Option<TlsFiles> {
        let (certificate, key) = (&self.tls_certificate_file, &self.tls_key_file);
        (!certificate.is_empty()).then(|| TlsFiles {
            certificate: ("scheduler.tls_certificate_file", certificate.clone()),
            key: ("scheduler.tls_key_file", key.clone()),
        })
    }

    /// The limits of connections to the API and to `metrics_listen`.
    pub fn limits(&self, connections_max: usize) -> Limits {
        limits(self.header_timeout_ms, self.idle_seconds, connections_max)
    }
}

impl WorkerConfig {
    /// The limits of connections to a worker.
    pub fn limits(&self, connections_max: usize) -> Limits {
        limits(self.header_timeout_ms, self.idle_seconds, connections_max)
    }
}

fn limits(header_timeout_ms: u64, idle_seconds: u64, connections_max: usize) -> Limits {
    let header_timeout = Duration::from_millis(header_timeout_ms);
    Limits { header_timeout, idle: Duration::from_secs(idle_seconds), connections_max }
}

impl Config {
    /// Checks the settings of listeners; `origin` as for [`Config::check`].
    pub(super) fn check_listeners<'a>(&self, origin: &impl Fn(&str) -> &'a str) -> Result<(), ConfigError> {
        let wrong = |key: &str, reason: String| ConfigError::Value {
            key: key.into(),
            origin: origin(key).into(),
            reason,
        };
        let (scheduler, worker) = (&self.scheduler, &self.worker);
        for (key, value) in [
            ("scheduler.connections_max", scheduler.connections_max as u64),
            ("scheduler.metrics_connections_max", scheduler.metrics_connections_max as u64),
            ("scheduler.header_timeout_ms", scheduler.header_timeout_ms),
            ("scheduler.idle_seconds", scheduler.idle_seconds),
            ("scheduler.tls_check_seconds", scheduler.tls_check_seconds),
            ("scheduler.wrong_keys_max", scheduler.wrong_keys_max as u64),
            ("scheduler.stream_buffer_bytes", scheduler.stream_buffer_bytes as u64),
            ("worker.connections_max", worker.connections_max as u64),
            ("worker.header_timeout_ms", worker.header_timeout_ms),
            ("worker.idle_seconds", worker.idle_seconds),
        ] {
            // The upper bound is far beyond any use, and prevents overflow in sums of times and counts.
            if value == 0 || value > u64::from(u32::MAX) {
                return Err(wrong(key, format!("1 to {}", u32::MAX)));
            }
        }
        let (certificate, key) = ("scheduler.tls_certificate_file", "scheduler.tls_key_file");
        match (scheduler.tls_certificate_file.is_empty(), scheduler.tls_key_file.is_empty()) {
            (false, true) => return Err(wrong(certificate, format!("{key} is not set as well"))),
            (true, false) => return Err(wrong(key, format!("{certificate} is not set as well"))),
            _ => {}
        }
        let key = "scheduler.trusted_proxies";
        Networks::parse(&scheduler.trusted_proxies).map_err(|reason| wrong(key, reason))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Sources};

    #[test]
    fn limits_of_zero_and_proxies_that_are_no_addresses_are_refused_by_name() {
        for (key, text, expected) in [
            (
                "scheduler.connections_max",
                "0",
                "setting scheduler.connections_max in a flag: 1 to 4294967295",
            ),
            (
                "scheduler.stream_buffer_bytes",
                "0",
                "setting scheduler.stream_buffer_bytes in a flag: 1 to 4294967295",
            ),
            ("worker.idle_seconds", "0", "setting worker.idle_seconds in a flag: 1 to 4294967295"),
            (
                "scheduler.trusted_proxies",
                "10.1.0.0/16, gate",
                "setting scheduler.trusted_proxies in a flag: \"gate\" is neither an address nor a network such as \
                 10.1.0.0/16",
            ),
        ] {
            let flags = vec![(key.to_string(), text.to_string())];
            let refused = Config::load(&Sources { flags, ..Sources::default() }).unwrap_err();
            assert_eq!(refused.to_string(), expected);
        }
    }
}
