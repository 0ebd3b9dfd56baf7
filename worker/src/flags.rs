//! What can be said on the command line. Each flag is a setting of the file under a shorter name.

use std::path::PathBuf;

use clap::Parser;
use tidemill_common::config::Sources;

/// Takes jobs from Redis, runs nodes, reports results. Settings: file < environment < flags.
#[derive(Parser)]
#[command(name = "tidemill-worker", version)]
pub(crate) struct Flags {
    /// The settings file [default: tidemill.toml, if it is there]
    #[arg(long)]
    config: Option<PathBuf>,
    /// Where Redis is: redis://[user:password@]host:port[/db]
    #[arg(long)]
    redis_url: Option<String>,
    /// In front of every key
    #[arg(long)]
    namespace: Option<String>,
    /// The queues to serve, separated by commas
    #[arg(long)]
    queues: Option<String>,
    /// Jobs to run at once
    #[arg(long)]
    permits: Option<String>,
    /// Where health and metrics listen; empty: nowhere
    #[arg(long)]
    listen: Option<String>,
    /// Time for running jobs to end at a stop, in seconds
    #[arg(long)]
    grace_seconds: Option<String>,
    /// A level, or directives such as info,tidemill_worker=debug
    #[arg(long)]
    log: Option<String>,
}

impl Flags {
    /// Where the settings come from.
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
