//! The parts that all simulated processes share: the store, the time, the random numbers and the checks.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt;
use tidemill_common::clock::{Clock, ManualClock, Timestamp};
use tidemill_common::ids::{EntryId, RunId, ShardId};
use tidemill_common::store::Commit;
use tidemill_common::store::memory::MemoryStore;
use tidemill_scheduler::workflows::Workflows;

use super::clients::Client;
use super::faults::Faults;
use super::followers::Follower;
use super::network::Network;
use super::servers::Servers;
use super::store_gate::{SharedOwner, StoreGate};
use crate::checks::Watch;
use crate::dice::Dice;
use crate::draw::Plan;
use crate::guards::Guard;

/// The name of the one queue.
pub(crate) const QUEUE: &str = "default";
/// Number of lines of a story that are kept.
const STORY_MAX: usize = 2_000;

/// The shared parts.
pub(crate) struct Shared {
    /// Only the world moves it.
    pub(crate) clock: Arc<ManualClock>,
    /// Holds all runs.
    pub(crate) store: MemoryStore,
    /// The way into the store, where guards can be removed.
    pub(crate) gate: StoreGate,
    /// The servers under the store.
    pub(crate) servers: Servers,
    /// The clients that submit runs.
    pub(crate) clients: BTreeMap<RunId, Client>,
    /// The clients that follow runs.
    pub(crate) followers: Vec<Follower>,
    /// Workflow versions, shared as between the shards of a process.
    pub(crate) workflows: Workflows,
    /// Source of all randomness of the story.
    pub(crate) dice: Dice,
    /// Rates of faults.
    pub(crate) faults: Faults,
    /// The guard that is removed.
    pub(crate) off: Option<Guard>,
    /// Messages on their way.
    pub(crate) network: Network,
    /// Runs the checks.
    pub(crate) watch: Watch,
    /// The workflows of the runs.
    pub(crate) plans: HashMap<RunId, Plan>,
    pub(crate) shards: u16,
    /// Bytes of run states that the owner of a shard keeps in memory.
    pub(crate) cache_bytes: usize,
    /// Number of jobs handed out so far, to all workers.
    pub(crate) handed_out: u64,
    /// How often each thing happened.
    pub(crate) tally: BTreeMap<String, u64>,
    /// Commits that may still arrive although their sender has given up waiting.
    pub(crate) limbo: Vec<(SharedOwner, Commit, Vec<EntryId>)>,
    /// Number of steps of the world so far.
    pub(crate) step: u64,
    /// The last lines of the story; `None` when they are not wanted.
    pub(crate) story: Option<VecDeque<String>>,
}

impl Shared {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// All shards.
    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.shards).map(ShardId)
    }

    /// Counts that something happened.
    pub(crate) fn count(&mut self, what: &str) {
        *self.tally.entry(what.to_string()).or_default() += 1;
    }

    /// Adds a line to the story, if it is wanted.
    pub(crate) fn log(&mut self, line: impl FnOnce() -> String) {
        let (step, now) = (self.step, self.clock.now());
        if let Some(story) = &mut self.story {
            if story.len() >= STORY_MAX {
                story.pop_front();
            }
            story.push_back(format!("{step:>5} {:>9.3}s  {}", now.seconds_since(BEGIN), line()));
        }
    }

    /// Returns true if a fault happens now.
    pub(crate) fn strikes(&mut self, rate: fn(&Faults) -> u64) -> bool {
        let rate = rate(&self.faults);
        // A rate of zero uses no random number. So two stories that differ in one fault stay the same for longer.
        rate > 0 && self.dice.permille(rate)
    }
}

/// The time at which every story begins.
pub(crate) const BEGIN: Timestamp = Timestamp::from_millis(1_754_339_718_000);

/// Returns the answer of the memory store, which never blocks.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("the memory store answers at once")
}
