//! A fleet that runs the cases: a scheduler and a worker on a Redis of their own.

use std::path::{Path, PathBuf};

use tidemill_tests::client::Client;
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};

/// Shards of the system.
const SHARDS: u16 = 2;

/// The processes, and the file with their settings.
pub(crate) struct Fleet {
    scheduler: Scheduler,
    worker: Worker,
    cluster: Cluster,
    file: PathBuf,
}

impl Fleet {
    /// Starts it. With `apart` each value is stored as a blob.
    pub(crate) async fn start(file: &Path, apart: bool) -> Self {
        let mut own = vec![("scheduler.secret_key", "seals the secrets of the cases")];
        if apart {
            own.push(("run.inline_bytes_max", "1"));
        }
        let cluster = Cluster::start(&own, None).await;
        let scheduler = cluster.scheduler_with(&config(file)).await;
        let worker = cluster.worker_with(&config(file)).await;
        Self { scheduler, worker, cluster, file: file.into() }
    }

    pub(crate) fn client(&self) -> Client {
        self.scheduler.client()
    }

    /// Restarts the worker, which reads its settings again.
    pub(crate) async fn restart_worker(&mut self) {
        self.worker.process.kill();
        self.look_after().await;
    }

    /// Makes a form expire: time passes while no scheduler runs.
    pub(crate) async fn expire(&mut self, run: &str, pause: &str) {
        self.scheduler.process.kill();
        let member = format!("{run} form {pause}");
        for shard in 0..SHARDS {
            let key = format!("tm:{{{shard}}}:timers");
            self.cluster.redis.cli(&["ZADD", &key, "XX", "1", &member]);
        }
        self.look_after().await;
    }

    /// Removes everything of a conversation.
    pub(crate) fn forget(&self, conversation: &str) {
        for shard in 0..SHARDS {
            self.cluster.redis.cli(&["DEL", &format!("tm:{{{shard}}}:conversation:{conversation}")]);
        }
    }

    /// Starts the processes again that have ended.
    pub(crate) async fn look_after(&mut self) {
        if self.scheduler.process.end().is_some() {
            self.scheduler = self.cluster.scheduler_with(&config(&self.file)).await;
        }
        if self.worker.process.end().is_some() {
            self.worker = self.cluster.worker_with(&config(&self.file)).await;
        }
    }
}

fn config(file: &Path) -> [&str; 2] {
    ["--config", file.to_str().expect("temporary paths are text")]
}
