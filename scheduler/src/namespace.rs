//! What this process knows of its namespace: the number of shards and the version of stored data. Both may grow while the
//! process runs. The loop that takes shards reads them again and again, and everything else takes them from here.

use std::sync::{PoisonError, RwLock};

use tidemill_common::store::Meta;

/// The settings of the namespace as this process last read them.
#[derive(Debug, Default)]
pub struct Namespace(RwLock<Option<Meta>>);

impl Namespace {
    /// Notes what was read.
    pub fn note(&self, meta: Meta) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(meta);
    }

    /// What was read last; `None` before that.
    pub fn known(&self) -> Option<Meta> {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}
