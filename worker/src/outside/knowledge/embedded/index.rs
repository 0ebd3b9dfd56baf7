//! One version of a dataset in memory. Versions share their unchanged documents.

use std::collections::HashMap;
use std::sync::Arc;

use tidemill_common::store::{Generation, KnowledgeBases, StoreError};
use tidemill_common::wire::knowledge::{DocumentRecord, SegmentRecord};

use crate::outside::knowledge::embedded::words::Words;

/// Segments loaded per request.
const PAGE: u64 = 256;
/// Bytes of a segment besides its texts and vector.
const SEGMENT_BYTES: u64 = 400;

/// The index of one dataset version; see the module.
pub struct Index {
    pub version: u64,
    /// The dataset's creation time. A recreated dataset may reuse version numbers.
    pub created_at: i64,
    pub documents: Vec<Document>,
    /// The length of its vectors; `None` without vectors.
    pub dimension: Option<usize>,
    /// The hit count of segments at loading time.
    pub hits: HashMap<String, u64>,
}

/// A document.
pub struct Document {
    pub record: DocumentRecord,
    pub content: Arc<Content>,
}

/// The content of a document; it never changes.
pub struct Content {
    /// In the order of their positions.
    pub segments: Vec<SegmentRecord>,
    /// The words of the segments.
    pub words: Words,
    vectors: Vec<f32>,
    dimension: usize,
}

impl Index {
    /// The approximate memory use in bytes.
    pub fn bytes(&self) -> u64 {
        self.documents.iter().map(|it| least_bytes(&it.record) + it.content.words.bytes()).sum()
    }

    /// The metadata fields of its documents, sorted.
    pub fn fields(&self) -> Vec<String> {
        let names = self.documents.iter().flat_map(|it| it.record.doc_metadata.keys().cloned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names.dedup();
        names
    }
}

impl Content {
    /// The vector of a segment; empty if it has none.
    pub fn vector(&self, segment: usize) -> &[f32] {
        let from = segment * self.dimension;
        self.vectors.get(from..from + self.dimension).unwrap_or(&[])
    }
}

/// The least memory of a document in bytes, before its words are known.
pub fn least_bytes(record: &DocumentRecord) -> u64 {
    record.bytes + record.segments.saturating_mul(u64::from(record.dimension) * 4 + SEGMENT_BYTES)
}

/// Loads a document; `None` if it was replaced or removed meanwhile.
pub async fn load(
    store: &dyn KnowledgeBases,
    dataset: &str,
    record: &DocumentRecord,
) -> Result<Option<Content>, StoreError> {
    let of = Generation { dataset, name: &record.generation };
    let dimension = usize::try_from(record.dimension).unwrap_or(0);
    let (mut segments, mut vectors) = (Vec::new(), Vec::new());
    let mut from = 1;
    while from <= record.segments {
        let positions: Vec<u64> = (from..=record.segments.min(from + PAGE - 1)).collect();
        let some = store.segments(of, &positions).await?;
        if some.len() != positions.len() {
            return Ok(None);
        }
        segments.extend(some);
        if dimension > 0 {
            for vector in store.vectors(of, &positions).await? {
                match vector {
                    Some(vector) if vector.len() == dimension => vectors.extend(vector),
                    Some(_) | None => return Ok(None),
                }
            }
        }
        from += PAGE;
    }
    // Splitting into words takes a while.
    let made = tokio::task::spawn_blocking(move || {
        let texts = segments.iter().map(crate::outside::knowledge::embedded::shown).collect::<Vec<String>>();
        let words = Words::new(texts.iter().map(String::as_str));
        Content { segments, words, vectors, dimension }
    });
    let failed = |error: tokio::task::JoinError| StoreError::Unexpected {
        doing: "making an index",
        reason: error.to_string(),
    };
    made.await.map(Some).map_err(failed)
}
