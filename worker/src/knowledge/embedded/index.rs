//! A dataset in memory, as of one version of it. What did not change from one version to the next is shared.

use std::collections::HashMap;
use std::sync::Arc;

use tidemill_common::store::{Generation, KnowledgeBases, StoreError};
use tidemill_common::wire::knowledge::{DocumentRecord, SegmentRecord};

use super::words::Words;

/// Segments that are loaded at a time.
const PAGE: u64 = 256;
/// Bytes of a segment besides its texts and its vector.
const SEGMENT_BYTES: u64 = 400;

/// See the module.
pub struct Index {
    /// The version.
    pub version: u64,
    /// When the dataset was made: one that was made anew may have the versions of the one before.
    pub created_at: i64,
    /// Its documents.
    pub documents: Vec<Document>,
    /// Numbers of a vector; none: it has none.
    pub dimension: Option<usize>,
    /// How often segments had been found when it was loaded.
    pub hits: HashMap<String, u64>,
}

/// A document.
pub struct Document {
    /// What is known of it.
    pub record: DocumentRecord,
    /// What it holds.
    pub content: Arc<Content>,
}

/// What a document holds; never changes.
pub struct Content {
    /// Its segments, by position.
    pub segments: Vec<SegmentRecord>,
    /// Their words.
    pub words: Words,
    vectors: Vec<f32>,
    dimension: usize,
}

impl Index {
    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> u64 {
        self.documents.iter().map(|it| least_bytes(&it.record) + it.content.words.bytes()).sum()
    }

    /// Fields of its documents' metadata, sorted.
    pub fn fields(&self) -> Vec<String> {
        let names = self.documents.iter().flat_map(|it| it.record.doc_metadata.keys().cloned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names.dedup();
        names
    }
}

impl Content {
    /// The vector of a segment; empty where there is none.
    pub fn vector(&self, segment: usize) -> &[f32] {
        let from = segment * self.dimension;
        self.vectors.get(from..from + self.dimension).unwrap_or(&[])
    }
}

/// What a document takes at least, before its words are known.
pub fn least_bytes(record: &DocumentRecord) -> u64 {
    record.bytes + record.segments.saturating_mul(u64::from(record.dimension) * 4 + SEGMENT_BYTES)
}

/// Loads a document; none when it was replaced or removed meanwhile.
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
    // Words take a while.
    let made = tokio::task::spawn_blocking(move || {
        let texts = segments.iter().map(super::shown).collect::<Vec<String>>();
        let words = Words::new(texts.iter().map(String::as_str));
        Content { segments, words, vectors, dimension }
    });
    let failed = |error: tokio::task::JoinError| StoreError::Unexpected {
        doing: "making an index",
        reason: error.to_string(),
    };
    made.await.map(Some).map_err(failed)
}
