//! How logs are written.

use serde::{Deserialize, Serialize};

/// `[log]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// A level, or directives such as `info,tidemill_worker=debug`.
    pub level: String,
    /// `text`, `json`, or `auto`: text on a terminal, else JSON.
    pub format: LogFormat,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Auto }
    }
}

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Chosen by the kind of output.
    Auto,
    /// For people.
    Text,
    /// For machines.
    Json,
}
