//! The settings of every process: `tidemill.toml` < environment < flags. One file serves all processes.
//!
//! A key `k` of section `[s]` is `TIDEMILL_S_K` in the environment; the limits that Dify names by environment variables
//! are read under those names too. An unknown key or section is an error that names the nearest known one.

mod connection;
mod doors;
mod files;
mod load;
mod run;
mod scheduler;
mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use toml::Table;

pub use crate::calls::CallsConfig;
pub use crate::nodes::code::CodeConfig;
pub use crate::nodes::document_extractor::DocumentsConfig;
pub use crate::nodes::knowledge_retrieval::KnowledgeConfig;
pub use crate::nodes::tool::ToolsConfig;
pub use connection::RedisConfig;
pub use files::FilesConfig;
pub use load::{Sources, nearest};
pub use run::{CompatConfig, ConversationWrites, NestedAnswers, RunConfig, Undefined};
pub use scheduler::SchedulerConfig;
pub use worker::{HttpConfig, WorkerConfig};

/// What is wrong with the settings.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{path} is not valid TOML: {reason}")]
    Toml {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
    /// A key that does not exist.
    #[error("unknown setting {key} in {origin}{}", nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    Unknown {
        /// `section.key`.
        key: String,
        /// File, environment or flag.
        origin: String,
        /// The nearest known key.
        nearest: Option<String>,
    },
    /// A value that does not fit.
    #[error("setting {key} in {origin}: {reason}")]
    Value {
        /// `section.key`.
        key: String,
        /// File, environment or flag.
        origin: String,
        /// What was expected.
        reason: String,
    },
}

/// All settings. Its defaults are the documentation of the defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where Redis is.
    pub redis: RedisConfig,
    /// The scheduler.
    pub scheduler: SchedulerConfig,
    /// The worker.
    pub worker: WorkerConfig,
    /// Calls to the outside that workflows make.
    pub http: HttpConfig,
    /// Files that nodes make.
    pub files: FilesConfig,
    /// Code nodes, read by the worker.
    pub code: CodeConfig,
    /// Document extractors, read by the worker.
    pub documents: DocumentsConfig,
    /// Tools, read by the worker.
    pub tools: ToolsConfig,
    /// Calls of steps, read by the worker.
    pub calls: CallsConfig,
    /// Knowledge bases, read by the worker.
    pub knowledge: KnowledgeConfig,
    /// What new runs get unless they say otherwise.
    pub run: RunConfig,
    /// Where Tidemill and bare graphon, or versions of Dify, differ.
    pub compat: CompatConfig,
    /// Logs.
    pub log: LogConfig,
    /// Model providers by name, read by the worker.
    pub providers: BTreeMap<String, Table>,
    /// Profiles by id, read by the worker.
    pub profiles: BTreeMap<String, Table>,
}

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

/// See [`LogConfig::format`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// By what the output is.
    Auto,
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// A URL with what stands between `://` and `@` hidden.
pub fn masked_url(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme + 3 <= at => format!("{}***{}", &url[..scheme + 3], &url[at..]),
        _ => url.to_string(),
    }
}

/// A secret as it is shown.
fn mask(secret: &str) -> String {
    if secret.is_empty() { String::new() } else { "***".into() }
}

#[cfg(test)]
mod tests {
    use toml::Table;

    use super::Config;

    /// So a setting that is added gets its line there.
    #[test]
    fn the_example_file_holds_every_setting_at_its_default() {
        let example: Table =
            include_str!("../../../deploy/example.toml").parse().expect("the example is TOML");
        let mut defaults = Table::try_from(Config::default()).expect("settings are TOML");
        // Providers and profiles have names of their own; the example shows them as comments.
        defaults.remove("providers");
        defaults.remove("profiles");
        for (section, keys) in &defaults {
            assert_eq!(example.get(section), Some(keys), "[{section}]");
        }
        assert_eq!(example.len(), defaults.len(), "the example has a section that does not exist");
    }
}
