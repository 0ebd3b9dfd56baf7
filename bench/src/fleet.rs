//! Starts Tidemill's processes: schedulers and workers in their default settings, on one redis-server.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;
use tidemill_common::config::Config;
use tidemill_common::ids::ShardId;
use tidemill_common::store::Runs;
use tidemill_common::store::redis::RedisStore;

use crate::error::Error;
use crate::process::{Cpu, Process};
use crate::programs::Programs;
use crate::server::{Server, free_port};

/// Longest wait until a fleet is complete.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Number of lines of each log that are shown after an error.
const LAST_LINES: usize = 10;

/// The processes of a fleet, and the address of Redis for each part.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Number of schedulers.
    pub(crate) schedulers: usize,
    /// Number of workers.
    pub(crate) workers: usize,
    /// Number of shards, if it is not the default.
    pub(crate) shards: Option<u16>,
    /// Address of Redis for the schedulers.
    pub(crate) scheduler_url: String,
    /// Address of Redis for the workers.
    pub(crate) worker_url: String,
    /// Address of Redis for the load.
    pub(crate) load_url: String,
}

impl Plan {
    /// Plans so many of both, all connected directly to the server.
    pub(crate) fn of(server: &Server, schedulers: usize, workers: usize) -> Self {
        let url = server.url();
        Self {
            schedulers,
            workers,
            shards: None,
            scheduler_url: url.clone(),
            worker_url: url.clone(),
            load_url: url,
        }
    }
}

/// The running processes.
pub(crate) struct Fleet {
    pub(crate) schedulers: Vec<Process>,
    pub(crate) workers: Vec<Process>,
    logs: TempDir,
    server_pid: u32,
}

impl Fleet {
    /// Starts all processes, and waits until every shard has an owner, every scheduler has its share, and every worker
    /// has sent a heartbeat.
    pub(crate) async fn start(server: &Server, programs: &Programs, plan: &Plan) -> Result<Self, Error> {
        // The first process to connect writes the number of shards.
        let mut config = Config::default();
        config.redis.url = server.url().into();
        config.scheduler.shards = plan.shards.unwrap_or(config.scheduler.shards);
        let store = RedisStore::new(&config.redis, config.store_limits())?;
        let shards = store.meta().await?.shards;
        let logs = tempfile::tempdir().map_err(Error::io("making a directory for logs"))?;
        let start = |program: &Path, url: &str, log: String| -> Result<Process, Error> {
            let log = File::create(logs.path().join(log)).map_err(Error::io("making a log"))?;
            let listen = format!("127.0.0.1:{}", free_port()?);
            Process::start(program, &["--redis-url", url, "--listen", &listen], Some(&log))
        };
        let schedulers = (1..=plan.schedulers)
            .map(|n| start(&programs.scheduler, &plan.scheduler_url, format!("scheduler-{n}.log")))
            .collect::<Result<_, _>>()?;
        let workers = (1..=plan.workers)
            .map(|n| start(&programs.worker, &plan.worker_url, format!("worker-{n}.log")))
            .collect::<Result<_, _>>()?;
        let fleet = Self { schedulers, workers, logs, server_pid: server.pid() };
        let mut connection = server.connect().await?;
        let began = Instant::now();
        while !is_complete(&store, &mut connection, shards, plan).await? {
            if began.elapsed() > PATIENCE {
                return Err(Error::Wrong(format!("the fleet is not ready in time{}", fleet.last_words())));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(fleet)
    }

    /// Returns the processor time so far, by kind of process, in seconds.
    pub(crate) fn cpu(&self) -> Result<Cpu, Error> {
        Cpu::of(self.server_pid, &self.schedulers, &self.workers)
    }

    /// Returns the last lines of all logs.
    pub(crate) fn last_words(&self) -> String {
        let mut logs: Vec<_> =
            fs::read_dir(self.logs.path()).into_iter().flatten().flatten().map(|log| log.path()).collect();
        logs.sort();
        let mut words = String::new();
        for path in logs {
            let log = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            words.push_str(&format!("\n--- the end of {name}\n{}", last.join("\n")));
        }
        words
    }
}

async fn is_complete(
    store: &RedisStore,
    connection: &mut MultiplexedConnection,
    shards: u16,
    plan: &Plan,
) -> Result<bool, Error> {
    let workers: usize = connection.zcard(store.keys().workers()).await?;
    let mut owners = Vec::with_capacity(usize::from(shards));
    for shard in (0..shards).map(ShardId) {
        let owner: Option<String> = connection.get(store.keys().owner(shard)).await?;
        owners.extend(owner);
    }
    let all_owned = owners.len() == usize::from(shards);
    owners.sort();
    owners.dedup();
    let shared = owners.len() >= plan.schedulers.min(usize::from(shards));
    Ok(workers >= plan.workers && all_owned && shared)
}
