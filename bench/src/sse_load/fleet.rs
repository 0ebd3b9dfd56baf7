//! The system under load: a scheduler, a worker and a model as separate processes, and the workflow for them.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tidemill_common::config::Config;
use tidemill_common::store::redis::RedisStore;

use super::client::Watched;
use super::connection_pool::ConnectionPool;
use crate::error::Error;
use crate::process::{Process, cpu_seconds};
use crate::programs::Programs;
use crate::server::{Server, free_port};

const ADMIN_KEY: &str = "the key of the bench";
/// Jobs that the worker runs at once: one for every client of the largest crowd.
const PERMITS: usize = 4096;
/// Tries, 20 ms apart, until the start of a process fails.
const TRIES_MAX: usize = 500;

/// All running processes.
pub(crate) struct Fleet {
    scheduler: Process,
    worker: Process,
    model: Process,
    server: Server,
    folder: TempDir,
    watched: Arc<Watched>,
    pub(super) store: Arc<RedisStore>,
}

impl Fleet {
    /// Starts everything on an empty server.
    pub(crate) async fn start(redis_server: &Path, programs: &Programs) -> Result<Self, Error> {
        let server = Server::start(redis_server).await?;
        let folder = tempfile::tempdir().map_err(Error::io("making a directory for the fleet"))?;
        let log = |name: &str| File::create(folder.path().join(name)).map_err(Error::io("making a log"));
        let address = || Ok::<_, Error>(SocketAddr::from(([127, 0, 0, 1], free_port()?)));
        let (listen, model_at) = (address()?, address()?);
        let (settings, mut config) = (folder.path().join("tidemill.toml"), Config::default());
        config.redis.url = server.url().into();
        let text = format!(
            "[redis]\nurl = \"{}\"\n[scheduler]\nlisten = \"{listen}\"\nadmin_key = \"{ADMIN_KEY}\"\n\
             [worker]\nlisten = \"\"\npermits = {PERMITS}\n[providers.default]\nbase_url = \"http://{model_at}/v1\"\n",
            config.redis.url.0
        );
        fs::write(&settings, text).map_err(Error::io("writing the settings of the fleet"))?;
        let settings = settings.display().to_string();
        let start =
            |program: &Path, name: &str| Process::start(program, &["--config", &settings], Some(&log(name)?));
        let scheduler = start(&programs.scheduler, "scheduler.log")?;
        let worker = start(&programs.worker, "worker.log")?;
        let model_at = model_at.to_string();
        let model =
            Process::start(&programs.own, &["sse-model", "--listen", &model_at], Some(&log("model.log")?))?;
        let pool = ConnectionPool::new(listen, ADMIN_KEY);
        until_answers(&ConnectionPool::new(model_at.parse().map_err(wrong)?, "none"), "/health", &folder)
            .await?;
        until_answers(&pool, "/readyz", &folder).await?;
        let app = publish(&pool).await?;
        let store = RedisStore::new(&config.redis, config.store_limits())?;
        Ok(Self { scheduler, worker, model, server, folder, watched: Arc::new(Watched { pool, app }), store })
    }

    /// Opens a connection to its server.
    pub(super) async fn redis(&self) -> Result<redis::aio::MultiplexedConnection, Error> {
        Ok(redis::Client::open(self.server.url())?.get_multiplexed_async_connection().await?)
    }

    /// Returns the connections to the API.
    pub(super) fn watched(&self) -> Arc<Watched> {
        self.watched.clone()
    }

    /// Returns the processor time so far.
    pub(super) fn used(&self) -> Result<Shares, Error> {
        Ok(Shares {
            redis: cpu_seconds(self.server.pid())?,
            scheduler: cpu_seconds(self.scheduler.pid())?,
            worker: cpu_seconds(self.worker.pid())?,
            model: cpu_seconds(self.model.pid())?,
            load: cpu_seconds(std::process::id())?,
            machine: machine_seconds()?,
            at: std::time::Instant::now(),
        })
    }

    /// Returns the last lines of the logs, to explain errors.
    pub(crate) fn last_words(&self) -> String {
        last_words(&self.folder)
    }
}

/// Processor time by process: in seconds, or as an average number of processors over a span of time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    pub(crate) redis: f64,
    pub(crate) scheduler: f64,
    pub(crate) worker: f64,
    pub(crate) model: f64,
    pub(crate) load: f64,
    /// Processor time of everything on this machine.
    pub(crate) machine: f64,
    at: std::time::Instant,
}

impl Shares {
    pub(super) fn since(&self, before: &Self) -> Self {
        let lasted = self.at.duration_since(before.at).as_secs_f64();
        let part = |of: fn(&Self) -> f64| (of(self) - of(before)) / lasted;
        Self {
            redis: part(|s| s.redis),
            scheduler: part(|s| s.scheduler),
            worker: part(|s| s.worker),
            model: part(|s| s.model),
            load: part(|s| s.load),
            machine: part(|s| s.machine),
            at: self.at,
        }
    }

    /// Returns redis-server, scheduler and worker together.
    pub(crate) fn product(&self) -> f64 {
        self.redis + self.scheduler + self.worker
    }

    /// Formats each value with its name.
    pub(crate) fn describe(&self) -> String {
        let others = (self.machine - self.product() - self.model - self.load).max(0.0);
        format!(
            "redis {:.2}, scheduler {:.2}, worker {:.2}; beside them model {:.2}, load {:.2}, others and kernel {others:.2}",
            self.redis, self.scheduler, self.worker, self.model, self.load
        )
    }
}

/// Returns the seconds of all processors, except idle time and waits for disks.
fn machine_seconds() -> Result<f64, Error> {
    let text = fs::read_to_string("/proc/stat").map_err(Error::io("reading processor time"))?;
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    let busy = ticks.iter().take(8).enumerate().filter(|(at, _)| !matches!(at, 3 | 4)).map(|(_, t)| t);
    Ok(busy.sum::<f64>() / crate::process::TICKS_PER_SECOND)
}

async fn until_answers(pool: &ConnectionPool, path: &str, folder: &TempDir) -> Result<(), Error> {
    for _ in 0..TRIES_MAX {
        if let Ok(mut connection) = pool.connect().await
            && pool.ask(&mut connection, Method::GET, path, String::new()).await.is_ok()
        {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(Error::Wrong(format!("{path} does not answer{}", last_words(folder))))
}

/// Publishes the chatflow and returns the id of the app.
async fn publish(pool: &ConnectionPool) -> Result<String, Error> {
    let mut connection = pool.connect().await.map_err(wrong)?;
    let app = pool.post(&mut connection, "/api/v1/apps", &json!({"workflow": chatflow().to_string()})).await;
    let app = app.map_err(wrong)?;
    app["id"].as_str().map(str::to_string).ok_or_else(|| Error::Wrong(format!("no app was created: {app}")))
}

/// Start, model and answer, as in Dify's own stress test.
fn chatflow() -> Json {
    let edge = |from: &str, to: &str| json!({"id": format!("{from}-{to}"), "source": from, "target": to, "sourceHandle": "source", "targetHandle": "target"});
    json!({
        "kind": "app", "version": "0.6.0", "app": {"name": "W7", "mode": "advanced-chat"},
        "workflow": {"graph": {
            "nodes": [
                {"id": "start", "data": {"type": "start", "title": "Start", "variables": []}},
                {"id": "model", "data": {"type": "llm", "title": "Model",
                    "model": {"provider": "openai", "name": "load", "mode": "chat", "completion_params": {}},
                    "prompt_template": [{"role": "user", "text": "{{#sys.query#}}"}],
                    "context": {"enabled": false, "variable_selector": []}, "vision": {"enabled": false}}},
                {"id": "answer", "data": {"type": "answer", "title": "Answer", "answer": "{{#model.text#}}"}},
            ],
            "edges": [edge("start", "model"), edge("model", "answer")],
        }},
    })
}

fn wrong(error: impl std::fmt::Display) -> Error {
    Error::Wrong(error.to_string())
}

fn last_words(folder: &TempDir) -> String {
    let mut words = String::new();
    for name in ["scheduler.log", "worker.log", "model.log"] {
        let log = fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(10)..];
        words.push_str(&format!("\n--- the end of {name}\n{}", last.join("\n")));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chatflow_can_be_run() {
        let imported = tidemill_common::graph::import(chatflow().to_string().as_bytes());
        assert!(imported.is_usable(), "{:?}", imported.diagnostics);
    }
}
