//! The worker process: settings, signals, exit code.

mod flags;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tidemill_common::config::{Config, LogConfig};
use tidemill_common::crash;
use tidemill_common::store::redis::RedisStore;
use tidemill_common::store::{Jobs, Runs, StoreError};
use tidemill_common::telemetry::{complain, start_logs, start_metrics, start_panics};
use tidemill_worker::StartError;
use tokio::signal::unix::{SignalKind, signal};

/// Running a node creates many short-lived texts, and the C library's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // First of all: as a helper of the sandbox, this binary runs another program.
    if let Some(code) = tidemill_sandbox::helper::run_if_asked() {
        return code;
    }
    start_panics();
    let sources = flags::Flags::parse().sources();
    let log = sources.log();
    if let Err(error) = crash::arm_by_environment() {
        return refuse(&log, &error, 2);
    }
    let config = match Config::load(&sources) {
        Ok(config) => config,
        Err(error) => return refuse(&log, &error, 2),
    };
    start_logs(&config.log);
    start_metrics();
    // One thread for the hot loop. Measurements showed no gain from more.
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(work(&config)).unwrap_or_else(|error| {
            let no_store = matches!(error.downcast_ref(), Some(StartError::Store(_)))
                || error.downcast_ref::<StoreError>().is_some();
            refuse(&config.log, &*error, if no_store { 3 } else { 1 })
        }),
        Err(error) => refuse(&config.log, &error, 1),
    }
}

async fn work(config: &Config) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let own = config.clone();
    let own_store = move || Ok(RedisStore::new(&own.redis, own.store_limits())? as Arc<dyn Jobs>);
    let store = RedisStore::new(&config.redis, config.store_limits())?;
    // Refuse a server that would evict runs, or whose data a newer version writes.
    for warning in store.check().await.map_err(StartError::Store)?.warnings {
        tracing::warn!("{warning}");
    }
    let mut worker = tidemill_worker::start_with(config, store, Some(Box::new(own_store))).await?;
    let code = tokio::select! {
        _ = term.recv() => ExitCode::SUCCESS,
        _ = int.recv() => ExitCode::SUCCESS,
        () = worker.ended() => ExitCode::FAILURE,
    };
    worker.stop(Duration::from_secs(config.worker.grace_seconds)).await;
    Ok(code)
}

fn refuse(log: &LogConfig, error: &dyn std::error::Error, code: u8) -> ExitCode {
    complain("tidemill-worker", log, error);
    ExitCode::from(code)
}
