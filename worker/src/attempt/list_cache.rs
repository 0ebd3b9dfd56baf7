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
const KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

type Items = Arc<Vec<Json>>;

#[derive(Debug, Default)]
struct Slot {
    items: Arc<OnceCell<Items>>,
    bytes: u64,
    /// The cache's use count at the last use of this slot.
    used: u64,
}

#[derive(Debug, Default)]
struct Kept {
    slots: HashMap<BlobId, Slot>,
    bytes: u64,
    uses: u64,
}

/// The list cache; see the module.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    kept: Mutex<Kept>,
}

impl Lists {
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
        let slot = self.slot(id, bytes);
        let items = slot.get_or_try_init(|| async { fetch.await.map(Arc::new) }).await;
        if items.is_err() {
            let mut kept = self.lock();
            if let Some(slot) = kept.slots.remove(id) {
                kept.bytes -= slot.bytes;
            }
        }
        items.cloned()
    }

    fn slot(&self, id: &BlobId, bytes: u64) -> Arc<OnceCell<Items>> {
        let mut kept = self.lock();
        kept.uses += 1;
        let uses = kept.uses;
        if let Some(slot) = kept.slots.get_mut(id) {
            slot.used = uses;
            return slot.items.clone();
        }
        kept.make_room(bytes);
        kept.bytes += bytes;
        let slot = Slot { bytes, used: uses, ..Slot::default() };
        let items = slot.items.clone();
        kept.slots.insert(id.clone(), slot);
        items
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn make_room(&mut self, bytes: u64) {
        while self.bytes + bytes > KEPT_BYTES_MAX {
            let oldest = self.slots.iter().min_by_key(|(_, slot)| slot.used).map(|(id, _)| id.clone());
            let Some(slot) = oldest.and_then(|id| self.slots.remove(&id)) else { return };
            self.bytes -= slot.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_list_is_read_once_and_the_least_used_makes_room() {
        let lists = Lists::default();
        let half = KEPT_BYTES_MAX / 2;
        let fetch = |n: i32| async move { Ok(vec![Json::from(n)]) };
        for (id, n) in [("a", 1), ("b", 2)] {
            assert_eq!(*lists.get(&id.into(), half, fetch(n)).await.unwrap(), [Json::from(n)]);
        }
        let never = async { Err(NodeFailure::new("", "asked again")) };
        assert_eq!(*lists.get(&"a".into(), half, never).await.unwrap(), [Json::from(1)]);
        lists.get(&"c".into(), half, fetch(3)).await.unwrap();
        assert_eq!(*lists.get(&"b".into(), half, fetch(4)).await.unwrap(), [Json::from(4)]);
    }

    #[tokio::test]
    async fn a_list_that_could_not_be_read_is_asked_for_again() {
        let lists = Lists::default();
        let failing = async { Err(NodeFailure::new("BlobMissingError", "gone")) };
        assert!(lists.get(&"a".into(), 10, failing).await.is_err());
        assert!(lists.get(&"a".into(), 10, async { Ok(Vec::new()) }).await.is_ok());
    }
}
