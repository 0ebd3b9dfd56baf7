//! The promises that must hold after many faults: a table of named checks on what clients saw ([`history`]) and on
//! what is left in Redis ([`remains`]). Each check says whether it also holds after Redis has lost acknowledged
//! writes.

pub mod contents;
pub mod history;
pub mod remains;

use crate::outside::OutsideCall;
use crate::story::{Happened, Reference, Story};

pub use contents::Contents;
pub use remains::Remains;

/// The input of all checks.
#[derive(Debug)]
pub struct Evidence {
    /// Every run, as its client saw it.
    pub stories: Vec<Story>,
    /// The results of each workflow in a run without faults.
    pub references: Vec<Reference>,
    pub faults: Vec<Happened>,
    /// Calls to the model: the messages of each as JSON.
    pub calls: Vec<String>,
    /// Calls to the server that workflows call.
    pub outside: Vec<OutsideCall>,
    pub remains: Remains,
}

impl Evidence {
    /// Returns true when Redis may have lost acknowledged writes.
    pub fn lost_writes(&self) -> bool {
        self.faults.iter().any(|fault| fault.loses)
    }
}

/// A promise that is checked.
pub struct Check {
    /// Printed with each violation.
    pub name: &'static str,
    /// The promise in words.
    pub what: &'static str,
    /// True when it must hold although Redis lost writes.
    pub holds_after_loss: bool,
    /// Returns the violations.
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
    "every-run-ends" always history::every_run_ends, "every run that exists ends, whichever processes died meanwhile";
    "no-run-is-lost" unless_lost history::no_run_is_lost, "a run that was acknowledged still exists";
    "outputs-are-right" always history::outputs_are_right, "status and outputs are those of a run without faults";
    "one-end-per-execution" always history::one_end_per_execution, "the result of a node is applied once: each execution that started ends once";
    "calls-are-bounded" always history::calls_are_bounded, "a call to another server is made once, and again only as often as faults can repeat it";
    "attempts-keep-their-key" unless_lost history::attempts_keep_their_key, "a repeated call has the same key, and is repeated at most once for each fault";
    "events-are-whole" always history::events_are_whole, "a follower that reconnects by id receives every event once, in order, up to the end";
    "followers-agree" always history::followers_agree, "a client that followed during the faults saw the same events as a client that reads them afterwards";
    "text-is-final" always history::text_is_final, "the text that was streamed is the answer";
    "nothing-is-pending" always remains::nothing_is_pending, "no job is queued or held";
    "inbox-is-applied" always remains::inbox_is_applied, "every fact is applied";
    "timers-are-cleared" always remains::timers_are_cleared, "no timer is left";
    "leases-are-the-owners" always remains::leases_are_the_owners, "a live scheduler has the lease of each shard, and the fence names the same scheduler";
    "indexes-are-right" always remains::indexes_are_right, "the indexes have no open run, and every ended run";
    "keys-are-documented" always remains::keys_are_documented, "only keys that docs/redis.md keeps have no TTL";
    "nothing-is-dead" unless_lost remains::nothing_is_dead, "there is no dead letter";
}

/// Returns all violations: the name of the check, and what it found.
pub fn violations(evidence: &Evidence) -> Vec<(&'static str, String)> {
    let lost = evidence.lost_writes();
    let applies = |check: &&Check| check.holds_after_loss || !lost;
    let looks = CHECKS.iter().filter(applies).map(|check| (check.name, (check.look)(evidence)));
    looks.flat_map(|(name, found)| found.into_iter().map(move |what| (name, what))).collect()
}

#[cfg(test)]
mod tests;
