//! A cache of the lists that iterations run over. Each item is a separate job, but the list is fetched and parsed only
//! once. The least recently used list is evicted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value as Json;
use tidemill_common::failure::NodeFailure;
use tidemill_common::ids::BlobId;
use tokio::sync::OnceCell;

/// Most bytes of cached lists, as JSON text. Users keep a list in use alive, so this bounds only lists that may be
/// requested again.
const CACHED_BYTES_MAX: u64 = 64 * 1024 * 1024;

type Items = Arc<Vec<Json>>;

#[derive(Debug, Default)]
struct CachedList {
    items: Arc<OnceCell<Items>>,
    bytes: u64,
    /// The cache's use count at the last use of this list.
    used: u64,
}

#[derive(Debug, Default)]
struct CachedLists {
    entries: HashMap<BlobId, CachedList>,
    bytes: u64,
    uses: u64,
}

/// The list cache; see the module.
#[derive(Debug, Default)]
pub(crate) struct ListCache {
    cached: Mutex<CachedLists>,
}

impl ListCache {
    /// Returns the items of a list of `bytes` bytes, fetched with `fetch` if they are not cached. Concurrent callers
    /// wait for the same fetch.
    ///
    /// # Errors
    /// Those of `fetch`. The next caller tries again.
    pub(crate) async fn get(
        &self,
        id: &BlobId,
        bytes: u64,
        fetch: impl Future<Output = Result<Vec<Json>, NodeFailure>>,
    ) -> Result<Items, NodeFailure> {
        let entry = self.entry(id, bytes);
        let items = entry.get_or_try_init(|| async { fetch.await.map(Arc::new) }).await;
        if items.is_err() {
            let mut cached = self.lock();
            if let Some(entry) = cached.entries.remove(id) {
                cached.bytes -= entry.bytes;
            }
        }
        items.cloned()
    }

    fn entry(&self, id: &BlobId, bytes: u64) -> Arc<OnceCell<Items>> {
        let mut cached = self.lock();
        cached.uses += 1;
        let uses = cached.uses;
        if let Some(entry) = cached.entries.get_mut(id) {
            entry.used = uses;
            return entry.items.clone();
        }
        cached.make_room(bytes);
        cached.bytes += bytes;
        let entry = CachedList { bytes, used: uses, ..CachedList::default() };
        let items = entry.items.clone();
        cached.entries.insert(id.clone(), entry);
        items
    }

    fn lock(&self) -> MutexGuard<'_, CachedLists> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedLists {
    fn make_room(&mut self, bytes: u64) {
        while self.bytes + bytes > CACHED_BYTES_MAX {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(id, _)| id.clone());
            let Some(entry) = oldest.and_then(|id| self.entries.remove(&id)) else { return };
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_list_is_read_once_and_the_least_used_makes_room() {
        let cache = ListCache::default();
        let half = CACHED_BYTES_MAX / 2;
        let fetch = |n: i32| async move { Ok(vec![Json::from(n)]) };
        for (id, n) in [("a", 1), ("b", 2)] {
            assert_eq!(*cache.get(&id.into(), half, fetch(n)).await.unwrap(), [Json::from(n)]);
        }
        let never = async { Err(NodeFailure::new("", "asked again")) };
        assert_eq!(*cache.get(&"a".into(), half, never).await.unwrap(), [Json::from(1)]);
        cache.get(&"c".into(), half, fetch(3)).await.unwrap();
        assert_eq!(*cache.get(&"b".into(), half, fetch(4)).await.unwrap(), [Json::from(4)]);
    }

    #[tokio::test]
    async fn a_list_that_could_not_be_read_is_asked_for_again() {
        let cache = ListCache::default();
        let failing = async { Err(NodeFailure::new("BlobMissingError", "gone")) };
        assert!(cache.get(&"a".into(), 10, failing).await.is_err());
        assert!(cache.get(&"a".into(), 10, async { Ok(Vec::new()) }).await.is_ok());
    }
}
