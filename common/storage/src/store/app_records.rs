//! Records about an app besides its published version: all its versions, its users, their ratings, and lists over its
//! runs. Only requests that need them read them; the start of a run does not.

use std::collections::HashMap;

use async_trait::async_trait;

use super::{App, ConversationRef, Page, StoreError};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{RunId, ShardId};

/// A version of an app that was published at some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppVersion {
    /// The hash of its workflow.
    pub version: String,
    /// When it was first published.
    pub published_at: Timestamp,
}

/// A rating of a message, in the list of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feedback {
    pub conversation: String,
    /// The id of the message's run.
    pub message: RunId,
    /// When the message was first rated.
    pub created_at: Timestamp,
    /// JSON, as it was stored with [`super::Rating`].
    pub rating: String,
}

/// A user of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndUser {
    pub app: String,
    /// The name that clients give.
    pub user: String,
    /// The first note.
    pub created_at: Timestamp,
    /// The last note.
    pub updated_at: Timestamp,
}

/// The store of these records.
#[async_trait]
pub trait AppRecords: Send + Sync {
    /// Keeps a version of an app until it is removed. May be repeated: the first time counts.
    async fn keep_version(&self, app: &App, at: Timestamp) -> Result<(), StoreError>;
    /// The kept versions of an app, newest first. Apps that were published by an older process may lack the current
    /// one.
    async fn versions(&self, app: &str) -> Result<Vec<AppVersion>, StoreError>;
    /// The document of a kept version.
    async fn version_document(&self, app: &str, version: &str) -> Result<Option<String>, StoreError>;
    /// Removes a kept version; `false` when it is not kept.
    async fn drop_version(&self, app: &str, version: &str) -> Result<bool, StoreError>;
    /// The number of kept runs of each of these versions, of all apps.
    async fn runs_of_versions(&self, versions: &[String]) -> Result<Vec<u64>, StoreError>;
    /// Some fields of each run, in the order of the runs; those that a run lacks are left out.
    async fn fields_of_runs(
        &self,
        runs: &[RunId],
        names: &[&'static str],
    ) -> Result<Vec<HashMap<String, String>>, StoreError>;
    /// The run that an idempotency key was reserved for. Reserves nothing.
    async fn reserved(&self, key_hash: &str) -> Result<Option<RunId>, StoreError>;
    /// The ratings of an app, the newest first; only the newest `FEEDBACKS_MAX` are listed.
    async fn feedbacks(&self, app: &str, page: Page) -> Result<Vec<Feedback>, StoreError>;
    /// Notes that a user of an app was here; `id` is the user's id, `seconds` the time to live (0: forever).
    async fn note_end_user(
        &self,
        id: &str,
        app: &str,
        user: &str,
        at: Timestamp,
        seconds: u64,
    ) -> Result<(), StoreError>;
    /// A noted user.
    async fn end_user(&self, id: &str) -> Result<Option<EndUser>, StoreError>;
    /// Hides runs of a removed conversation, and lets the owner of the shard remove those that have ended.
    async fn forget_runs(&self, it: &ConversationRef, runs: &[RunId]) -> Result<(), StoreError>;
    /// The same for inner runs of a shard; other runs stay as they are.
    async fn forget_inner_runs(&self, shard: ShardId, runs: &[RunId]) -> Result<(), StoreError>;
}

/// The field of a run that is hidden because its conversation was removed.
pub const REMOVED_FIELD: &str = "removed";
/// The field of an inner run, with its purpose: a run of a built-in file, which belongs to no app.
pub const INNER_FIELD: &str = "inner";

/// Sorts versions: the newest first, those of one time by their hash.
pub(super) fn newest_first(versions: &mut [AppVersion]) {
    versions.sort_by(|one, other| {
        other.published_at.cmp(&one.published_at).then_with(|| one.version.cmp(&other.version))
    });
}
