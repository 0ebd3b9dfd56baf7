//! Bounds of calls, section `[calls]` of the settings.

use serde::{Deserialize, Serialize};

/// Section `[calls]`: what calls of workers may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CallsConfig {
    /// Most rows of a query's result.
    pub sql_rows_max: u64,
    /// Most bytes of a query's result, as JSON.
    pub sql_bytes_max: u64,
    /// Longest time of a query, connecting included, in seconds.
    pub sql_seconds_max: u64,
    /// Longest statement, in bytes.
    pub sql_statement_bytes_max: usize,
    /// Most connections to one datasource at the same time, for each worker.
    pub sql_connections_max: usize,
    /// Longest time that a text-to-SQL service may take, in seconds.
    pub sql_service_seconds_max: u64,
    /// Most bytes of an answer of a service, or of a Call.
    pub answer_bytes_max: u64,
    /// Longest time of one operation of a registered Call, in seconds.
    pub seconds_max: u64,
    /// Longest line that a registered Call sends, in bytes.
    pub line_bytes_max: usize,
    /// Programs that registered Calls may be; each as the first word of their commands.
    pub programs: Vec<String>,
}

impl Default for CallsConfig {
    fn default() -> Self {
        Self {
            // More than anybody reads, and than a model takes.
            sql_rows_max: 1000,
            sql_bytes_max: 1024 * 1024,
            sql_seconds_max: 60,
            // What the parser does with it stays small.
            sql_statement_bytes_max: 64 * 1024,
            // A tenth of what PostgreSQL allows by itself.
            sql_connections_max: 8,
            // As the services that are asked so have it.
            sql_service_seconds_max: 60,
            answer_bytes_max: 32 * 1024 * 1024,
            seconds_max: 300,
            line_bytes_max: 1024 * 1024,
            // Who may register a Call would else run whatever they like on every worker.
            programs: Vec::new(),
        }
    }
}
