//! The masters of a cluster: which server has which slot, asked again after each answer that says otherwise, after each
//! broken connection, and every few seconds.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use redis::ConnectionInfo;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use crate::store::StoreError;
use crate::store::redis::connection::servers::node::{Lane, Node, Reach};
use crate::store::redis::connection::servers::slots::{Slots, of_most};

/// The longest wait for a server that is asked for the slots, or for its part of a request to all servers.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// The shortest time between two looks at the slots.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// How long a server that a redirect has named counts as a master although most servers have not heard of it yet.
const NEWS: Duration = Duration::from_secs(5);

/// The masters of a cluster.
pub(in crate::store::redis) struct Cluster {
    /// The servers in `redis.url`.
    seeds: Vec<ConnectionInfo>,
    reach: Reach,
    /// `redis.url` without password.
    address: Arc<str>,
    look_every: Duration,
    view: RwLock<View>,
    looking: Mutex<()>,
    is_wanted: Notify,
    watcher: OnceLock<()>,
}

#[derive(Default)]
struct View {
    slots: Option<Arc<Slots>>,
    seen_at: Option<Instant>,
    /// By `host:port`.
    nodes: HashMap<String, Arc<Node>>,
    /// Masters that did not answer when they were last asked for the slots.
    silent: Vec<String>,
    /// When a redirect has last named a server as the master of a slot.
    named: HashMap<String, Instant>,
    /// When a redirect has last sent a single request to a server.
    asked: HashMap<String, Instant>,
}

impl Cluster {
    /// Connects on first use. `address` is for messages.
    pub(in crate::store::redis) fn new(
        seeds: Vec<ConnectionInfo>,
        reach: Reach,
        address: &str,
        look_every: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            seeds,
            reach,
            address: address.into(),
            look_every,
            view: RwLock::default(),
            looking: Mutex::default(),
            is_wanted: Notify::new(),
            watcher: OnceLock::new(),
        })
    }

    /// The master of a slot.
    ///
    /// # Errors
    /// No server says who has which slot, or the slot has no master.
    pub(in crate::store::redis) async fn master_of(
        self: &Arc<Self>,
        slot: u16,
    ) -> Result<Arc<Node>, StoreError> {
        let slots = self.slots().await?;
        match slots.owner(slot) {
            Some(address) => self.node(address),
            None => {
                self.want_look();
                Err(StoreError::Refused {
                    doing: "looking for the master of a slot",
                    reason: format!(
                        "CLUSTERDOWN slot {slot} of the cluster at {} has no master",
                        self.address
                    ),
                })
            }
        }
    }

    /// All masters that have slots.
    ///
    /// # Errors
    /// No server says who has which slot.
    pub(in crate::store::redis) async fn masters(self: &Arc<Self>) -> Result<Vec<Arc<Node>>, StoreError> {
        let slots = self.slots().await?;
        slots.masters().iter().map(|address| self.node(address)).collect()
    }

    /// The number of replicas of a master that the cluster counts on.
    pub(in crate::store::redis) fn replicas_of(&self, master: &str) -> usize {
        self.read().slots.as_ref().map_or(0, |slots| slots.replicas_of(master))
    }

    /// Whether the server did not answer when it was last asked.
    pub(in crate::store::redis) fn is_silent(&self, node: &Node) -> bool {
        self.read().silent.iter().any(|silent| **silent == **node.address())
    }

    /// Which master has which slot, as it was last seen.
    ///
    /// # Errors
    /// No server says who has which slot.
    pub(in crate::store::redis) async fn slots(self: &Arc<Self>) -> Result<Arc<Slots>, StoreError> {
        let known = self.read().slots.clone();
        match known {
            Some(slots) => Ok(slots),
            None => self.look().await,
        }
    }

    /// The server at `host:port`.
    pub(super) fn node(&self, address: &str) -> Result<Arc<Node>, StoreError> {
        if let Some(node) = self.read().nodes.get(address) {
            return Ok(node.clone());
        }
        let unusable = |reason: String| {
            StoreError::Unusable(format!("the cluster at {} names a server {reason}", self.address))
        };
        let seed =
            self.seeds.first().ok_or_else(|| unusable(format!("{address}, and redis.url names none")))?;
        let node = Node::beside(seed, &self.reach, address)
            .map_err(|reason| unusable(format!("{address}: {reason}")))?;
        Ok(self.write().nodes.entry(address.to_string()).or_insert_with(|| Arc::new(node)).clone())
    }

    /// A server has said that a slot is elsewhere.
    pub(in crate::store::redis) fn note_moved(&self, slot: u16, address: &str) {
        {
            let mut view = self.write();
            view.named.retain(|_, at| at.elapsed() < NEWS);
            view.named.insert(address.to_string(), Instant::now());
            let moved = view.slots.as_ref().map(|slots| Arc::new(slots.moved(slot, address)));
            view.slots = moved.or(view.slots.take());
        }
        self.want_look();
    }

    /// A server has said that a slot is on its way to another.
    pub(super) fn note_asked(&self, address: &str) {
        let mut view = self.write();
        view.asked.retain(|_, at| at.elapsed() < NEWS);
        view.asked.insert(address.to_string(), Instant::now());
    }

    /// The servers to which slots are on their way.
    pub(super) fn asked(&self) -> Vec<String> {
        let view = self.read();
        view.asked.iter().filter(|(_, at)| at.elapsed() < NEWS).map(|(address, _)| address.clone()).collect()
    }

    /// Asks for the slots soon, in the background.
    pub(in crate::store::redis) fn want_look(&self) {
        self.is_wanted.notify_one();
    }

    /// Asks for the slots now, unless somebody else just did.
    ///
    /// # Errors
    /// No server answers.
    pub(super) async fn look(self: &Arc<Self>) -> Result<Arc<Slots>, StoreError> {
        self.watcher.get_or_init(|| {
            tokio::spawn(watch(Arc::downgrade(self), self.look_every));
        });
        let wanted_at = Instant::now();
        let _one_at_a_time = self.looking.lock().await;
        {
            let view = self.read();
            if let (Some(slots), Some(at)) = (&view.slots, view.seen_at)
                && at > wanted_at
            {
                return Ok(slots.clone());
            }
        }
        let masters = self.read().slots.as_ref().map(|slots| slots.masters().to_vec()).unwrap_or_default();
        let (mut views, mut silent, mut failed) = self.ask_for_slots(&masters).await;
        if views.is_empty() {
            let others = self.other_servers();
            (views, _, failed) = self.ask_for_slots(&others).await;
            silent = masters;
        }
        let none = || {
            let reason = "no server of the cluster answers".to_string();
            StoreError::Unreachable {
                address: self.address.to_string(),
                doing: "looking for the masters",
                reason,
            }
        };
        let slots = Arc::new(of_most(views).ok_or_else(|| failed.unwrap_or_else(none))?);
        self.take(slots.clone(), silent);
        Ok(slots)
    }

    /// The servers in `redis.url`, and replicas.
    fn other_servers(&self) -> Vec<String> {
        let mut others: Vec<String> = self.seeds.iter().map(|seed| seed.addr().to_string()).collect();
        if let Some(slots) = &self.read().slots {
            others.extend(slots.replicas().cloned());
        }
        others.sort();
        others.dedup();
        others
    }

    /// Asks these servers at once. Returns what they say, those that have not answered, and the last error.
    async fn ask_for_slots(&self, servers: &[String]) -> (Vec<Slots>, Vec<String>, Option<StoreError>) {
        let (mut views, mut silent, mut failed) = (Vec::new(), Vec::new(), None);
        let mut asked: FuturesUnordered<_> =
            servers.iter().map(|address| async move { (address, self.ask_one(address).await) }).collect();
        while let Some((address, answer)) = asked.next().await {
            match answer {
                Ok(slots) => views.push(slots),
                Err(error) => {
                    silent.push(address.clone());
                    failed = Some(error);
                }
            }
        }
        (views, silent, failed)
    }

    async fn ask_one(&self, address: &str) -> Result<Slots, StoreError> {
        const DOING: &str = "looking for the masters of the cluster";
        let node = self.node(address)?;
        let mut pipe = redis::pipe();
        pipe.cmd("CLUSTER").arg("SLOTS");
        let asked =
            tokio::time::timeout(PATIENCE.min(self.reach.timeout), node.send(Lane::Short, DOING, &pipe));
        let unexpected = |reason: String| StoreError::Unexpected { doing: DOING, reason };
        let reason = || format!("{address} did not answer within {PATIENCE:?}");
        let answer = asked.await.map_err(|_| StoreError::Unreachable {
            address: address.to_string(),
            doing: DOING,
            reason: reason(),
        })??;
        let answer = answer.into_iter().next().ok_or_else(|| unexpected("no reply".into()))?;
        let answer = answer.extract_error().map_err(|error| {
            let text = error.to_string();
            if text.contains("cluster support disabled") {
                StoreError::Unusable(format!(
                    "Redis at {address} is not part of a cluster (its cluster-enabled is no); redis.url has to be \
                     redis://{address} for one server"
                ))
            } else {
                crate::store::redis::connection::errors::explain(address, DOING, &error)
            }
        })?;
        let slots = Slots::read(answer, node.host());
        slots.ok_or_else(|| unexpected(format!("{address} says its slots in an unknown form")))
    }

    /// Takes over what the servers say. Those that are no masters any more are dropped with their connections.
    fn take(&self, slots: Arc<Slots>, silent: Vec<String>) {
        let mut view = self.write();
        for address in silent.iter().filter(|address| !view.silent.contains(address)) {
            tracing::warn!(server = address, "a master of the cluster does not answer; its shards wait");
        }
        for address in view.silent.iter().filter(|address| !silent.contains(address)) {
            tracing::info!(server = address, "a master of the cluster answers again, or was replaced");
        }
        let is_left = |address: &String| !slots.masters().contains(address);
        let is_new = |address: &String| view.named.get(address).is_some_and(|at| at.elapsed() < NEWS);
        let was_master =
            |address: &String| view.slots.as_ref().is_some_and(|known| known.masters().contains(address));
        let left = view.nodes.keys().filter(|address| is_left(address) && !is_new(address));
        let left: Vec<(String, bool)> = left.map(|address| (address.clone(), was_master(address))).collect();
        for (address, was_master) in left {
            // A server that was no master has no request that waits in vain: a server of `redis.url` under another name, or
            // one to which the first slot is on its way.
            if let Some(node) = view.nodes.remove(&address).filter(|_| was_master) {
                node.leave();
            }
        }
        view.silent = silent.into_iter().filter(|address| !is_left(address)).collect();
        view.seen_at = Some(Instant::now());
        view.slots = Some(slots);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, View> {
        self.view.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks for the slots again when somebody wants it, and every few seconds, while the cluster is used.
fn watch(cluster: Weak<Cluster>, every: Duration) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            {
                let Some(cluster) = cluster.upgrade() else { return };
                drop(tokio::time::timeout(every, cluster.is_wanted.notified()).await);
                if let Err(error) = cluster.look().await {
                    tracing::debug!(%error, "the slots of the cluster are not known yet; asking again");
                }
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    })
}
