//! The store interface of the processes, in three narrow traits: [`Runs`] for the API, [`Shards`] for the
//! owners of shards, [`Jobs`] for workers. `Runs` and `Jobs` also give access to knowledge bases
//! ([`KnowledgeBases`]).
//!
//! [`redis`] is used in production, [`memory`] in embedded engines and in simulation. Both pass the contract in `tests/src/contract/`. Each method's doc says
//! what holds when it returns.

mod annotations;
mod app_keys;
mod app_limits;
mod app_records;
mod audit;
mod call;
mod catalog;
mod conversation;
mod costs;
mod dead;
pub mod diagnosis;
mod durability;
mod fleet;
pub mod following;
mod jobs;
mod journal;
mod knowledge;
mod labels;
mod limit;
pub mod memory;
mod outage;
mod paused;
mod plugin_values;
pub mod redis;
mod removals;
mod runs;
mod shards;
mod trigger;
mod uploads;
pub mod webhooks;

pub use annotations::{Annotation, AnnotationAdded, Annotations};
pub use app_keys::{AppKey, KeyGrant, KeyNote, KeyScope, NewKey, Revoked};
pub use app_limits::{
    AppLimits, LimitOf, LimitsMax, PlaceChange, PlaceTaken, Reached, RequestTaken, RunPlace, SomePlaces,
};
pub use app_records::{AppRecords, AppVersion, EndUser, Feedback, INNER_FIELD, REMOVED_FIELD};
pub use audit::{AuditEntry, AuditKept, AuditLog, AuditPage};
pub use call::{Called, Refusal, WaitingCall};
pub use catalog::{Catalog, CatalogEntry, CatalogKind, EntryPut, Expected, PutEntry};
pub use conversation::{
    ConversationChange, ConversationRef, ConversationsBy, Entered, Entering, FIELDS_LISTED,
    ListConversations, ListedConversation, OPEN_FIELD, Rated, Rating, Settling,
};
pub use costs::{KeyCost, MONEY_PLACES, day_of, key_id};
pub use dead::{Dead, DeadFact, DeadId, DeadLetter, ListDead, PutBack, withheld};
pub use durability::{Durability, Durable, Unconfirmed, Written};
pub use fleet::{Fleet, JobHeld, JobPlace, LiveWorker, QueueState, Raised, ShardUse};
pub use following::Following;
pub use jobs::{
    Accepted, Completion, Delivered, Hint, Hints, JobReader, Jobs, Note, Outages, RunOwner, Stale, StaleJob,
    TakeOver,
};
pub use journal::{EntryBegin, EntryStored, JournalKey};
pub use knowledge::{DocumentList, Generation, KnowledgeBases, Published};
pub use labels::{LABELS_FIELD, Labels, label_id, labels_in};
pub use limit::{GiveLimit, LimitBound, LimitBounds, LimitBucket, LimitLeft, LimitTaken, TakeLimit};
pub use outage::Outage;
pub use paused::Paused;
pub use plugin_values::{PluginValue, PluginValuePut};
pub use removals::{AppState, Removals, StateSet};
pub use runs::{
    Answered, App, CommandKey, Created, ListRuns, NewRun, Page, PauseAnswer, Reserved, RunCommand, Runs, Sent,
};
pub use shards::{Claim, Commit, CommitError, Due, FactReader, Indexed, Memory, Owner, RawFact, Shards};
pub use trigger::{
    DueSchedule, Fired, FromSchedule, Trigger, TriggerChanges, TriggerKind, TriggerState, scheduled_run,
    shard_of,
};
pub use uploads::{UploadCharge, UploadCharged};
pub use webhooks::{Notice, NoticePlace, NoticeTried, NoticesAhead, WaitingNotices, Webhooks};

use tidemill_wire::{VERSION, WireError};

/// An error of the store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Redis cannot be reached or did not answer in time. The request may or may not have been executed.
    #[error("Redis at {address} did not serve a request while {doing}: {reason}")]
    Unreachable {
        address: String,
        /// The attempted operation.
        doing: &'static str,
        reason: String,
    },
    /// Redis did nothing, and a retry may succeed (loading, out of memory, busy).
    #[error("Redis refused a request for now while {doing}: {reason}")]
    Refused {
        /// The attempted operation.
        doing: &'static str,
        /// Redis's answer.
        reason: String,
    },
    /// Redis does not accept the user or the password, or the user may not do this. The request was not executed.
    #[error(
        "Redis at {address} refuses this user while {doing}: {reason}; check the user, the password and its ACL in redis.url"
    )]
    Denied {
        address: String,
        /// The attempted operation.
        doing: &'static str,
        reason: String,
    },
    /// The Sentinels do not accept the user or the password that they are asked with, or the user may not do this.
    #[error(
        "the Sentinel at {address} refuses this user while {doing}: {reason}; Sentinels have users of their own: check \
         redis.sentinel_user, redis.sentinel_password, and the rights of the user there"
    )]
    SentinelDenied {
        address: String,
        /// The attempted operation.
        doing: &'static str,
        reason: String,
    },
    /// Redis gave an unexpected answer.
    #[error("Redis gave an unexpected answer while {doing}: {reason}")]
    Unexpected {
        /// The attempted operation.
        doing: &'static str,
        reason: String,
    },
    /// The server cannot be used with its present settings.
    #[error("{0}")]
    Unusable(String),
    /// A newer version wrote here; this process must not touch it.
    #[error("{what} is written in version {version}; this process knows version {VERSION}, upgrade it")]
    Newer {
        /// The data with that version.
        what: String,
        version: u64,
    },
}

impl StoreError {
    /// Whether waiting and retrying can help.
    pub fn is_passing(&self) -> bool {
        match self {
            // A password that changes reaches the processes and Redis at different moments.
            Self::Unreachable { .. }
            | Self::Refused { .. }
            | Self::Denied { .. }
            | Self::SentinelDenied { .. } => true,
            Self::Unexpected { .. } | Self::Unusable(_) | Self::Newer { .. } => false,
        }
    }
}

/// The server's version, and advice about its settings.
#[derive(Debug, Clone, Default)]
pub struct ServerReport {
    /// Such as `7.0.15`.
    pub version: String,
    /// Risky settings, a sentence each (for example: AOF is off).
    pub warnings: Vec<String>,
    /// Possible problems. Shown on request, not at every start.
    pub hints: Vec<String>,
    /// The memory use, if the server shows it.
    pub memory: Option<Memory>,
    /// The masters that Sentinels or a cluster name, with the number of their connected replicas.
    pub masters: Vec<(String, u64)>,
}

/// The namespace's own settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// The version of stored data, at most [`VERSION`].
    pub version: u32,
    /// The number of shards for new runs.
    pub shards: u16,
    /// The initial number of shards: idempotency keys are spread over these.
    pub shards_first: u16,
}

/// The error for an invalid event entry.
pub(crate) fn unreadable_events(error: WireError) -> StoreError {
    StoreError::Unexpected { doing: "reading events", reason: error.to_string() }
}

/// All traits of a store.
pub trait Store: Runs + Shards + Jobs + KnowledgeBases + Annotations {}

impl<T: Runs + Shards + Jobs + KnowledgeBases + Annotations> Store for T {}
