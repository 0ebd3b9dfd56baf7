//! Clients that submit runs: some only want them in memory, some wait until they are replicated. A client that does not
//! know whether its run was accepted asks again under the same key, which leads to the same run.
//!
//! The rules of a replicated submission are those of `common/storage/src/store/redis/connection/durable`: after the write,
//! the run is looked for on the master of that moment; then the replicas must have it, and the master must be the same.

use std::time::Duration;

use tidemill_common::clock::Timestamp;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::store::{Created, Durability, NewRun, Runs};

use super::shared::{Shared, at_once};
use crate::guards::Guard;

/// The longest wait for a replica.
const WAIT: Duration = Duration::from_secs(5);

/// A client with its run.
pub(crate) struct Client {
    new: NewRun,
    durability: Durability,
    state: State,
    /// It may have created the run before.
    has_asked: bool,
}

#[derive(Clone, Copy)]
enum State {
    /// It asks, for the first time or again.
    Asks,
    /// The run was written.
    Written,
    /// The run was seen on a master of this life, and replicas have to acknowledge it.
    Waits { life: u64, since: Timestamp },
    /// It was told that the run exists.
    Knows,
    /// The run that it was told of is lost.
    Lost,
}

impl Shared {
    /// Adds a client that submits a run, and lets it ask.
    pub(crate) fn client_comes(&mut self, new: NewRun) {
        let wants = self.faults.fails_over > 0 && self.dice.percent(50);
        let durability = if wants { Durability::Replicated } else { Durability::Memory };
        let run = new.id;
        self.clients.insert(run, Client { new, durability, state: State::Asks, has_asked: false });
        self.client_acts(run);
    }

    /// Lets each client that waits do its next step.
    pub(crate) fn clients_act(&mut self) {
        let waiting = self.clients.iter().filter(|(_, it)| !matches!(it.state, State::Knows | State::Lost));
        for run in waiting.map(|(run, _)| *run).collect::<Vec<_>>() {
            self.client_acts(run);
        }
    }

    /// Returns true if no client waits.
    pub(crate) fn all_clients_know(&self) -> bool {
        self.clients.values().all(|it| matches!(it.state, State::Knows | State::Lost))
    }

    /// The runs that clients were told of and that are lost.
    pub(crate) fn is_lost(&self, run: &RunId) -> bool {
        self.clients.get(run).is_some_and(|client| matches!(client.state, State::Lost))
    }

    fn client_acts(&mut self, run: RunId) {
        if self.is_still(run.shard()) {
            return;
        }
        let (now, life, off) = (self.now(), self.servers.life(run.shard()), self.off);
        let Some((state, durability)) = self.clients.get(&run).map(|it| (it.state, it.durability)) else {
            return;
        };
        let next = match state {
            State::Asks => self.ask(run, durability),
            State::Written if at_once(self.store.run_fields(run)).ok().flatten().is_none() => {
                self.count("submissions found lost");
                State::Asks
            }
            State::Written => State::Waits { life, since: now },
            State::Waits { life: seen, .. } if seen != life && off != Some(Guard::Master) => {
                self.count("submissions that a fail-over interrupted");
                State::Asks
            }
            State::Waits { .. } if self.servers.is_replicated(run) => State::Knows,
            State::Waits { since, .. } if since.plus(WAIT) <= now => {
                self.count("submissions not replicated in time");
                State::Asks
            }
            State::Waits { .. } | State::Knows | State::Lost => state,
        };
        if let (State::Knows, false) = (next, matches!(state, State::Knows)) {
            self.count(if durability == Durability::Memory {
                "runs acknowledged"
            } else {
                "runs acknowledged as replicated"
            });
            self.log(|| format!("the client is told that {run} exists ({durability})"));
            if durability == Durability::Replicated
                && at_once(self.store.run_fields(run)).ok().flatten().is_none()
            {
                let found = format!("{run} is acknowledged as replicated, and a fail-over has lost it");
                self.watch.found("SIM-16", found);
            }
            if self.dice.percent(40) {
                self.follower_comes(run);
            }
        }
        if let Some(client) = self.clients.get_mut(&run) {
            client.state = next;
        }
    }

    fn ask(&mut self, run: RunId, durability: Durability) -> State {
        let Some(client) = self.clients.get_mut(&run) else { return State::Asks };
        let is_again = std::mem::replace(&mut client.has_asked, true);
        let created = at_once(self.store.create_run(&client.new));
        if is_again {
            self.count("submissions repeated");
        }
        if self.strikes(|f| f.message_lost) {
            return State::Asks;
        }
        match created {
            Ok(Created::Created | Created::Exists) if durability == Durability::Memory => State::Knows,
            Ok(Created::Created | Created::Exists) if self.off == Some(Guard::Replicas) => State::Knows,
            Ok(Created::Created | Created::Exists) => State::Written,
            Ok(_) | Err(_) => State::Asks,
        }
    }

    /// After a fail-over: finds the runs that clients were told of and that are not there.
    pub(crate) fn clients_lost(&mut self, shards: &[ShardId]) {
        let of_them = |run: &RunId| shards.contains(&run.shard());
        let gone = |run: &RunId| at_once(self.store.run_fields(*run)).ok().flatten().is_none();
        let told = self.clients.iter().filter(|(run, it)| matches!(it.state, State::Knows) && of_them(run));
        let lost: Vec<(RunId, Durability)> =
            told.filter(|(run, _)| gone(run)).map(|(run, it)| (*run, it.durability)).collect();
        for (run, durability) in lost {
            if durability == Durability::Replicated {
                self.watch.found(
                    "SIM-16",
                    format!("{run} was acknowledged as replicated, and a fail-over lost it"),
                );
            }
            self.count("acknowledged runs lost");
            if let Some(client) = self.clients.get_mut(&run) {
                client.state = State::Lost;
            }
        }
    }
}
