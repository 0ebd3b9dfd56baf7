//! The journal of a job: requests and answers.

use std::sync::Arc;

use tidemill_base::ids::{EntryId, ExecutionId, RunId, ShardId};

/// A held job, as the journal identifies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalKey {
    pub shard: ShardId,
    /// The queue of the job.
    pub queue: Arc<str>,
    pub entry: EntryId,
    /// The delivery count of the entry.
    pub number: u32,
    /// The consumer that holds it.
    pub consumer: Arc<str>,
    pub run: RunId,
    /// The same for every attempt of the node and every delivery of its job.
    pub execution: ExecutionId,
    /// The attempt of the node, from 1.
    pub attempt: u32,
}

impl JournalKey {
    /// The field for the result of a journal entry: `<execution>/<step>`.
    pub fn field(&self, step: &str) -> String {
        format!("{}/{step}", self.execution)
    }
    /// The prefix of the fields that mark the begin of a try: `<execution>/started:<step>:`, then the try's
    /// number.
    pub fn mark(&self, step: &str) -> String {
        format!("{}/started:{step}:", self.execution)
    }
}

/// The journal's answer about an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryBegin {
    /// It is complete.
    Known {
        result: String,
        /// A try was begun twice, so its call may have been made twice.
        possible_duplicate: bool,
    },
    /// A try begins now.
    Begin {
        /// The number of the try, from 1. A job that is delivered again continues the try in progress.
        attempt: u32,
        /// An earlier holder began this try and reported no result: the call may have been made.
        possible_duplicate: bool,
        /// This try was begun before, and possibly parked while no call was in flight.
        was_begun: bool,
    },
    /// The consumer no longer holds the job.
    NotYours,
}

/// The outcome of storing a journal entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryStored {
    /// It is stored and its fact is in the inbox, now or from an earlier call.
    Stored,
    /// A blob that was stored for it has expired and must be stored again.
    BlobGone,
    /// The consumer no longer holds the job.
    NotYours,
}
