//! The store in Redis: the only module that knows its commands.
//!
//! [`keys`] builds the keys, [`scripts`] decide by what they read, [`commit`] writes a batch atomically.
//! [`runs`], [`shards`] and [`jobs`] implement the three traits of the store.

pub mod keys;
pub mod scripts;

mod annotations;
mod app_keys;
mod app_limits;
mod app_records;
mod app_states;
mod asked;
mod audit;
mod blobs;
mod calls;
mod catalog;
mod commit;
mod connection;
mod conversations;
mod copy;
mod costs;
mod dead;
mod diagnosis;
mod feedbacks;
mod fleet;
mod follow;
mod job_reader;
mod jobs;
mod journal;
mod knowledge;
mod limit;
mod listing;
mod messages;
mod pauses;
mod plugin_values;
mod removals;
mod runs;
mod runs_of_app;
mod runs_of_label;
mod shard_readers;
mod shards;
mod suspects;
mod told;
mod triggers;
mod uploads;
mod webhooks;

#[cfg(test)]
mod page;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use bb8_redis::bb8;

use super::{Memory, StoreError};
pub use crate::store::redis::connection::config::RedisConfig;
use tidemill_base::ids::{BlobId, ShardId};
use tidemill_base::limits;

pub use copy::{CopyError, CopyPlan, CopyProgress};

use blobs::{BlobConnections, BlobLane, Loads};
use connection::Connector;
use connection::durable::Waiters;
use follow::Ticks;
use keys::Keys;
use scripts::Scripts;

/// Sizes and times that the store needs.
#[derive(Debug, Clone)]
pub struct StoreLimits {
    /// Shards of a new namespace.
    pub shards: u16,
    /// New runs are refused when an inbox has more entries.
    pub inbox_max: u64,
    /// Entries kept in a run's event stream.
    pub run_events_max: usize,
    /// New runs are refused when a queue of a shard that they use has more jobs.
    pub queue_max: u64,
    /// Retention of an ended run, in seconds.
    pub retention_seconds: u64,
    /// Retention of a conversation after its last write, in seconds; 0 for ever.
    pub conversation_seconds: u64,
    /// A replica that is away for longer is not waited for by durability `replicated`, in seconds.
    pub replica_away_seconds: u64,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            shards: limits::SHARDS,
            inbox_max: limits::INBOX_MAX,
            run_events_max: limits::RUN_EVENTS_MAX,
            queue_max: limits::QUEUE_MAX,
            retention_seconds: limits::RETENTION_SECONDS,
            conversation_seconds: limits::CONVERSATION_SECONDS,
            replica_away_seconds: limits::REPLICA_AWAY_SECONDS,
        }
    }
}

/// The store over one Redis server, the master that Sentinels name, or a cluster.
pub struct RedisStore {
    connector: Connector,
    keys: Keys,
    scripts: Scripts,
    limits: StoreLimits,
    /// A separate pool for large values, so that they do not delay other requests.
    blobs: bb8::Pool<BlobConnections>,
    loads: Loads,
    ticks: Ticks,
    sleepers: shard_readers::Sleepers,
    /// Graphs that a shard has: their documents need not be sent again.
    stored_graphs: Mutex<HashSet<(ShardId, String)>>,
    /// Queues whose names this process has noted.
    noted_queues: Mutex<HashSet<Arc<str>>>,
    /// The memory use of each server, by its address, and when it was read.
    memory: Mutex<HashMap<Arc<str>, (std::time::Instant, Memory)>>,
    waiters: Waiters,
    /// All runs are listed by app.
    is_listed_by_app: AtomicBool,
}

impl RedisStore {
    /// A store with these settings. Connects on first use; see [`super::Runs::check`].
    ///
    /// # Errors
    /// An invalid address.
    pub fn new(config: &RedisConfig, limits: StoreLimits) -> Result<Arc<Self>, StoreError> {
        Self::with(Connector::new(config)?, config, limits, Ticks::default())
    }

    /// A store with connections of its own in the same process. Who follows a run through one of them learns at once what
    /// the owner of a shard commits through the other. When one of them finds that the server at a fixed address refuses
    /// writes, the connections of both are made again.
    ///
    /// # Errors
    /// An invalid address.
    pub fn beside(&self, config: &RedisConfig) -> Result<Arc<Self>, StoreError> {
        Self::with(self.connector.beside(config)?, config, self.limits.clone(), self.ticks.beside())
    }

    fn with(
        connector: Connector,
        config: &RedisConfig,
        limits: StoreLimits,
        ticks: Ticks,
    ) -> Result<Arc<Self>, StoreError> {
        let blobs = bb8::Pool::builder()
            .max_size(config.blob_connections.max(1))
            .connection_timeout(std::time::Duration::from_millis(config.timeout_ms))
            .build_unchecked(BlobConnections(connector.clone()));
        Ok(Arc::new(Self {
            ticks,
            sleepers: shard_readers::Sleepers::default(),
            keys: connector.keys().clone(),
            connector,
            scripts: Scripts::new(),
            limits,
            blobs,
            loads: Loads::default(),
            stored_graphs: Mutex::default(),
            noted_queues: Mutex::default(),
            memory: Mutex::default(),
            waiters: Waiters::default(),
            is_listed_by_app: AtomicBool::new(false),
        }))
    }

    /// The keys of its namespace, for tests and tools.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Logs a warning if the ACL refuses the subscription to changes of runs. Without it, the first follower would
    /// find out.
    pub async fn probe_subscription(&self) {
        self.ticks.probe(&self.connector, &self.keys).await;
    }

    /// The longest time to live of an ended run's keys: a day more than the retention, in case the sweep
    /// misses them.
    fn ttl_seconds(&self) -> u64 {
        const NET_SECONDS: u64 = 24 * 3600;
        self.limits.retention_seconds + NET_SECONDS
    }

    async fn get_blob(&self, shard: ShardId, id: &BlobId) -> Result<Option<String>, StoreError> {
        let key = self.keys.blob(shard, id);
        let lane = self.blob_lane();
        self.loads
            .load(key, |key| async move {
                const DOING: &str = "loading a large value";
                let mut command = redis::cmd("GET");
                command.arg(key);
                lane.connection(DOING).await?.ask(DOING, &command).await
            })
            .await
    }

    async fn set_blob(&self, shard: ShardId, id: &BlobId, text: &str) -> Result<(), StoreError> {
        let key = self.keys.blob(shard, id);
        blobs::store(&self.blob_lane(), &self.scripts.store_blob, &key, text).await
    }

    fn blob_lane(&self) -> BlobLane {
        if self.connector.may_move() {
            BlobLane::Shared(self.connector.clone())
        } else {
            BlobLane::Pool(self.blobs.clone(), self.connector.address.clone())
        }
    }

    async fn get_graph(&self, shard: ShardId, hash: &str) -> Result<Option<Arc<str>>, StoreError> {
        let mut command = redis::cmd("GET");
        command.arg(self.keys.graph(shard, hash));
        let text: Option<String> = self.connector.ask("loading a workflow", &command).await?;
        Ok(text.map(Into::into))
    }

    fn known_graphs(&self) -> std::sync::MutexGuard<'_, HashSet<(ShardId, String)>> {
        self.stored_graphs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
