//! Steps of a job: what a journal is asked, and what it answers.

use std::sync::Arc;

use crate::ids::{EntryId, ExecutionId, RunId, ShardId};

/// A job in somebody's hands, as the journal knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalOf {
    /// The shard.
    pub shard: ShardId,
    /// The queue that the job came from.
    pub queue: Arc<str>,
    /// Its entry.
    pub entry: EntryId,
    /// Which handing-out of the entry it is.
    pub number: u32,
    /// Who holds it.
    pub consumer: Arc<str>,
    /// The run.
    pub run: RunId,
    /// The execution: the same for every attempt of the node, and however often its job is handed out.
    pub execution: ExecutionId,
    /// Which attempt of the node it is, from 1.
    pub attempt: u32,
}

impl JournalOf {
    /// The field that holds the result of a step: `<execution>/<step>`.
    pub fn field(&self, step: &str) -> String {
        format!("{}/{step}", self.execution)
    }
    /// The beginning of the fields that say when a try of a step began: `<execution>/started:<step>:`, then its number.
    pub fn mark(&self, step: &str) -> String {
        format!("{}/started:{step}:", self.execution)
    }
}

/// What the journal knows of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepBegin {
    /// It was done.
    Known {
        /// What came of it.
        result: String,
        /// A try of it was begun twice: its call may have been made twice.
        possible_duplicate: bool,
    },
    /// A try of it begins now.
    Begin {
        /// The number of the try, from 1. A job that is handed out again goes on with the try that was under way.
        attempt: u32,
        /// This try was begun before, by somebody who did not tell what came of it: the call may have been made.
        possible_duplicate: bool,
        /// This try was begun before, and perhaps put down on purpose while nothing was under way.
        was_begun: bool,
    },
    /// The job is not this consumer's any more.
    NotYours,
}

/// What became of a result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKept {
    /// It is kept, and the fact that tells of it is in the inbox. Also when that was so before.
    Kept,
    /// A blob that was stored for it has expired meanwhile: it is to be stored again.
    BlobGone,
    /// The job is not this consumer's any more.
    NotYours,
}
