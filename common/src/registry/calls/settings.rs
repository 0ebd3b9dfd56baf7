//! The limits of Calls: section `[calls]` of the settings.

use serde::{Deserialize, Serialize};

/// Section `[calls]`: the limits of Calls on workers.
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
    /// Most concurrent connections of a worker to one datasource.
    pub sql_connections_max: usize,
    /// Longest time of a text-to-SQL service, in seconds.
    pub sql_service_seconds_max: u64,
    /// Most bytes of an answer from a service or a Call.
    pub answer_bytes_max: u64,
    /// Longest time of one operation of a registered Call, in seconds.
    pub seconds_max: u64,
    /// Longest line that a registered Call sends, in bytes.
    pub line_bytes_max: usize,
    /// Programs that registered Calls may run: the first words of their commands.
    pub programs: Vec<String>,
}

impl Default for CallsConfig {
    fn default() -> Self {
        Self {
            // More than people read and models take.
            sql_rows_max: 1000,
            sql_bytes_max: 1024 * 1024,
            sql_seconds_max: 60,
            // Keeps the parser's work small.
            sql_statement_bytes_max: 64 * 1024,
            // A tenth of PostgreSQL's default limit.
            sql_connections_max: 8,
            // The usual limit of such services.
            sql_service_seconds_max: 60,
            answer_bytes_max: 32 * 1024 * 1024,
            seconds_max: 300,
            line_bytes_max: 1024 * 1024,
            // Empty, because otherwise anyone who may register a Call could run any program on every worker.
            programs: Vec::new(),
        }
    }
}
