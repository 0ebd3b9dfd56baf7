//! The command-line flags. Each flag is a short name for a setting of the file.

use std::path::PathBuf;

use clap::Parser;
use tidemill_common::config::Sources;

/// Takes jobs from Redis, runs nodes, reports results. Precedence of settings: file < environment < flags.
#[derive(Parser)]
#[command(name = "tidemill-worker", version)]
pub(crate) struct Flags {
    /// Path of the settings file [default: tidemill.toml, if it exists]
    #[arg(long)]
    config: Option<PathBuf>,
    /// Address of Redis: redis://[user:password@]host:port[/db], redis+sentinel://… or redis+cluster://…
    #[arg(long)]
    redis_url: Option<String>,
    /// Prefix of every Redis key
    #[arg(long)]
    namespace: Option<String>,
    /// Queues to serve, separated by commas
    #[arg(long)]
    queues: Option<String>,
    /// Number of jobs to run at once
    #[arg(long)]
    permits: Option<String>,
    /// Address for health and metrics; empty: not served
    #[arg(long)]
    listen: Option<String>,
    /// Seconds that running jobs get to finish when the worker stops
    #[arg(long)]
    grace_seconds: Option<String>,
    /// Log level, or directives such as info,tidemill_worker=debug
    #[arg(long)]
    log: Option<String>,
}

impl Flags {
    /// Converts the flags to sources of settings.
    pub(crate) fn sources(self) -> Sources {
        let flags = [
            ("redis.url", self.redis_url),
            ("redis.namespace", self.namespace),
            ("worker.queues", self.queues),
            ("worker.permits", self.permits),
            ("worker.listen", self.listen),
            ("worker.grace_seconds", self.grace_seconds),
            ("log.level", self.log),
        ];
        let given = flags.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?)));
        Sources::of_process(self.config, given.collect())
    }
}
