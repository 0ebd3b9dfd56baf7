//! What the processes ask of the place where runs live.
//!
//! Three narrow doors: [`Runs`] for whoever submits, asks and follows; [`Shards`] for whoever owns; [`Jobs`] for whoever
//! works. The first and the last lead to knowledge ([`KnowledgeBases`]). [`redis`] is the one that is used; [`memory`] is for
//! simulation. Both pass [`contract`]. Each method says what holds when it returns.

mod app_keys;
mod call;
mod catalog;
#[cfg(feature = "runtime")]
pub mod contract;
mod conversation;
mod dead;
#[cfg(feature = "runtime")]
pub mod following;
mod jobs;
mod knowledge;
mod limit;
#[cfg(feature = "runtime")]
pub mod memory;
mod paused;
#[cfg(feature = "runtime")]
pub mod redis;
mod runs;
mod shards;
mod spent;
mod step;
mod trigger;

pub use app_keys::{AppKey, KeyNote, Revoked};
pub use call::{Called, Refusal, WaitingCall};
pub use catalog::{Catalog, CatalogEntry, CatalogKind, EntryPut, Expected, PutEntry};
pub use conversation::{
    ConversationChange, ConversationRef, ConversationsBy, Entered, Entering, FIELDS_LISTED,
    ListConversations, ListedConversation, Rated, Rating, Settling,
};
pub use dead::{Dead, DeadFact, DeadId, DeadLetter, ListDead, PutBack};
pub use following::Following;
pub use jobs::{Accepted, Completion, Delivered, Hint, Hints, JobReader, Jobs};
pub use knowledge::{DocumentList, Generation, KnowledgeBases, Published};
pub use limit::{GiveLimit, LimitBound, LimitBounds, LimitBucket, LimitLeft, LimitTaken, TakeLimit};
pub use paused::Paused;
pub use runs::{
    Answered, App, CommandKey, Created, ListRuns, NewRun, Page, PauseAnswer, Reserved, RunCommand, Runs, Sent,
};
pub use shards::{Claim, Commit, CommitError, FactReader, Memory, Owner, RawFact, Shards};
pub use spent::{KeySpent, MONEY_PLACES, day_of, key_id};
pub use step::{JournalOf, StepBegin, StepKept};
pub use trigger::{
    DueSchedule, Fired, FromSchedule, Trigger, TriggerChanges, TriggerKind, TriggerState, scheduled_run,
    shard_of,
};

use crate::wire::{VERSION, WireError};

/// What can go wrong with the store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Redis cannot be reached, or did not answer in time. Whether the request was carried out is unknown.
    #[error("Redis at {address} does not answer while {doing}: {reason}")]
    Unreachable {
        /// Where.
        address: String,
        /// What was attempted.
        doing: &'static str,
        /// What the connection said.
        reason: String,
    },
    /// Redis answered that it did nothing, and another try may go through (loading, out of memory, busy).
    #[error("Redis refused to {doing} for now: {reason}")]
    Refused {
        /// What was attempted.
        doing: &'static str,
        /// What it said.
        reason: String,
    },
    /// Redis answered something that does not fit.
    #[error("Redis answered {doing} with what does not fit: {reason}")]
    Unexpected {
        /// What was attempted.
        doing: &'static str,
        /// What was wrong.
        reason: String,
    },
    /// The server cannot be used as it is set up.
    #[error("{0}")]
    Unusable(String),
    /// A newer version has written here; this process must leave it alone.
    #[error("{what} is written in version {version}; this process knows version {VERSION}, upgrade it")]
    Newer {
        /// What was found.
        what: String,
        /// Its version.
        version: u64,
    },
}

impl StoreError {
    /// True when waiting and trying again is the thing to do.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Refused { .. } => true,
            Self::Unexpected { .. } | Self::Unusable(_) | Self::Newer { .. } => false,
        }
    }
}

/// What the server at the other end is, and what that means.
#[derive(Debug, Clone, Default)]
pub struct ServerReport {
    /// Its version, such as `7.0.15`.
    pub version: String,
    /// Things that work but deserve a word, each a sentence (AOF off, for one).
    pub warnings: Vec<String>,
    /// What may be wrong or not: for somebody who asks, not for every start.
    pub hints: Vec<String>,
}

/// The namespace's own settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// The version of what may be written there, at most [`VERSION`].
    pub version: u32,
    /// Shards for new runs.
    pub shards: u16,
    /// Shards at first: where idempotency keys live.
    pub shards_first: u16,
}

/// The error for an entry of events that is none.
pub(crate) fn unreadable_events(error: WireError) -> StoreError {
    StoreError::Unexpected { doing: "reading events", reason: error.to_string() }
}

/// All three doors, and what two of them lead to.
pub trait Store: Runs + Shards + Jobs + KnowledgeBases {}

impl<T: Runs + Shards + Jobs + KnowledgeBases> Store for T {}
