//! Stores large values as blobs on the shard of their run. Every value that an API accepts goes through here.

use std::sync::Arc;

use tidemill_common::ids::{BlobId, ShardId};
use tidemill_common::machine::state::NamedValues;
use tidemill_common::store::Runs;
use tidemill_common::value::{BlobRef, Segment, Stored, blob_text};

use crate::submit::SubmitError;

/// Stores the values of one request, and remembers the blobs that it created.
pub struct BlobWriter {
    store: Arc<dyn Runs>,
    shard: ShardId,
    inline_bytes_max: usize,
    value_bytes_max: usize,
    blobs: Vec<(BlobId, u64)>,
}

impl BlobWriter {
    /// Creates it for a run on this shard. Values above `inline_bytes_max` become blobs, those above `value_bytes_max`
    /// are refused.
    pub fn new(
        store: Arc<dyn Runs>,
        shard: ShardId,
        inline_bytes_max: usize,
        value_bytes_max: usize,
    ) -> Self {
        Self { store, shard, inline_bytes_max, value_bytes_max, blobs: Vec::new() }
    }

    /// Stores values and returns their stored form.
    ///
    /// # Errors
    /// As [`BlobWriter::value`].
    pub async fn named(&mut self, values: Vec<(String, Segment)>) -> Result<NamedValues, SubmitError> {
        let mut stored = NamedValues::with_capacity(values.len());
        for (name, segment) in values {
            let value = self.value(&name, segment).await?;
            stored.push((name, value));
        }
        Ok(stored)
    }

    /// Stores a value and returns its stored form. `name` is for the error.
    ///
    /// # Errors
    /// The value is too large, or the store failed.
    pub async fn value(&mut self, name: &str, segment: Segment) -> Result<Stored, SubmitError> {
        let text = blob_text(&segment.value);
        let max = self.value_bytes_max;
        if text.len() > max {
            return Err(SubmitError::ValueTooLarge { name: name.to_string(), size: text.len(), max });
        }
        if text.len() <= self.inline_bytes_max {
            return Ok(Stored::Inline(segment));
        }
        let blob = BlobRef::to(BlobId::generate(), &segment, &text);
        self.store.put_blob(self.shard, &blob.id, &text).await?;
        self.blobs.push((blob.id.clone(), blob.size));
        Ok(Stored::Blob(blob))
    }

    /// Names and sizes of the blobs. The command that creates or changes the run accepts them.
    pub fn into_blobs(self) -> Vec<(BlobId, u64)> {
        self.blobs
    }
}
