//! Knowledge bases, with the behaviour of Redis. Unpublished segments do not expire.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;

use super::MemoryStore;
use crate::store::{DocumentList, Generation, KnowledgeBases, Published, StoreError};
use tidemill_wire::knowledge::{DatasetRecord, DocumentRecord, IndexingRecord, SegmentRecord, is_inner};

/// All datasets.
#[derive(Default)]
pub(super) struct Knowledge {
    datasets: BTreeMap<String, DatasetRecord>,
    contents: BTreeMap<String, DatasetContent>,
}

/// The contents of a dataset.
#[derive(Default)]
struct DatasetContent {
    version: u64,
    documents: BTreeMap<String, DocumentRecord>,
    indexing: BTreeMap<String, IndexingRecord>,
    hits: HashMap<String, u64>,
    segments: BTreeMap<String, BTreeMap<u64, SegmentRecord>>,
    vectors: BTreeMap<String, BTreeMap<u64, Vec<f32>>>,
}

impl MemoryStore {
    fn of_dataset<T>(&self, dataset: &str, change: impl FnOnce(&mut DatasetContent) -> T) -> T {
        change(self.inner.lock().knowledge.contents.entry(dataset.to_owned()).or_default())
    }
}

impl DatasetContent {
    fn is_newest(&self, document: &str, run: &str) -> bool {
        self.indexing.get(document).is_some_and(|record| record.run == run)
    }

    fn publish(&mut self, document: &DocumentRecord, run: &str) -> Published {
        let current = self.documents.get(&document.id);
        if current.is_some_and(|current| current.generation == document.generation) {
            return Published::Before;
        }
        if !self.is_newest(&document.id, run) {
            return Published::NotNewest;
        }
        if !self.segments.contains_key(&document.generation) {
            return Published::Gone;
        }
        self.indexing.remove(&document.id);
        self.documents.insert(document.id.clone(), document.clone());
        self.version += 1;
        Published::Published
    }
}

#[async_trait]
impl KnowledgeBases for MemoryStore {
    async fn datasets(&self) -> Result<Vec<DatasetRecord>, StoreError> {
        let datasets = &self.inner.lock().knowledge.datasets;
        Ok(datasets.values().filter(|record| !is_inner(&record.id)).cloned().collect())
    }

    async fn dataset(&self, id: &str) -> Result<Option<DatasetRecord>, StoreError> {
        Ok(self.inner.lock().knowledge.datasets.get(id).cloned())
    }

    async fn put_dataset(&self, dataset: &DatasetRecord, is_new: bool) -> Result<bool, StoreError> {
        let datasets = &mut self.inner.lock().knowledge.datasets;
        if is_new && datasets.contains_key(&dataset.id) {
            return Ok(false);
        }
        datasets.insert(dataset.id.clone(), dataset.clone());
        Ok(true)
    }

    async fn drop_dataset(&self, dataset: &str) -> Result<bool, StoreError> {
        let knowledge = &mut self.inner.lock().knowledge;
        knowledge.contents.remove(dataset);
        Ok(knowledge.datasets.remove(dataset).is_some())
    }

    async fn knowledge_version(&self, dataset: &str) -> Result<u64, StoreError> {
        Ok(self.of_dataset(dataset, |contents| contents.version))
    }

    async fn documents(&self, dataset: &str) -> Result<DocumentList, StoreError> {
        Ok(self.of_dataset(dataset, |contents| DocumentList {
            version: contents.version,
            documents: contents.documents.values().cloned().collect(),
        }))
    }

    async fn indexing(&self, dataset: &str) -> Result<Vec<(String, IndexingRecord)>, StoreError> {
        Ok(self.of_dataset(dataset, |contents| contents.indexing.clone().into_iter().collect()))
    }

    async fn begin_indexing(
        &self,
        dataset: &str,
        document: &str,
        record: &IndexingRecord,
    ) -> Result<(), StoreError> {
        self.of_dataset(dataset, |contents| contents.indexing.insert(document.to_owned(), record.clone()));
        Ok(())
    }

    async fn note_indexing(
        &self,
        dataset: &str,
        document: &str,
        record: &IndexingRecord,
    ) -> Result<bool, StoreError> {
        Ok(self.of_dataset(dataset, |contents| {
            let is_newest = contents.is_newest(document, &record.run);
            if is_newest {
                contents.indexing.insert(document.to_owned(), record.clone());
            }
            is_newest
        }))
    }

    async fn put_segments(&self, of: Generation<'_>, segments: &[SegmentRecord]) -> Result<(), StoreError> {
        let segments = segments.iter().map(|segment| (segment.position, segment.clone()));
        self.of_dataset(of.dataset, |contents| {
            contents.segments.entry(of.name.to_owned()).or_default().extend(segments);
        });
        Ok(())
    }

    async fn put_vectors(&self, of: Generation<'_>, vectors: &[(u64, Vec<f32>)]) -> Result<(), StoreError> {
        self.of_dataset(of.dataset, |contents| {
            contents.vectors.entry(of.name.to_owned()).or_default().extend(vectors.iter().cloned());
        });
        Ok(())
    }

    async fn segments(
        &self,
        of: Generation<'_>,
        positions: &[u64],
    ) -> Result<Vec<SegmentRecord>, StoreError> {
        Ok(self.of_dataset(of.dataset, |contents| {
            let all = contents.segments.get(of.name);
            positions.iter().filter_map(|position| all?.get(position).cloned()).collect()
        }))
    }

    async fn vectors(
        &self,
        of: Generation<'_>,
        positions: &[u64],
    ) -> Result<Vec<Option<Vec<f32>>>, StoreError> {
        Ok(self.of_dataset(of.dataset, |contents| {
            let all = contents.vectors.get(of.name);
            positions.iter().map(|position| all?.get(position).cloned()).collect()
        }))
    }

    async fn publish_document(
        &self,
        dataset: &str,
        document: &DocumentRecord,
        run: &str,
    ) -> Result<Published, StoreError> {
        Ok(self.of_dataset(dataset, |contents| contents.publish(document, run)))
    }

    async fn drop_document(&self, dataset: &str, document: &str) -> Result<bool, StoreError> {
        Ok(self.of_dataset(dataset, |contents| {
            let was_indexing = contents.indexing.remove(document).is_some();
            let was_there = contents.documents.remove(document).is_some();
            contents.version += u64::from(was_there);
            was_indexing || was_there
        }))
    }

    async fn count_hits(&self, dataset: &str, hits: &[(String, u64)]) -> Result<(), StoreError> {
        self.of_dataset(dataset, |contents| {
            hits.iter().for_each(|(segment, count)| {
                *contents.hits.entry(segment.clone()).or_default() += count;
            });
        });
        Ok(())
    }

    async fn hits(&self, dataset: &str) -> Result<HashMap<String, u64>, StoreError> {
        Ok(self.of_dataset(dataset, |contents| contents.hits.clone()))
    }
}
