//! Logs and metrics, set up the same way in every process.

pub mod fields;
mod metrics;

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat};

pub use self::metrics::start_metrics;

/// Starts logging to standard error, by the settings. A second call changes nothing.
pub fn start_logs(config: &LogConfig) {
    let filter = EnvFilter::try_new(&config.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let json = match config.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(true);
    let started = if json {
        builder.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
    } else {
        builder.try_init()
    };
    // Tests and `dev` start several processes' worth of code in one; the first call decides.
    drop(started);
}
