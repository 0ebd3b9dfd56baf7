//! The names of fields on spans and log lines, so that each has one spelling.

/// The run.
pub const RUN: &str = "run";
/// The node.
pub const NODE: &str = "node";
/// The shard.
pub const SHARD: &str = "shard";
/// The execution.
pub const EXECUTION: &str = "execution";
