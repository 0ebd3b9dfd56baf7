//! The store of knowledge bases. A document is replaced atomically: its segments are stored under a new name
//! (a generation) and then published together. What searches read never changes; a version number shows that
//! there is something new.

use std::collections::HashMap;

use async_trait::async_trait;

use super::StoreError;
use tidemill_wire::knowledge::{DatasetRecord, DocumentRecord, IndexingRecord, SegmentRecord};

/// The searchable documents of a dataset at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DocumentList {
    /// Grows with each change.
    pub version: u64,
    /// Sorted by id.
    pub documents: Vec<DocumentRecord>,
}

/// The segments of one version of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation<'a> {
    pub dataset: &'a str,
    pub name: &'a str,
}

/// The result of publishing a version of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// Searches find it from now on.
    Published,
    /// It was published before.
    Before,
    /// Its run is no longer the newest for this document, or the document was removed.
    NotNewest,
    /// Its segments have expired before they were published.
    Gone,
}

/// Access to knowledge bases, for [`super::Runs`] and [`super::Jobs`].
#[async_trait]
pub trait KnowledgeBases: Send + Sync {
    /// All datasets, sorted by id, without those that belong to another feature ([`tidemill_wire::knowledge::is_inner`]).
    async fn datasets(&self) -> Result<Vec<DatasetRecord>, StoreError>;
    /// The dataset with this id, also one that belongs to another feature.
    async fn dataset(&self, id: &str) -> Result<Option<DatasetRecord>, StoreError>;
    /// Stores a dataset under its id. With `is_new`, returns `false` and does nothing when it exists.
    async fn put_dataset(&self, dataset: &DatasetRecord, is_new: bool) -> Result<bool, StoreError>;
    /// Removes a dataset and its contents; `false` when it does not exist. May be repeated.
    async fn drop_dataset(&self, dataset: &str) -> Result<bool, StoreError>;
    /// The version of the searchable documents; 0 when nothing was ever published.
    async fn knowledge_version(&self, dataset: &str) -> Result<u64, StoreError>;
    /// The searchable documents.
    async fn documents(&self, dataset: &str) -> Result<DocumentList, StoreError>;
    /// Versions that are not searchable yet, by document id.
    async fn indexing(&self, dataset: &str) -> Result<Vec<(String, IndexingRecord)>, StoreError>;
    /// Makes a run the newest one that indexes a document; earlier runs will not publish it.
    async fn begin_indexing(
        &self,
        dataset: &str,
        document: &str,
        record: &IndexingRecord,
    ) -> Result<(), StoreError>;
    /// Stores the progress; `false` when its run is not the newest for this document.
    async fn note_indexing(
        &self,
        dataset: &str,
        document: &str,
        record: &IndexingRecord,
    ) -> Result<bool, StoreError>;
    /// Stores segments of an unpublished version. They expire after a week unless published.
    async fn put_segments(&self, of: Generation<'_>, segments: &[SegmentRecord]) -> Result<(), StoreError>;
    /// Stores vectors of segments, by position.
    async fn put_vectors(&self, of: Generation<'_>, vectors: &[(u64, Vec<f32>)]) -> Result<(), StoreError>;
    /// The existing segments at these positions.
    async fn segments(&self, of: Generation<'_>, positions: &[u64])
    -> Result<Vec<SegmentRecord>, StoreError>;
    /// The vectors at these positions.
    async fn vectors(
        &self,
        of: Generation<'_>,
        positions: &[u64],
    ) -> Result<Vec<Option<Vec<f32>>>, StoreError>;
    /// Publishes the version of `run`. The segments of the previous version stay readable for another minute.
    /// May be repeated.
    async fn publish_document(
        &self,
        dataset: &str,
        document: &DocumentRecord,
        run: &str,
    ) -> Result<Published, StoreError>;
    /// Removes a document, published or not; `false` when it does not exist.
    async fn drop_document(&self, dataset: &str, document: &str) -> Result<bool, StoreError>;
    /// Adds to the hit counts of segments.
    async fn count_hits(&self, dataset: &str, hits: &[(String, u64)]) -> Result<(), StoreError>;
    /// The hit count of each segment, by id.
    async fn hits(&self, dataset: &str) -> Result<HashMap<String, u64>, StoreError>;
}
