//! The keys of a run.

use super::Keys;
use tidemill_base::ids::RunId;

const STATE: &str = ":state";
const EVENTS: &str = ":events";

impl Keys {
    /// hash: the run
    pub fn run(&self, run: RunId) -> String {
        self.of_run(run, "")
    }
    /// For callers that build several keys of one run.
    pub(in crate::store::redis) fn of_run_by_part(&self, run: RunId) -> RunKeys {
        RunKeys(self.run(run))
    }
    /// hash: its state
    pub fn state(&self, run: RunId) -> String {
        self.of_run(run, STATE)
    }
    /// hash: results of closed frames, for open containers
    pub fn collected(&self, run: RunId) -> String {
        self.of_run(run, ":collected")
    }
    /// hash: its pauses and the answers to them
    pub fn pauses(&self, run: RunId) -> String {
        self.of_run(run, ":pauses")
    }
    /// hash: keys of commands and the hashes of their requests
    pub fn commands(&self, run: RunId) -> String {
        self.of_run(run, ":commands")
    }
    /// hash: results of journal entries; expires on its own
    pub fn journal(&self, run: RunId) -> String {
        self.of_run(run, ":journal")
    }
    /// hash: the cost of each model call
    pub fn ledger(&self, run: RunId) -> String {
        self.of_run(run, ":ledger")
    }
    /// hash: its sub-workflow runs and their orders; expires on its own
    pub fn calls(&self, run: RunId) -> String {
        self.of_run(run, ":calls")
    }
    /// the keys that every run may have
    pub fn all_of(&self, run: RunId) -> [String; 8] {
        [
            self.run(run),
            self.state(run),
            self.held(run),
            self.events(run),
            self.blobs(run),
            self.collected(run),
            self.pauses(run),
            self.commands(run),
        ]
    }
    /// A part named by the end of its key. `messages:<list>`, list: messages. `rt`, hash: runtime values.
    /// `history`, list: history records.
    pub fn object(&self, run: RunId, part: &str) -> String {
        self.of_run(run, &format!(":{part}"))
    }
    /// list: chunks that are held back
    pub fn held(&self, run: RunId) -> String {
        self.of_run(run, ":held")
    }
    /// stream: its events
    pub fn events(&self, run: RunId) -> String {
        self.of_run(run, EVENTS)
    }
    /// stream: a copy of its events, only within a commit
    pub fn events_copy(&self, run: RunId) -> String {
        self.of_run(run, ":events:copy")
    }
    /// hash: its blobs and their sizes
    pub fn blobs(&self, run: RunId) -> String {
        self.of_run(run, ":blobs")
    }
}

/// The keys of one run that nearly every commit writes: the run key, and suffixes for the others.
#[derive(Debug)]
pub(in crate::store::redis) struct RunKeys(String);

impl RunKeys {
    /// As [`Keys::run`].
    pub(in crate::store::redis) fn run(&self) -> &str {
        &self.0
    }
    /// As [`Keys::state`].
    pub(in crate::store::redis) fn state(&self) -> [&str; 2] {
        [&self.0, STATE]
    }
    /// As [`Keys::events`].
    pub(in crate::store::redis) fn events(&self) -> [&str; 2] {
        [&self.0, EVENTS]
    }
}
