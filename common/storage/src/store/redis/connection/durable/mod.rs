//! Durability over Redis: waits until replicas or the disk have a write. [`waiter`] asks, [`batch`] and [`replication`]
//! decide, [`disk`] knows the two ways to a disk.
//!
//! What was written is looked for on the line that waits, before it waits. So it does not matter which connection wrote
//! it: if the server of this line has it, and its replicas have all that this server had at that moment, they have it too.

mod batch;
mod disk;
mod replication;
mod waiter;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use self::disk::{Disk, on_disk};
use self::waiter::{Asked, Waiter};
use crate::store::redis::RedisStore;
use crate::store::{Durability, Durable, StoreError, Unconfirmed, Written};

/// Gauge: replicas of Redis by `state`: `connected`, and `awaited` by durability `replicated`.
pub(in crate::store::redis) const REPLICAS: &str = "tidemill_redis_replicas";
/// Most clients that wait to be looked at. More wait for their turn.
const QUESTIONS_MAX: usize = 1024;
/// How long it is believed that a server can write to disk before it answers.
const BELIEVED: Duration = Duration::from_secs(1);

/// The waiters of a store, each started with its first question.
#[derive(Default)]
pub(in crate::store::redis) struct Waiters {
    by_level: Mutex<HashMap<Durability, mpsc::Sender<Asked>>>,
    /// When the server last said that it can write to disk before it answers.
    disk: Mutex<Option<Instant>>,
}

#[async_trait]
impl Durable for RedisStore {
    async fn gives(&self, durability: Durability) -> Result<(), Unconfirmed> {
        if durability != Durability::Memory && self.connector.is_cluster() {
            return Err(Unconfirmed::Unsupported(format!(
                "durability {durability} is not offered on a Redis Cluster; ask for memory"
            )));
        }
        if durability != Durability::Fsync {
            return Ok(());
        }
        let known = *self.waiters.disk.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_some_and(|at| at.elapsed() < BELIEVED) {
            return Ok(());
        }
        let mut line = self.connector.open_line(&self.keys.meta()).await?;
        let asked = on_disk(&mut line, Duration::from_millis(1)).await;
        match asked.map_err(|e| self.connector.error("asking for the durability of writes", &e))? {
            Disk::Unsupported(why) => Err(Unconfirmed::Unsupported(why)),
            Disk::Written | Disk::NotYet => {
                *self.waiters.disk.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
                Ok(())
            }
        }
    }

    async fn confirm(
        &self,
        written: Written,
        durability: Durability,
        within: Duration,
    ) -> Result<(), Unconfirmed> {
        if durability == Durability::Memory {
            return Ok(());
        }
        let (reply, answer) = oneshot::channel();
        let asked = Asked { written, since: Instant::now(), within, reply };
        let ended = || StoreError::Unexpected {
            doing: "waiting until a write is durable",
            reason: "the task that waits has ended".into(),
        };
        self.waiter(durability).send(asked).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

impl RedisStore {
    fn waiter(&self, level: Durability) -> mpsc::Sender<Asked> {
        let mut by_level = self.waiters.by_level.lock().unwrap_or_else(PoisonError::into_inner);
        let start = || {
            let (sender, questions) = mpsc::channel(QUESTIONS_MAX);
            let waiter = Waiter {
                connector: self.connector.clone(),
                keys: self.keys.clone(),
                level,
                away: Duration::from_secs(self.limits.replica_away_seconds),
                seen: self::replication::Seen::default(),
            };
            tokio::spawn(waiter.run(questions));
            sender
        };
        by_level.entry(level).or_insert_with(start).clone()
    }
}
