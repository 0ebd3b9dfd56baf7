//! The binary `tidemill-scheduler`: reads arguments, starts, waits for a signal, stops.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tidemill_common::config::{Config, LogConfig, Sources};
use tidemill_common::{crash, telemetry};
use tidemill_scheduler::app;
use tokio::signal::unix::{SignalKind, signal};

/// Owns shards of runs in Redis, decides what runs next, and serves the HTTP API.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Settings file [default: tidemill.toml in this folder, if it exists]
    #[arg(long)]
    config: Option<PathBuf>,
    /// URL of Redis, such as redis://127.0.0.1:6379 (setting redis.url)
    #[arg(long)]
    redis_url: Option<String>,
    /// Address of the API, such as 127.0.0.1:8700 (setting scheduler.listen)
    #[arg(long)]
    listen: Option<String>,
}

/// A step creates many short-lived texts, and the C library's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    telemetry::start_panics();
    let arguments = Arguments::parse();
    let flags = [("redis.url", arguments.redis_url), ("scheduler.listen", arguments.listen)];
    let flags = flags.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?))).collect();
    let sources = Sources::of_process(arguments.config, flags);
    let log = sources.log();
    if let Err(error) = crash::arm_by_environment() {
        return complain(&log, &error, 2);
    }
    match Config::load(&sources) {
        Ok(config) => run(&config),
        Err(error) => complain(&log, &error, 2),
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn run(config: &Config) -> ExitCode {
    telemetry::start_logs(&config.log);
    tracing::info!(config = ?config, "settings");
    let scheduler = match app::start(config).await {
        Ok(scheduler) => scheduler,
        Err(app::StartError::Store(error)) => return complain(&config.log, &error, 3),
        Err(error) => return complain(&config.log, &error, 1),
    };
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} }
        }
        (Err(error), _) | (_, Err(error)) => return complain(&config.log, &error, 1),
    }
    scheduler.stop().await;
    ExitCode::SUCCESS
}

fn complain(log: &LogConfig, error: &dyn std::error::Error, code: u8) -> ExitCode {
    telemetry::complain("tidemill-scheduler", log, error);
    ExitCode::from(code)
}
