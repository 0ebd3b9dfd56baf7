//! The servers of Redis that hold the shards. A replica may stop receiving writes; a fail-over then loses all that was
//! written to the shards of its server since. Slots may move: their shards refuse requests for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::store::memory::Snapshot;

use super::shared::Shared;
use crate::checks::Past;
use crate::script::AttemptName;

/// The servers of a story: one, or the masters of a cluster.
pub(crate) struct Servers {
    all: Vec<Server>,
    /// Shards that refuse requests, and until when.
    still: BTreeMap<ShardId, Timestamp>,
}

#[derive(Default)]
struct Server {
    /// Raised by each fail-over: a connection and a master's history belong to one life.
    life: u64,
    /// What its replica has, while that receives nothing. `None` while it has everything.
    replica: Option<Replica>,
}

/// The state at the moment when a replica stopped receiving writes.
struct Replica {
    store: Snapshot,
    watch: Past,
    /// The attempts that had been given up, by run.
    given_up: Vec<(RunId, BTreeSet<AttemptName>)>,
}

impl Servers {
    /// Creates this number of servers.
    pub(crate) fn new(count: usize) -> Self {
        Self { all: (0..count.max(1)).map(|_| Server::default()).collect(), still: BTreeMap::new() }
    }

    fn of(&self, shard: ShardId) -> usize {
        usize::from(shard.0) % self.all.len()
    }

    /// The life of the server that holds a shard.
    pub(crate) fn life(&self, shard: ShardId) -> u64 {
        self.all[self.of(shard)].life
    }

    /// Returns true if the replica of its server has the run, too.
    pub(crate) fn is_replicated(&self, run: RunId) -> bool {
        self.all[self.of(run.shard())].replica.as_ref().is_none_or(|replica| replica.store.has_run(run))
    }
}

impl Shared {
    /// Returns true while a shard refuses all requests: they are not executed, and can be sent again.
    pub(crate) fn is_still(&self, shard: ShardId) -> bool {
        self.servers.still.get(&shard).is_some_and(|until| *until > self.now())
    }

    /// Lets something happen to one of the servers. Returns the shards of a server that has failed over.
    pub(crate) fn servers_act(&mut self) -> Vec<ShardId> {
        if self.strikes(|f| f.slot_moves) {
            let shards: Vec<ShardId> = self.shards().collect();
            let Some(shard) = self.dice.pick(&shards).copied() else { return Vec::new() };
            self.stand_still(&[shard], 3_000);
            self.count("slots moved");
        }
        let server = self.dice.below(self.servers.all.len());
        if self.servers.all[server].replica.is_none() && self.strikes(|f| f.replica_stops) {
            self.stop_replica(server);
        }
        if self.strikes(|f| f.fails_over) { self.fail_over(server) } else { Vec::new() }
    }

    /// Ends all that hinders the servers: replicas catch up, and all shards answer.
    pub(crate) fn servers_recover(&mut self) {
        self.servers.still.clear();
        self.servers.all.iter_mut().for_each(|server| server.replica = None);
    }

    fn shards_of(&self, server: usize) -> Vec<ShardId> {
        self.shards().filter(|shard| self.servers.of(*shard) == server).collect()
    }

    fn stand_still(&mut self, shards: &[ShardId], at_most_ms: u64) {
        let ms = self.dice.between(0, at_most_ms);
        self.log(|| format!("shards {shards:?} refuse requests for {ms} ms"));
        let until = self.now().plus(Duration::from_millis(ms));
        for shard in shards {
            let known = self.servers.still.entry(*shard).or_insert(until);
            *known = until.max(*known);
        }
    }

    fn stop_replica(&mut self, server: usize) {
        let shards = self.shards_of(server);
        self.log(|| format!("the replica of shards {shards:?} receives nothing from now on"));
        let of_them = |run: &&RunId| shards.contains(&run.shard());
        let scripts = self.plans.iter().map(|(run, plan)| (run, &plan.script.given_up));
        let given_up =
            scripts.filter(|(run, _)| of_them(run)).map(|(run, all)| (*run, all.clone())).collect();
        let (store, watch) = (self.store.snapshot(&shards), self.watch.past(&shards));
        self.servers.all[server].replica = Some(Replica { store, watch, given_up });
    }

    /// Makes the replica the master. Everything that it has not received is lost.
    fn fail_over(&mut self, server: usize) -> Vec<ShardId> {
        let shards = self.shards_of(server);
        self.servers.all[server].life += 1;
        self.stand_still(&shards, 2_000);
        let Some(replica) = self.servers.all[server].replica.take() else {
            self.log(|| format!("the server of shards {shards:?} fails over and loses nothing"));
            self.count("fail-overs without loss");
            return shards;
        };
        self.log(|| format!("the server of shards {shards:?} fails over and loses the latest writes"));
        self.count("fail-overs with loss");
        self.store.restore(replica.store);
        self.watch.go_back(&shards, replica.watch);
        for (run, given_up) in replica.given_up {
            if let Some(plan) = self.plans.get_mut(&run) {
                plan.script.given_up = given_up;
            }
        }
        // What came into an inbox and was lost is sent by nobody again.
        self.network.forget(&shards);
        self.clients_lost(&shards);
        self.followers_lost(&shards);
        shards
    }
}
