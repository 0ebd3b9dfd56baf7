//! The worker's process: settings, signals, exit code.

mod flags;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tidemill_common::config::{Config, LogConfig};
use tidemill_common::crash;
use tidemill_common::store::redis::RedisStore;
use tidemill_common::store::{Jobs, Runs, StoreError};
use tidemill_common::telemetry::{complain, start_logs, start_metrics};
use tidemill_worker::StartError;
use tokio::signal::unix::{SignalKind, signal};

/// A step is many short-lived texts, which the C library's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything else: as a helper of the sandbox this program is another one.
    if let Some(code) = tidemill_sandbox::helper::run_if_asked() {
        return code;
    }
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
    // One thread for the hot loop: measured, more gain nothing.
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
    let own_store = move || Ok(RedisStore::from_config(&own)? as Arc<dyn Jobs>);
    let store = RedisStore::from_config(config)?;
    // A server that would throw runs away, or that a newer version writes to, is refused by every process.
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
