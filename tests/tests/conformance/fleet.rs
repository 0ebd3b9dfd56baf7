//! A fleet that runs the cases: a scheduler and a worker on a Redis of their own, or on a cluster
//! (`CONFORMANCE_REDIS=cluster`).

use std::path::{Path, PathBuf};

use tidemill_tests::client::Client;
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};
use tidemill_tests::redis_cluster::RedisCluster;

/// Shards of the system.
const SHARDS: u16 = 2;

/// The processes, and the file with their settings.
pub(crate) struct Fleet {
    scheduler: Scheduler,
    worker: Worker,
    cluster: Cluster,
    /// Instead of the cluster's one Redis.
    redis: Option<RedisCluster>,
    file: PathBuf,
}

impl Fleet {
    /// Starts it. With `apart` each value is stored as a blob.
    pub(crate) async fn start(file: &Path, apart: bool) -> Self {
        let mut own = vec![("scheduler.secret_key", "seals the secrets of the cases")];
        if apart {
            own.push(("run.inline_bytes_max", "1"));
        }
        let mut cluster = Cluster::start(&own, None).await;
        let mut redis = None;
        if std::env::var("CONFORMANCE_REDIS").is_ok_and(|wanted| wanted == "cluster") {
            let servers = RedisCluster::start().await;
            cluster = cluster.at(&servers.url());
            redis = Some(servers);
        }
        let scheduler = cluster.scheduler_with(&config(file)).await;
        let worker = cluster.worker_with(&config(file)).await;
        Self { scheduler, worker, cluster, redis, file: file.into() }
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
            self.ask(&["ZADD", &key, "XX", "1", &member]).await;
        }
        self.look_after().await;
    }

    /// Removes everything of a conversation.
    pub(crate) async fn forget(&self, conversation: &str) {
        for shard in 0..SHARDS {
            self.ask(&["DEL", &format!("tm:{{{shard}}}:conversation:{conversation}")]).await;
        }
    }

    /// Sends a command to the server of its key.
    async fn ask(&self, words: &[&str]) {
        match &self.redis {
            Some(servers) => {
                let at = servers.owner_of(servers.slot_of(words[1]).await, 0).await;
                servers.ask::<()>(at, words).await;
            }
            None => drop(self.cluster.redis.cli(words)),
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
