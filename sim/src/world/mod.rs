//! A simulated fleet in one thread: schedulers, workers, a network and a store. A seed decides each small step. First
//! faults happen; then they stop, and all runs must end.

mod clients;
mod execute;
mod faults;
mod followers;
mod network;
mod people;
mod sabotage;
mod scheduler;
mod servers;
mod shard_loop;
mod shared;
mod store_gate;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidemill_common::clock::ManualClock;
use tidemill_common::graph;
use tidemill_common::ids::{EntryId, RunId, ShardId};
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::store::{Commit, NewRun, Shards};
use tidemill_common::wire;
use tidemill_scheduler::workflows::Workflows;

use crate::checks::{Violation, Watch};
use crate::dice::Dice;
use crate::draw::{Plan, draw};
use crate::features::Features;
use crate::guards::Guard;
use faults::Faults;
use network::Network;
use scheduler::Scheduler;
use servers::Servers;
use shared::{BEGIN, QUEUE};
pub(crate) use shared::{Shared, at_once};
use store_gate::{SharedOwner, Way};
use worker::Worker;

/// Rounds after the last fault within which every run must end; a round is a third of a second.
const QUIET_ROUNDS: u64 = 1_500;
/// Time until a form expires; see `draw`.
const FORM_WAIT: Duration = Duration::from_secs(3600);
/// The longest step of the clock; shorter than the interval in which leases are renewed.
const TICK: Duration = Duration::from_millis(900);

/// The result of a story.
#[derive(Debug, Clone)]
pub struct Verdict {
    pub seed: u64,
    /// The invariant that was broken, if any.
    pub violation: Option<Violation>,
    /// A checksum: two stories with the same course have the same one.
    pub digest: u64,
    /// How often each thing happened.
    pub tally: BTreeMap<String, u64>,
    /// The last lines of the story, if they were wanted.
    pub story: Vec<String>,
}

/// Settings of a simulation.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Features of the workflows and the world.
    pub features: Features,
    /// The guard that is removed.
    pub off: Option<Guard>,
    /// Whether to record the lines of the story.
    pub tells: bool,
}

impl Settings {
    /// Settings for plain graphs without this guard: its absence shows soonest where little else happens.
    pub fn without(guard: Guard) -> Self {
        let features = Features { failovers: guard.is_about_servers(), ..Features::PLAIN };
        Self { features, off: Some(guard), tells: false }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self { features: Features::ALL, off: None, tells: false }
    }
}

/// Simulates the story of a seed. It is the same every time.
pub fn simulate(seed: u64, settings: Settings) -> Verdict {
    let mut world = World::new(seed, settings);
    world.submit();
    let steps = world.shared.dice.between(50, 1_200);
    for _ in 0..steps {
        world.step();
        if world.shared.watch.violation.is_some() {
            break;
        }
    }
    world.come_to_rest();
    let Shared { watch, mut tally, story, .. } = world.shared;
    tally.insert("commits".into(), watch.commits);
    tally.extend(changes_of_status());
    let story = story.unwrap_or_default().into();
    Verdict { seed, violation: watch.violation, digest: watch.digest, tally, story }
}

struct World {
    shared: Shared,
    features: Features,
    schedulers: Vec<Scheduler>,
    workers: Vec<Worker>,
    runs: Vec<RunId>,
    /// Number of runs that are still to be submitted.
    to_come: usize,
}

impl World {
    fn new(seed: u64, settings: Settings) -> Self {
        let clock = Arc::new(ManualClock::new(BEGIN));
        let mut dice = Dice::new(seed);
        let shards = 1 + u16::from(dice.percent(40));
        let store = MemoryStore::with(clock.clone(), shards, 100_000);
        let faults = Faults::draw(&mut dice, settings.features.failovers);
        // With this cache, which keeps nothing, every run is loaded again for every batch.
        let cache_bytes = if dice.percent(25) { 1 } else { 1 << 20 };
        let (schedulers, workers, to_come) = (1 + dice.below(3), 1 + dice.below(3), 1 + dice.below(5));
        let shared = Shared {
            clock,
            store,
            gate: Default::default(),
            servers: Servers::new(usize::from(if dice.percent(50) { shards } else { 1 })),
            clients: BTreeMap::new(),
            followers: Vec::new(),
            workflows: Workflows::new(&tidemill_common::config::Config::default(), None),
            dice,
            faults,
            off: settings.off,
            network: Network::default(),
            watch: Watch::default(),
            plans: HashMap::new(),
            shards,
            cache_bytes,
            handed_out: 0,
            tally: BTreeMap::new(),
            limbo: Vec::new(),
            step: 0,
            story: settings.tells.then(VecDeque::new),
        };
        Self {
            schedulers: (0..schedulers).map(Scheduler::new).collect(),
            workers: (0..workers).map(|number| Worker::new(number, BEGIN)).collect(),
            features: settings.features,
            runs: Vec::new(),
            to_come,
            shared,
        }
    }

    /// Submits one more of the story's runs.
    fn submit(&mut self) {
        if self.to_come == 0 {
            return;
        }
        self.to_come -= 1;
        let number = self.runs.len() as u64;
        let plan = draw(&mut self.shared.dice, self.features);
        self.create(number, plan);
    }

    fn create(&mut self, number: u64, plan: Plan) {
        let shared = &mut self.shared;
        let mut imported = graph::import(plan.document.to_string().as_bytes());
        let sealed = imported.seal(None).ok().flatten();
        let (Some(document), Some(graph)) = (sealed, imported.graph) else {
            let problems: Vec<String> = imported.diagnostics.iter().map(ToString::to_string).collect();
            return shared.watch.found("SIM-13", format!("{}: {}", problems.join("; "), plan.document));
        };
        let shard = ShardId(u16::try_from(number).unwrap_or(0) % shared.shards);
        let created_at = shared.now();
        let id = RunId::new(created_at.millis().unsigned_abs(), u128::from(number) << 20, shard);
        let head = json!({"graph": &*graph.hash.0, "user": "u", "created_at": created_at.micros(), "inputs": plan.inputs,
            "options": {"max_execution_time_s": 1_000_000, "inline_bytes_max": plan.inline_bytes_max}});
        let head = match wire::fact::parse_start(&head.to_string()) {
            Ok(tidemill_common::machine::Fact::Start(head)) => *head,
            Ok(_) | Err(_) => {
                return shared.watch.found("SIM-13", "the start of a run cannot be read".into());
            }
        };
        let new = NewRun {
            id,
            graph: (graph.hash.to_string(), document.into()),
            fields: wire::state::head_fields(&head, &graph),
            kind: wire::fact::kind::START,
            start: wire::fact::start_body(&head),
            queues: Vec::new(),
            blobs: Vec::new(),
            created_at,
            schedule: None,
            called: None,
            has_files: false,
            takes_messages: None,
        };
        shared.log(|| format!("run {id} on shard {shard}, given {}, of {}", plan.inputs, plan.document));
        shared.plans.insert(id, plan);
        self.runs.push(id);
        shared.client_comes(new);
    }

    /// Lets a random process do one small step.
    fn step(&mut self) {
        self.shared.step += 1;
        match self.shared.dice.below(100) {
            0..=39 => {
                let at = self.shared.dice.below(self.schedulers.len());
                self.schedulers[at].turn(&mut self.shared);
            }
            40..=69 => {
                let at = self.shared.dice.below(self.workers.len());
                self.workers[at].turn(&mut self.shared);
            }
            70..=84 => self.deliver(),
            85..=92 => self.meddle(),
            93 => self.submit(),
            94 | 95 => self.shared.clients_act(),
            _ => self.shared.some_follower_reads(),
        }
        let ms = match self.shared.dice.below(100) {
            0..=7 => self.shared.dice.between(1, 600),
            8 | 9 => self.shared.dice.between(1_000, 6_000),
            _ => self.shared.dice.between(0, 3),
        };
        self.pass(Duration::from_millis(ms));
    }

    /// Lets a person act, or a fault happen.
    fn meddle(&mut self) {
        if self.shared.strikes(|f| f.echo) {
            self.shared.echo();
        }
        if self.shared.strikes(|f| f.job_lost) {
            self.lose_a_job();
        }
        self.shared.arrive_late();
        self.shared.somebody_acts(&self.runs, self.features);
        let failed_over = self.shared.servers_act();
        if !failed_over.is_empty() {
            let now = self.shared.now();
            self.workers.iter_mut().for_each(|worker| worker.disturbed(&failed_over, now));
            self.runs.retain(|run| !self.shared.is_lost(run));
        }
    }

    fn lose_a_job(&mut self) {
        let jobs: Vec<(ShardId, EntryId)> = self
            .shared
            .shards()
            .flat_map(|shard| {
                self.shared.store.jobs(shard).into_iter().map(move |(_, entry, _)| (shard, entry))
            })
            .collect();
        if let Some((shard, entry)) = self.shared.dice.pick(&jobs).copied() {
            self.shared.log(|| format!("job {entry} of shard {shard} is deleted"));
            self.shared.count("jobs deleted");
            self.shared.store.lose_job(shard, QUEUE, entry);
        }
    }

    fn deliver(&mut self) {
        if let Some(((worker, life, slot), accepted)) = self.shared.deliver() {
            self.workers[worker].answered(life, slot, accepted);
        }
    }

    /// Moves the clock, in steps so short that every process that is awake can renew its leases.
    fn pass(&mut self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let now = left.min(TICK);
            self.shared.clock.advance(now);
            left -= now;
            self.schedulers.iter_mut().for_each(|scheduler| scheduler.tick(&mut self.shared));
            self.workers.iter_mut().for_each(|worker| worker.tick(&mut self.shared));
        }
    }

    /// Ends all faults. Every run must now end within a limited number of rounds.
    fn come_to_rest(&mut self) {
        self.shared.faults = Faults::default();
        self.shared.servers_recover();
        while self.to_come > 0 {
            self.submit();
        }
        self.shared.log(|| "no more faults from now on".to_string());
        for round in 0..QUIET_ROUNDS {
            if self.shared.watch.violation.is_some() {
                return;
            }
            if self.is_at_rest() {
                return self.look_around();
            }
            self.shared.step += 1;
            self.schedulers.iter_mut().for_each(|scheduler| scheduler.settle(&mut self.shared));
            self.workers.iter_mut().for_each(|worker| worker.settle(&mut self.shared));
            for _ in 0..16 {
                self.deliver();
            }
            self.shared.arrive_late();
            self.shared.clients_act();
            self.shared.all_followers_read();
            // Forms without an answer expire after an hour.
            let is_long = self.features.forms && round % 50 == 49;
            self.shared.everybody_acts(&self.runs, is_long);
            self.pass(if is_long { FORM_WAIT / 2 } else { Duration::from_millis(333) });
        }
        self.shared.check_followers();
        let waiting: Vec<&RunId> = self.runs.iter().filter(|run| !self.shared.watch.is_over(run)).collect();
        let found = format!("still under way: {waiting:?}; {}", self.shared.leftovers());
        self.shared.watch.found("SIM-14", found);
    }

    fn is_at_rest(&self) -> bool {
        self.runs.iter().all(|run| self.shared.watch.is_over(run))
            && self.shared.network.is_empty()
            && self.shared.limbo.is_empty()
            && self.shared.all_clients_know()
            && self.shared.all_streams_ended()
            && self.shared.leftovers().is_empty()
    }

    /// Checks that everything that was given up is a job, whose run got its failure.
    fn look_around(&mut self) {
        for shard in self.shared.shards() {
            for dead in self.shared.store.dead(shard) {
                if dead.what != "job" {
                    self.shared.watch.found("SIM-15", format!("given up: {dead:?}"));
                }
            }
        }
        self.shared.check_followers();
    }
}

impl Shared {
    /// What a commit to a shard meets.
    fn way(&self, shard: ShardId) -> Way {
        Way { life: self.servers.life(shard), is_still: self.is_still(shard), off: self.off }
    }

    /// Keeps a commit that may still arrive although its sender has given up waiting.
    fn hold_up(&mut self, owner: SharedOwner, commit: Commit, facts: Vec<EntryId>) {
        self.limbo.push((owner, commit, facts));
    }

    /// Lets one of the delayed commits arrive.
    fn arrive_late(&mut self) {
        if self.limbo.is_empty() {
            return;
        }
        let at = self.dice.below(self.limbo.len());
        let (owner, mut commit, facts) = self.limbo.swap_remove(at);
        let shard = owner.borrow().claim().shard;
        let done = self.gate.commit(&owner, &mut commit, self.way(shard));
        self.log(|| format!("commit {} arrives late at shard {shard}: {done:?}", commit.number));
        match done {
            Ok(()) => self.committed(shard, &commit, &facts),
            Err(_) => self.count("late commits refused"),
        }
    }

    /// Describes what is left although everything has ended; empty if nothing is left.
    fn leftovers(&self) -> String {
        let mut left = String::new();
        for shard in self.shards() {
            let jobs = self.store.jobs(shard);
            let timers = at_once(self.store.next_timer(shard)).ok().flatten();
            if !jobs.is_empty() || timers.is_some() {
                left.push_str(&format!("on shard {shard} jobs {jobs:?}, next timer {timers:?} "));
            }
        }
        left
    }
}

/// The changes of statuses that this thread's engine has made since the last call. Release builds do not note them.
fn changes_of_status() -> Vec<(String, u64)> {
    #[cfg(debug_assertions)]
    let taken = tidemill_common::machine::state::transitions::taken::drain();
    #[cfg(not(debug_assertions))]
    let taken = std::collections::BTreeSet::<(&str, &str, &str)>::new();
    taken.into_iter().map(|(of, from, to)| (format!("{of} {from} → {to}"), 1)).collect()
}
