//! A master with replicas that fails over on command, as an operator or a monitor would do it: clients reach the master
//! through a proxy that leads new connections to it, and open connections stay where they are.

use crate::redis::Redis;
use crate::switching_proxy::SwitchingProxy;
use crate::wait::{LONG, until};

/// How a fail-over happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailOver {
    /// A replica is promoted while the master goes on taking writes for a while, and then follows the new one.
    Planned,
    /// The master is killed; it comes back as a replica.
    Crash,
}

/// The servers.
#[derive(Debug)]
pub struct Replicas {
    servers: Vec<Redis>,
    master: usize,
    proxy: SwitchingProxy,
}

impl Replicas {
    /// Starts a master with so many replicas.
    pub async fn start(replicas: usize) -> Self {
        let mut servers = Vec::new();
        for _ in 0..=replicas {
            servers.push(Redis::start().await);
        }
        let proxy = SwitchingProxy::start(servers[0].port()).await;
        let started = Self { servers, master: 0, proxy };
        started.all_follow().await;
        started
    }

    /// The address that leads to the master, as a setting.
    pub fn url(&self) -> String {
        self.proxy.url()
    }

    /// The master of this moment.
    pub fn master(&self) -> &Redis {
        &self.servers[self.master]
    }

    /// The replicas of this moment.
    pub fn replicas(&self) -> impl Iterator<Item = &Redis> {
        let master = self.master;
        self.servers.iter().enumerate().filter(move |(at, _)| *at != master).map(|(_, server)| server)
    }

    /// Makes all others follow the master, and waits until they have all of its data.
    pub async fn all_follow(&self) {
        let port = self.master().port().to_string();
        for replica in self.replicas() {
            replica.cli(&["REPLICAOF", "127.0.0.1", &port]);
        }
        let wanted: Vec<String> =
            self.replicas().map(|replica| format!("port={},state=online", replica.port())).collect();
        until("all replicas to be online", LONG, async || {
            let info = self.master().cli(&["INFO", "replication"]);
            if wanted.iter().all(|line| info.contains(line)) { Ok(()) } else { Err(info) }
        })
        .await;
    }

    /// Fails over: the replica that has most is promoted, as Sentinel does it. Between the steps of a planned one, the old
    /// master takes writes until `meanwhile` is over.
    pub async fn fail_over(&mut self, how: FailOver, meanwhile: impl Future<Output = ()>) {
        let old = self.master;
        if how == FailOver::Crash {
            self.servers[old].kill();
        }
        let most = (0..self.servers.len()).filter(|at| *at != old).max_by_key(|at| self.offset(*at));
        self.master = most.expect("there is a replica");
        self.master().cli(&["REPLICAOF", "NO", "ONE"]);
        let port = self.master().port().to_string();
        for (at, server) in self.servers.iter().enumerate() {
            if at != old && at != self.master {
                server.cli(&["REPLICAOF", "127.0.0.1", &port]);
            }
        }
        meanwhile.await;
        self.proxy.switch_to(self.master().port());
        if how == FailOver::Crash {
            self.servers[old].restart().await;
        }
        self.all_follow().await;
    }

    fn offset(&self, at: usize) -> u64 {
        let info = self.servers[at].cli(&["INFO", "replication"]);
        let offset = info.lines().find_map(|line| line.trim_end().strip_prefix("slave_repl_offset:"));
        offset.and_then(|offset| offset.parse().ok()).unwrap_or(0)
    }
}
