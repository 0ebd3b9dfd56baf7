//! A stream: entries sorted by id, and the highest id ever used.

use std::collections::BTreeMap;
use std::ops::Bound;

use tidemill_base::clock::Timestamp;
use tidemill_base::ids::EntryId;

#[derive(Debug, Clone)]
pub(super) struct Stream<T> {
    entries: BTreeMap<EntryId, T>,
    last: EntryId,
}

impl<T> Default for Stream<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), last: EntryId::ZERO }
    }
}

impl<T> Stream<T> {
    /// Appends with an id of the present time (`XADD *`).
    pub(super) fn append(&mut self, now: Timestamp, item: T) -> EntryId {
        let ms = u64::try_from(now.millis()).unwrap_or(0);
        let id = if ms > self.last.major {
            EntryId::new(ms, 0)
        } else {
            EntryId::new(self.last.major, self.last.minor + 1)
        };
        self.put(id, item);
        id
    }

    /// Appends with the next id of a commit: `<commit>-<index>`, the index from 0.
    pub(super) fn append_of(&mut self, commit: u64, item: T) -> EntryId {
        let minor =
            if self.last.major == commit && self.last != EntryId::ZERO { self.last.minor + 1 } else { 0 };
        let id = EntryId::new(commit, minor);
        self.put(id, item);
        id
    }

    /// Appends with this id, which must be above [`Self::last`].
    pub(super) fn put(&mut self, id: EntryId, item: T) {
        self.entries.insert(id, item);
        self.last = self.last.max(id);
    }

    /// The last id that was used, even if its entry is gone.
    pub(super) fn last(&self) -> EntryId {
        self.last
    }

    /// Entries after an id, in order.
    pub(super) fn after(&self, id: EntryId) -> impl Iterator<Item = (EntryId, &T)> {
        self.entries.range((Bound::Excluded(id), Bound::Unbounded)).map(|(id, item)| (*id, item))
    }

    /// The newest existing entry.
    pub(super) fn newest(&self) -> Option<&T> {
        self.entries.values().next_back()
    }

    pub(super) fn get(&self, id: EntryId) -> Option<&T> {
        self.entries.get(&id)
    }

    pub(super) fn remove(&mut self, id: EntryId) -> Option<T> {
        self.entries.remove(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Drops all entries up to this one.
    pub(super) fn trim_through(&mut self, id: EntryId) {
        self.entries.retain(|known, _| *known > id);
    }

    /// Drops the oldest entries until at most `max` are left.
    pub(super) fn trim_to(&mut self, max: usize) {
        while self.entries.len() > max {
            self.entries.pop_first();
        }
    }
}
