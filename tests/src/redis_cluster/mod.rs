//! A Redis Cluster on the loopback interface: masters with a replica each. It is put together with the commands that any
//! tool uses (`CLUSTER MEET`, `ADDSLOTSRANGE`, `REPLICATE`), and taken apart by the tests.

mod slots;

use std::time::Duration;

use futures_util::future::join_all;
use redis::FromRedisValue;

use crate::proxy::Proxy;
use crate::redis::Redis;
use crate::wait::{LONG, until};

/// A server that does not answer for this long is taken for dead.
const NODE_TIMEOUT_MS: u64 = 1500;
/// The longest wait for an answer to the tests: they also ask servers that hang.
const PATIENCE: Duration = Duration::from_secs(2);
/// The number of slots.
pub const SLOTS: u16 = 16_384;

/// The servers of a cluster.
#[derive(Debug)]
pub struct RedisCluster {
    /// First the masters, then one replica of each in their order, then what a test has added.
    pub servers: Vec<Redis>,
    masters: usize,
    /// By server; empty unless a test wants them.
    proxies: Vec<Proxy>,
}

impl RedisCluster {
    /// Starts three masters, each with a third of the slots and a replica.
    ///
    /// # Panics
    /// When redis-server is not installed, or the servers do not come together.
    pub async fn start() -> Self {
        Self::start_of(3).await
    }

    /// Like [`Self::start`], with so many masters.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub async fn start_of(masters: usize) -> Self {
        let servers = join_all((0..masters * 2).map(|_| Redis::start_for_cluster(NODE_TIMEOUT_MS))).await;
        let cluster = Self { servers, masters, proxies: Vec::new() };
        let share = usize::from(SLOTS).div_ceil(masters);
        for at in 0..masters {
            let (first, last) = (at * share, ((at + 1) * share).min(usize::from(SLOTS)) - 1);
            cluster.ask::<()>(at, &["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]).await;
            // Without this the servers would begin with the same epoch and settle it later.
            let epoch = (at + 1).to_string();
            cluster.ask::<()>(at, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await;
        }
        for at in 1..masters * 2 {
            cluster.meet(at, 0).await;
        }
        cluster.all_know(masters * 2).await;
        for at in 0..masters {
            let id = cluster.id(at).await;
            let replica = masters + at;
            until("a replica to know its master", LONG, async || {
                cluster.try_ask::<()>(replica, &["CLUSTER", "REPLICATE", &id]).await
            })
            .await;
        }
        cluster.is_whole().await;
        cluster
    }

    /// The address of the cluster, as a setting: two of its servers.
    pub fn url(&self) -> String {
        let last = self.masters - 1;
        format!(
            "redis+cluster://127.0.0.1:{},127.0.0.1:{}",
            self.servers[0].port(),
            self.servers[last].port()
        )
    }

    /// `host:port` of a server.
    pub fn address(&self, at: usize) -> String {
        format!("127.0.0.1:{}", self.servers[at].port())
    }

    /// The servers that are running and say that they are masters.
    pub async fn masters(&self) -> Vec<usize> {
        let mut masters = Vec::new();
        for at in 0..self.servers.len() {
            let role = self.try_ask::<redis::Value>(at, &["ROLE"]).await.ok();
            let first =
                role.and_then(|role| Vec::<redis::Value>::from_redis_value(role).ok()?.into_iter().next());
            if first.is_some_and(|word| String::from_redis_value(word).is_ok_and(|word| word == "master")) {
                masters.push(at);
            }
        }
        masters
    }

    /// The replica of one of the first masters.
    pub const fn replica_of(&self, master: usize) -> usize {
        self.masters + master
    }

    /// Puts a proxy before each server, and makes the servers tell clients its port. Between themselves they have other
    /// ports, so they still see each other when a proxy is closed. Only their replicas follow them through it.
    ///
    /// # Panics
    /// When the servers do not all hear of the ports.
    pub async fn put_proxies(&mut self) {
        for at in 0..self.servers.len() {
            self.put_proxy(at).await;
        }
        until("the servers to know all ports", LONG, async || {
            for at in 0..self.servers.len() {
                let nodes: String = self.try_ask(at, &["CLUSTER", "NODES"]).await?;
                if !self.proxies.iter().all(|proxy| nodes.contains(&format!(":{}@", proxy.port()))) {
                    return Err(nodes);
                }
            }
            Ok(())
        })
        .await;
        self.is_whole().await;
    }

    async fn put_proxy(&mut self, at: usize) {
        let proxy = Proxy::start(self.servers[at].port()).await;
        self.servers[at].announce(proxy.port()).await;
        self.proxies.push(proxy);
    }

    /// The proxy before a server.
    pub fn proxy(&self, at: usize) -> &Proxy {
        &self.proxies[at]
    }

    /// Lets no client reach a server.
    pub fn close(&self, at: usize) {
        self.proxies[at].close();
    }

    /// Lets clients reach it again.
    pub fn open(&self, at: usize) {
        self.proxies[at].open();
    }

    /// The server that clients reach at a port.
    fn at_port(&self, port: u16) -> Option<usize> {
        let by_proxy = self.proxies.iter().position(|proxy| proxy.port() == port);
        by_proxy.or_else(|| self.servers.iter().position(|server| server.port() == port))
    }

    /// Adds a master without slots, and returns its place.
    ///
    /// # Panics
    /// When it does not come in.
    pub async fn add(&mut self) -> usize {
        self.servers.push(Redis::start_for_cluster(NODE_TIMEOUT_MS).await);
        let new = self.servers.len() - 1;
        if !self.proxies.is_empty() {
            self.put_proxy(new).await;
        }
        self.meet(new, 0).await;
        self.all_know(self.servers.len()).await;
        self.is_whole().await;
        new
    }

    /// Removes the server that was added last, which must have no slots any more.
    ///
    /// # Panics
    /// When the others do not forget it.
    pub async fn remove(&mut self, at: usize) {
        assert_eq!(at, self.servers.len() - 1, "the last one");
        let id = self.id(at).await;
        for other in 0..at {
            until("a server to forget another", LONG, async || {
                self.try_ask::<()>(other, &["CLUSTER", "FORGET", &id]).await
            })
            .await;
        }
        drop(self.servers.pop());
        self.proxies.truncate(self.servers.len());
    }

    /// The running replicas of a server.
    pub async fn replicas_of(&self, master: usize) -> Vec<usize> {
        let port = |port: u16| format!("master_port:{port}");
        let by_proxy = self.proxies.get(master).map(|proxy| port(proxy.port()));
        let ports = [Some(port(self.servers[master].port())), by_proxy];
        let is_it = |line: &str| ports.iter().flatten().any(|port| *port == line.trim_end());
        let mut replicas = Vec::new();
        for at in 0..self.servers.len() {
            let info = self.try_ask::<String>(at, &["INFO", "replication"]).await.unwrap_or_default();
            if info.lines().any(is_it) {
                replicas.push(at);
            }
        }
        replicas
    }

    /// Makes two servers meet. The others hear of it from them.
    pub async fn meet(&self, one: usize, other: usize) {
        let (port, bus) = (self.servers[other].port().to_string(), self.bus(other).await);
        self.ask::<()>(one, &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
    }

    /// The port at which a server talks to the others.
    async fn bus(&self, at: usize) -> String {
        let pair: Vec<String> = self.ask(at, &["CONFIG", "GET", "cluster-port"]).await;
        pair.last().cloned().unwrap_or_default()
    }

    /// The name of a server in the cluster.
    pub async fn id(&self, at: usize) -> String {
        self.ask(at, &["CLUSTER", "MYID"]).await
    }

    /// Waits until each running server knows so many.
    pub async fn all_know(&self, count: usize) {
        until("all servers to know each other", LONG, async || {
            for at in 0..self.servers.len() {
                let nodes: String = self.try_ask(at, &["CLUSTER", "NODES"]).await?;
                let known = nodes.lines().filter(|line| !line.contains("handshake")).count();
                if known != count {
                    return Err(nodes);
                }
            }
            Ok(())
        })
        .await;
    }

    /// Waits until the running servers say that all slots have a master, and the replicas have what it has.
    pub async fn is_whole(&self) {
        until("the cluster to be whole", LONG, async || {
            for at in 0..self.servers.len() {
                let Ok(info) = self.try_ask::<String>(at, &["CLUSTER", "INFO"]).await else { continue };
                if !info.contains("cluster_state:ok") || !info.contains("cluster_slots_ok:16384") {
                    return Err(info);
                }
                let info: String = self.try_ask(at, &["INFO", "replication"]).await?;
                if info.contains("role:slave") && !info.contains("master_link_status:up") {
                    return Err(info);
                }
            }
            Ok(())
        })
        .await;
    }

    /// Waits until this server is a master.
    pub async fn is_master(&self, at: usize) {
        until("a replica to be promoted", LONG, async || {
            let info: String = self.try_ask(at, &["INFO", "replication"]).await?;
            if info.contains("role:master") { Ok(()) } else { Err(info) }
        })
        .await;
    }

    /// Sends a command to a server.
    ///
    /// # Panics
    /// When it fails.
    pub async fn ask<T: FromRedisValue>(&self, at: usize, words: &[&str]) -> T {
        self.try_ask(at, words).await.unwrap_or_else(|error| panic!("server {at}, {words:?}: {error}"))
    }

    /// Like [`Self::ask`].
    ///
    /// # Errors
    /// The server does not answer within two seconds, or answers an error.
    pub async fn try_ask<T: FromRedisValue>(&self, at: usize, words: &[&str]) -> Result<T, String> {
        let url = format!("redis://{}", self.address(at));
        let asked = async {
            let client = redis::Client::open(url)?;
            let patient = redis::AsyncConnectionConfig::new();
            let patient = patient.set_connection_timeout(Some(PATIENCE)).set_response_timeout(Some(PATIENCE));
            let mut connection = client.get_multiplexed_async_connection_with_config(&patient).await?;
            let mut command = redis::cmd(words[0]);
            command.arg(&words[1..]);
            command.query_async(&mut connection).await
        };
        let late = |_| "no answer in time".to_string();
        tokio::time::timeout(PATIENCE, asked)
            .await
            .map_err(late)?
            .map_err(|error: redis::RedisError| error.to_string())
    }
}
