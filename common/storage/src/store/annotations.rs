//! The store of annotations: questions with prepared answers, for each app, and what their reply has used.

use async_trait::async_trait;

use super::{Page, StoreError};
use tidemill_base::ids::RunId;
use tidemill_wire::annotations::{AnnotationRecord, HitRecord, JobRecord};

/// An annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    pub id: String,
    pub record: AnnotationRecord,
    /// The number of messages that were answered from it.
    pub hit_count: u64,
}

/// The result of adding an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnotationAdded {
    /// It is stored.
    Added,
    /// The app has as many as it may have; nothing was done.
    Full,
}

/// Access to annotations, for [`super::Runs`].
#[async_trait]
pub trait Annotations: Send + Sync {
    /// Adds an annotation unless the app has `max` already. Adding it again changes nothing.
    async fn add_annotation(
        &self,
        app: &str,
        id: &str,
        record: &AnnotationRecord,
        max: u64,
    ) -> Result<AnnotationAdded, StoreError>;
    /// Replaces question and answer of an existing annotation; `None` when it does not exist.
    async fn change_annotation(
        &self,
        app: &str,
        id: &str,
        record: &AnnotationRecord,
    ) -> Result<Option<Annotation>, StoreError>;
    /// Removes an annotation with its hits; `false` when it does not exist.
    async fn drop_annotation(&self, app: &str, id: &str) -> Result<bool, StoreError>;
    /// An annotation by its id.
    async fn annotation(&self, app: &str, id: &str) -> Result<Option<Annotation>, StoreError>;
    /// A page of the annotations, newest first.
    async fn annotation_page(&self, app: &str, page: Page) -> Result<Vec<Annotation>, StoreError>;
    /// The number of annotations.
    async fn annotation_count(&self, app: &str) -> Result<u64, StoreError>;
    /// The newest annotation with each of these keys, in order, and the number of annotations.
    async fn annotations_with(
        &self,
        app: &str,
        keys: &[String],
    ) -> Result<(Vec<Option<Annotation>>, u64), StoreError>;
    /// Counts a use of an annotation and stores it; of those stored before, the newest stay, at most `kept` in all.
    /// `false` when the annotation does not exist.
    async fn hit_annotation(
        &self,
        app: &str,
        id: &str,
        hit: &HitRecord,
        kept: usize,
    ) -> Result<bool, StoreError>;
    /// A page of the uses of an annotation, newest first.
    async fn annotation_hits(&self, app: &str, id: &str, page: Page) -> Result<Vec<HitRecord>, StoreError>;
    /// Removes the uses by these messages from the lists of uses; they stay counted. May be repeated.
    async fn forget_hits(&self, app: &str, messages: &[RunId]) -> Result<(), StoreError>;
    /// Stores the setting of an existing app's annotation reply ([`super::App::annotation_reply`]).
    async fn set_annotation_reply(&self, app: &str, setting: &str) -> Result<(), StoreError>;
    /// Stores a job for [`tidemill_base::limits::ANNOTATION_JOB_SECONDS`].
    async fn put_annotation_job(&self, app: &str, id: &str, job: &JobRecord) -> Result<(), StoreError>;
    /// A job of this app.
    async fn annotation_job(&self, app: &str, id: &str) -> Result<Option<JobRecord>, StoreError>;
}
