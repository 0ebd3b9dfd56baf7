//! The worker's process: settings, signals, exit code.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tidemill_common::config::{Config, Sources};
use tidemill_common::store::Jobs;
use tidemill_common::store::redis::RedisStore;
use tidemill_common::telemetry::{start_logs, start_metrics};
use tokio::signal::unix::{SignalKind, signal};

/// Takes jobs from Redis, runs nodes, reports results. Settings: file < environment < flags.
#[derive(Parser)]
#[command(name = "tidemill-worker", version)]
struct Flags {
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
    fn sources(self) -> Sources {
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

fn main() -> ExitCode {
    let config = match Config::load(&Flags::parse().sources()) {
        Ok(config) => config,
        Err(error) => return refuse(&error),
    };
    start_logs(&config.log);
    start_metrics();
    // One thread for the hot loop: measured, more gain nothing.
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(work(&config)).unwrap_or_else(|error| refuse(&*error)),
        Err(error) => refuse(&error),
    }
}

async fn work(config: &Config) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let own = config.clone();
    let own_store = move || Ok(RedisStore::from_config(&own)? as Arc<dyn Jobs>);
    let mut worker =
        tidemill_worker::start_with(config, RedisStore::from_config(config)?, Some(Box::new(own_store)))
            .await?;
    let code = tokio::select! {
        _ = term.recv() => ExitCode::SUCCESS,
        _ = int.recv() => ExitCode::SUCCESS,
        () = worker.ended() => ExitCode::FAILURE,
    };
    worker.stop(Duration::from_secs(config.worker.grace_seconds)).await;
    Ok(code)
}

#[allow(clippy::print_stderr, reason = "before the logs are set up there is no other place")]
fn refuse(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("tidemill-worker: {error}");
    ExitCode::FAILURE
}
