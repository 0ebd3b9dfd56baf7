//! Durability over Redis: waits until replicas or the disk have a write. [`waiter`] asks, [`batch`] and [`replication`]
//! decide, [`disk`] knows the two ways to a disk.
//!
//! What was written is looked for on the line that waits, before it waits. So it does not matter which connection wrote
//! it: if the server of this line has it, and its replicas have all that this server had at that moment, they have it too.
//! Which replicas these are, the master says, and also the Sentinels or the cluster that promote them. In a cluster each
//! master has a waiter of its own.

mod batch;
mod disk;
mod replication;
mod waiter;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use self::disk::{Disk, on_disk};
use self::waiter::{Asked, Waiter};
use crate::store::redis::RedisStore;
use crate::store::redis::connection::servers::Node;
use crate::store::{Durability, Durable, Unconfirmed, Written};

/// Gauge: replicas of Redis by `state`: `connected`, and `awaited` by durability `replicated`.
pub(in crate::store::redis) const REPLICAS: &str = "tidemill_redis_replicas";
/// Most clients that wait to be looked at. More wait for their turn.
const QUESTIONS_MAX: usize = 1024;
/// How long it is believed that a server can write to disk before it answers.
const BELIEVED: Duration = Duration::from_secs(1);

/// What a waiter waits for: the level and, in a cluster, the address of the master.
type Waited = (Durability, Arc<str>);

/// The waiters of a store, each started with its first question.
#[derive(Default)]
pub(in crate::store::redis) struct Waiters {
    open: Mutex<HashMap<Waited, mpsc::Sender<Asked>>>,
    /// When all masters last said that they can write to disk before they answer.
    disk: Mutex<Option<Instant>>,
    replicas: Arc<Replicas>,
}

/// The numbers of replicas by master, connected and awaited ones, for the metric of all.
#[derive(Default)]
struct Replicas(Mutex<HashMap<Arc<str>, [usize; 2]>>);

impl Replicas {
    /// Notes the numbers of a master; `None` when it is no longer a master.
    fn note(&self, master: &Arc<str>, numbers: Option<[usize; 2]>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match numbers {
            Some(numbers) => all.insert(master.clone(), numbers),
            None => all.remove(master),
        };
        for (at, state) in ["connected", "awaited"].into_iter().enumerate() {
            let number: usize = all.values().map(|numbers| numbers[at]).sum();
            let number = f64::from(u32::try_from(number).unwrap_or(u32::MAX));
            metrics::gauge!(REPLICAS, "state" => state).set(number);
        }
    }
}

#[async_trait]
impl Durable for RedisStore {
    async fn gives(&self, durability: Durability) -> Result<(), Unconfirmed> {
        match durability {
            Durability::Memory => return Ok(()),
            Durability::Replicated => return self.gives_replicas().await,
            Durability::Fsync => {}
        }
        let known = *self.waiters.disk.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_some_and(|at| at.elapsed() < BELIEVED) {
            return Ok(());
        }
        for master in self.connector.masters().await? {
            let mut line = self.connector.open_line_to(&master).await?;
            let asked = on_disk(&mut line, Duration::from_millis(1)).await;
            let asked = asked.map_err(|e| self.connector.error("asking for the durability of writes", &e))?;
            if let Disk::Unsupported(why) = asked {
                let place = master.address();
                let why = if self.connector.is_cluster() { format!("{why} ({place})") } else { why };
                return Err(Unconfirmed::Unsupported(why));
            }
        }
        *self.waiters.disk.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        Ok(())
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
        let since = Instant::now();
        let of = match self.connector.cluster() {
            // The server of its shard.
            Some(_) => Some(self.connector.server_of(&self.keys.run(written.run())).await?),
            None => None,
        };
        let (reply, answer) = oneshot::channel();
        let asked = Asked { written, since, within, reply };
        // A waiter ends when its server has left the cluster.
        let sent = self.waiter(durability, of).send(asked).await;
        sent.map_err(|_| Unconfirmed::NoLongerMaster)?;
        answer.await.map_err(|_| Unconfirmed::NoLongerMaster)?
    }
}

impl RedisStore {
    /// Succeeds when it can be known which replicas may be promoted.
    async fn gives_replicas(&self) -> Result<(), Unconfirmed> {
        let Some(sentinels) = self.connector.sentinels() else { return Ok(()) };
        sentinels.master().await?;
        if sentinels.replicas().is_some() {
            return Ok(());
        }
        Err(Unconfirmed::Unsupported(
            "durability replicated needs to know which replicas may be promoted: give redis.sentinel_user the right to \
             SENTINEL REPLICAS (+sentinel|replicas) at the Sentinels"
                .into(),
        ))
    }

    /// The waiter of a level, in a cluster of this master.
    fn waiter(&self, level: Durability, of: Option<Arc<Node>>) -> mpsc::Sender<Asked> {
        let mut open = self.waiters.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, sender| !sender.is_closed());
        let place = of.as_ref().map_or_else(|| "".into(), |node| node.address().clone());
        let start = || {
            let (sender, questions) = mpsc::channel(QUESTIONS_MAX);
            let waiter = Waiter {
                connector: self.connector.clone(),
                keys: self.keys.clone(),
                level,
                of,
                away: Duration::from_secs(self.limits.replica_away_seconds),
                seen: self::replication::Seen::default(),
                replicas: self.waiters.replicas.clone(),
            };
            tokio::spawn(waiter.run(questions));
            sender
        };
        open.entry((level, place)).or_insert_with(start).clone()
    }
}
