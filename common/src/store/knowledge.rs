//! What the store keeps of knowledge bases. A document is replaced in one step: its segments are put under a new name (a
//! generation) first, and published together. What searches read never changes; a version tells when there is something new.

use std::collections::HashMap;

use async_trait::async_trait;

use super::StoreError;
use crate::wire::knowledge::{DatasetRecord, DocumentRecord, IndexingRecord, SegmentRecord};

/// What of a dataset can be searched, as of one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DocumentList {
    /// Grows with each change.
    pub version: u64,
    /// The documents, by their ids.
    pub documents: Vec<DocumentRecord>,
}

/// The segments of one version of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation<'a> {
    /// The dataset's id.
    pub dataset: &'a str,
    /// The generation's name.
    pub name: &'a str,
}

/// What became of a version of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// It is what searches find from now on.
    Published,
    /// It was published before.
    Before,
    /// Its run is not the newest for this document any more, or the document was removed meanwhile.
    NotNewest,
    /// Its segments are gone: they were put too long ago.
    Gone,
}

/// For whoever keeps or searches knowledge: behind [`super::Runs`] and [`super::Jobs`].
#[async_trait]
pub trait KnowledgeBases: Send + Sync {
    /// All datasets, by their ids.
    async fn datasets(&self) -> Result<Vec<DatasetRecord>, StoreError>;
    /// Keeps a dataset under its id. With `is_new` only if there is none; false then when there was.
    async fn put_dataset(&self, dataset: &DatasetRecord, is_new: bool) -> Result<bool, StoreError>;
    /// Removes a dataset with all that it holds; false when it was not there. May be repeated.
    async fn drop_dataset(&self, dataset: &str) -> Result<bool, StoreError>;
    /// The version of what can be searched; 0: nothing was ever published.
    async fn knowledge_version(&self, dataset: &str) -> Result<u64, StoreError>;
    /// What can be searched.
    async fn documents(&self, dataset: &str) -> Result<DocumentList, StoreError>;
    /// Versions that cannot be searched yet, by the ids of their documents.
    async fn indexing(&self, dataset: &str) -> Result<Vec<(String, IndexingRecord)>, StoreError>;
    /// Makes a run the newest that indexes a document: those that came before will not publish it.
    async fn begin_indexing(
        &self,
        dataset: &str,
        document: &str,
        record: &IndexingRecord,
    ) -> Result<(), StoreError>;
    /// Notes how far it is; false when its run is not the newest for this document.
    async fn note_indexing(
        &self,
        dataset: &str,
        document: &str,
        record: &IndexingRecord,
    ) -> Result<bool, StoreError>;
    /// Puts segments of a version that is not published yet. They go by themselves after a week.
    async fn put_segments(&self, of: Generation<'_>, segments: &[SegmentRecord]) -> Result<(), StoreError>;
    /// Puts vectors of its segments, by their positions.
    async fn put_vectors(&self, of: Generation<'_>, vectors: &[(u64, Vec<f32>)]) -> Result<(), StoreError>;
    /// The segments at these positions, those that are there.
    async fn segments(&self, of: Generation<'_>, positions: &[u64])
    -> Result<Vec<SegmentRecord>, StoreError>;
    /// The vectors at these positions.
    async fn vectors(
        &self,
        of: Generation<'_>,
        positions: &[u64],
    ) -> Result<Vec<Option<Vec<f32>>>, StoreError>;
    /// Makes the version of `run` what searches find, in place of the one before, whose segments can be read for another
    /// minute. May be repeated.
    async fn publish_document(
        &self,
        dataset: &str,
        document: &DocumentRecord,
        run: &str,
    ) -> Result<Published, StoreError>;
    /// Removes a document, also one that is not published yet; false when it was not there.
    async fn drop_document(&self, dataset: &str, document: &str) -> Result<bool, StoreError>;
    /// Adds to how often segments were found.
    async fn count_hits(&self, dataset: &str, hits: &[(String, u64)]) -> Result<(), StoreError>;
    /// How often each segment was found, by its id.
    async fn hits(&self, dataset: &str) -> Result<HashMap<String, u64>, StoreError>;
}
