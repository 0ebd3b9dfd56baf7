//! What all processes of the simulated fleet stand on: the store, the time, chance, and whoever watches.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt;
use tidemill_common::clock::{Clock, ManualClock, Timestamp};
use tidemill_common::ids::{EntryId, RunId, ShardId};
use tidemill_common::store::Commit;
use tidemill_common::store::memory::MemoryStore;
use tidemill_scheduler::workflows::Workflows;

use super::desk::{Desk, SharedOwner};
use super::faults::Faults;
use super::network::Network;
use crate::checks::Watch;
use crate::dice::Dice;
use crate::draw::Plan;
use crate::guards::Guard;

/// The name of the one queue.
pub(crate) const QUEUE: &str = "default";
/// Lines of a story that are kept.
const STORY_MAX: usize = 2_000;

/// See the module.
pub(crate) struct Ground {
    /// Moved by the world alone.
    pub(crate) clock: Arc<ManualClock>,
    /// Where the runs live.
    pub(crate) store: MemoryStore,
    /// The doors of the store behind which the guards stand.
    pub(crate) desk: Desk,
    /// Workflow versions, shared as by the shards of a process.
    pub(crate) workflows: Workflows,
    /// All chance of the story.
    pub(crate) dice: Dice,
    /// How much goes wrong.
    pub(crate) faults: Faults,
    /// The guard that is taken away.
    pub(crate) off: Option<Guard>,
    /// Messages under way.
    pub(crate) network: Network,
    /// Looks at everything.
    pub(crate) watch: Watch,
    /// What the runs are.
    pub(crate) plans: HashMap<RunId, Plan>,
    /// Number of shards.
    pub(crate) shards: u16,
    /// Bytes of run states that a shard's owner keeps.
    pub(crate) cache_bytes: usize,
    /// Jobs handed out so far, to whomever.
    pub(crate) handed_out: u64,
    /// How often what happened.
    pub(crate) tally: BTreeMap<String, u64>,
    /// Commits whose sender gave up on them and which may still arrive.
    pub(crate) limbo: Vec<(SharedOwner, Commit, Vec<EntryId>)>,
    /// Steps of the world so far.
    pub(crate) step: u64,
    /// The last lines of the story; none when nobody reads it.
    pub(crate) story: Option<VecDeque<String>>,
}

impl Ground {
    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Every shard.
    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.shards).map(ShardId)
    }

    /// Counts that something happened.
    pub(crate) fn count(&mut self, what: &str) {
        *self.tally.entry(what.to_string()).or_default() += 1;
    }

    /// Adds a line to the story, when somebody reads it.
    pub(crate) fn tell(&mut self, line: impl FnOnce() -> String) {
        let (step, now) = (self.step, self.clock.now());
        if let Some(story) = &mut self.story {
            if story.len() >= STORY_MAX {
                story.pop_front();
            }
            story.push_back(format!("{step:>5} {:>9.3}s  {}", now.seconds_since(BEGIN), line()));
        }
    }

    /// Whether a fault happens now.
    pub(crate) fn strikes(&mut self, rate: fn(&Faults) -> u64) -> bool {
        let rate = rate(&self.faults);
        // No dice without a rate, so that a story with a fault less differs in that fault alone for longer.
        rate > 0 && self.dice.permille(rate)
    }
}

/// When every story begins.
pub(crate) const BEGIN: Timestamp = Timestamp::from_millis(1_754_339_718_000);

/// The answer of the memory store, which never waits when it is not asked to.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("the memory store answers at once")
}
