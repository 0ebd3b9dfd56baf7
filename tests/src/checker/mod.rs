//! What must hold after everything went wrong: a table of named checks over what clients saw ([`history`]) and over what
//! is left in Redis ([`remains`]). Each says whether it also holds when Redis has lost what it had acknowledged.

pub mod history;
pub mod remains;

use crate::outside::OutsideCall;
use crate::story::{Happened, Reference, Story};

pub use remains::Remains;

/// All that checks look at.
#[derive(Debug)]
pub struct Evidence {
    /// Every run, as its client saw it.
    pub stories: Vec<Story>,
    /// What each workflow does when nothing goes wrong.
    pub references: Vec<Reference>,
    /// Every fault.
    pub faults: Vec<Happened>,
    /// Every call to the model: its messages as JSON.
    pub calls: Vec<String>,
    /// Every call to the other server outside.
    pub outside: Vec<OutsideCall>,
    /// What is left in Redis.
    pub remains: Remains,
}

impl Evidence {
    /// Whether Redis may have lost what it had acknowledged.
    pub fn lost_writes(&self) -> bool {
        self.faults.iter().any(|fault| fault.loses)
    }
}

/// One thing that must hold.
pub struct Check {
    /// Its name, by which a violation is known.
    pub name: &'static str,
    /// What it says.
    pub what: &'static str,
    /// Whether it holds although Redis lost writes.
    pub holds_after_loss: bool,
    /// What breaks it; empty when nothing does.
    pub look: fn(&Evidence) -> Vec<String>,
}

macro_rules! checks {
    ($($name:literal $after:ident $look:path, $what:literal;)*) => {
        /// Every check.
        pub const CHECKS: &[Check] = &[
            $(Check { name: $name, what: $what, holds_after_loss: checks!(@ $after), look: $look },)*
        ];
    };
    (@ always) => { true };
    (@ unless_lost) => { false };
}

checks! {
    "every-run-ends" always history::every_run_ends, "a run that is there comes to an end, whatever died meanwhile";
    "no-run-is-lost" unless_lost history::no_run_is_lost, "a run that was acknowledged is there";
    "outputs-are-right" always history::outputs_are_right, "status and outputs are those of a run without faults";
    "one-end-per-execution" always history::one_end_per_execution, "what a node did is applied once: each execution that started ends once";
    "calls-are-bounded" always history::calls_are_bounded, "a call to the world outside is made once, and once more per fault that can repeat it";
    "attempts-keep-their-key" unless_lost history::attempts_keep_their_key, "a call that is made again carries the key it had, and is made again once per fault at most";
    "events-are-whole" always history::events_are_whole, "a follower that reconnects by id is told every event once, in order, up to the end";
    "followers-agree" always history::followers_agree, "who followed through all faults saw what anybody is told afterwards";
    "text-is-final" always history::text_is_final, "the text that was streamed is the answer";
    "nothing-is-pending" always remains::nothing_is_pending, "no job is left or held";
    "inbox-is-applied" always remains::inbox_is_applied, "every fact is applied";
    "timers-are-cleared" always remains::timers_are_cleared, "no timer is left";
    "leases-are-the-owners" always remains::leases_are_the_owners, "each shard is leased, to a live scheduler, and the fence names it";
    "indexes-are-right" always remains::indexes_are_right, "no open run is on an index, every ended one is";
    "keys-are-documented" always remains::keys_are_documented, "what has no TTL is what docs/redis.md lets live on";
    "nothing-is-dead" unless_lost remains::nothing_is_dead, "nothing was given up on";
}

/// What does not hold: the check's name, and what breaks it.
pub fn violations(evidence: &Evidence) -> Vec<(&'static str, String)> {
    let lost = evidence.lost_writes();
    let applies = |check: &&Check| check.holds_after_loss || !lost;
    let looks = CHECKS.iter().filter(applies).map(|check| (check.name, (check.look)(evidence)));
    looks.flat_map(|(name, found)| found.into_iter().map(move |what| (name, what))).collect()
}

#[cfg(test)]
mod tests;
