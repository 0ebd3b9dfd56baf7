//! Schedulers and workers as real processes with a private Redis. They choose their ports themselves, and get nothing
//! from the environment of the tests.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;
use tidemill_mock_llm::Running as Model;

use crate::binaries::binary;
use crate::client::Client;
use crate::process::Process;
use crate::redis::Redis;

/// The key for `/api/v1` of every scheduler under test.
pub const ADMIN_KEY: &str = "the-admin-key-of-the-tests";

/// A Redis, and the settings of all processes that are started on it.
#[derive(Debug)]
pub struct Cluster {
    pub redis: Redis,
    environment: Vec<(String, String)>,
    folder: TempDir,
    started: AtomicU32,
}

/// A running scheduler.
#[derive(Debug)]
pub struct Scheduler {
    pub process: Process,
    /// Its id, the value of `{n}:owner`.
    pub id: String,
    /// `host:port` of its API.
    pub address: String,
}

/// A running worker.
#[derive(Debug)]
pub struct Worker {
    pub process: Process,
    /// The name under which it holds jobs.
    pub consumer: String,
}

impl Cluster {
    /// Starts Redis. Settings are pairs of `section.key` and text; `model` answers the calls to every provider.
    pub async fn start(settings: &[(&str, &str)], model: Option<&Model>) -> Self {
        Self::around(Redis::start().await, settings, model)
    }

    /// Like [`Self::start`], with a Redis that already runs.
    ///
    /// # Panics
    /// When a temporary folder cannot be made.
    pub fn around(redis: Redis, settings: &[(&str, &str)], model: Option<&Model>) -> Self {
        let variable = |key: &str| format!("TIDEMILL_{}", key.replace('.', "_").to_uppercase());
        let mut environment: Vec<_> = settings.iter().map(|(k, v)| (variable(k), (*v).to_string())).collect();
        environment.push((variable("redis.url"), redis.url()));
        environment.push(("TIDEMILL_ADMIN_KEY".into(), ADMIN_KEY.into()));
        if let Some(model) = model {
            environment.push(("OPENAI_BASE_URL".into(), model.base_url()));
            environment.push(("OPENAI_API_KEY".into(), "none".into()));
        }
        let folder = tempfile::Builder::new().prefix("tidemill-test-").tempdir();
        let folder = folder.expect("there is room for a temporary folder");
        Self { redis, environment, folder, started: AtomicU32::new(0) }
    }

    /// Makes its processes use the Redis at this address instead of [`Self::redis`].
    #[must_use]
    pub fn at(mut self, url: &str) -> Self {
        self.environment.push(("TIDEMILL_REDIS_URL".into(), url.into()));
        self
    }

    /// A command that runs a program under test with this cluster's settings, in the cluster's folder.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(binary(program));
        let foreign = |name: &str| ["TIDEMILL_", "OPENAI_", "WORKFLOW_"].iter().any(|p| name.starts_with(p));
        for (name, _) in std::env::vars().filter(|(name, _)| foreign(name)) {
            command.env_remove(name);
        }
        command.envs(self.environment.iter().map(|(k, v)| (k, v))).current_dir(self.folder.path());
        command
    }

    /// The folder with the logs of its processes.
    pub fn logs(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a program; messages call it `name`.
    pub fn spawn(&self, name: &str, command: Command) -> Process {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        Process::spawn(name, command, self.folder.path().join(format!("{number}-{name}.log")))
    }

    /// Starts a scheduler and waits until it serves requests.
    pub async fn scheduler(&self) -> Scheduler {
        self.scheduler_with(&[]).await
    }

    /// Like [`Self::scheduler`], with arguments.
    pub async fn scheduler_with(&self, arguments: &[&str]) -> Scheduler {
        let mut command = self.command("tidemill-scheduler");
        command.args(["--listen", "127.0.0.1:0"]).args(arguments);
        self.scheduler_of(command).await
    }

    /// Like [`Self::scheduler`], with a command that ends up as a scheduler.
    pub async fn scheduler_of(&self, command: Command) -> Scheduler {
        let mut process = self.spawn("scheduler", command);
        let line = process.wait_for_log("scheduler started").await;
        let text = |key: &str| line[key].as_str().unwrap_or_else(|| panic!("no {key} in {line}")).to_string();
        Scheduler { id: text("id"), address: text("address"), process }
    }

    /// Starts a worker and waits until it takes jobs.
    pub async fn worker(&self) -> Worker {
        self.worker_with(&[]).await
    }

    /// Like [`Self::worker`], with arguments.
    pub async fn worker_with(&self, arguments: &[&str]) -> Worker {
        let mut command = self.command("tidemill-worker");
        command.args(arguments);
        self.worker_of(command).await
    }

    /// Like [`Self::worker`], with a command that ends up as a worker, for example with another environment.
    pub async fn worker_of(&self, mut command: Command) -> Worker {
        command.args(["--listen", "127.0.0.1:0"]);
        let mut process = self.spawn("worker", command);
        let line = process.wait_for_log("worker started").await;
        let consumer = line["consumer"].as_str().unwrap_or_else(|| panic!("no consumer in {line}"));
        Worker { consumer: consumer.to_string(), process }
    }
}

impl Scheduler {
    /// Makes a client with the admin key.
    pub fn client(&self) -> Client {
        Client::new(&self.address, Some(ADMIN_KEY))
    }
}
