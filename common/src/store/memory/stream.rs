//! A stream: entries in the order of their ids, and the last id that ever was.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::clock::Timestamp;
use crate::ids::EntryId;

#[derive(Debug)]
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
    /// Appends under an id of the present moment (`XADD *`).
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

    /// Appends under the next id of a commit: `<commit>-<index>`, the index counting from 0.
    pub(super) fn append_of(&mut self, commit: u64, item: T) -> EntryId {
        let minor =
            if self.last.major == commit && self.last != EntryId::ZERO { self.last.minor + 1 } else { 0 };
        let id = EntryId::new(commit, minor);
        self.put(id, item);
        id
    }

    /// Appends under this id, which lies above [`Self::last`].
    pub(super) fn put(&mut self, id: EntryId, item: T) {
        self.entries.insert(id, item);
        self.last = self.last.max(id);
    }

    /// The last id that was given, also when its entry is gone.
    pub(super) fn last(&self) -> EntryId {
        self.last
    }

    /// Entries behind an id, in order.
    pub(super) fn after(&self, id: EntryId) -> impl Iterator<Item = (EntryId, &T)> {
        self.entries.range((Bound::Excluded(id), Bound::Unbounded)).map(|(id, item)| (*id, item))
    }

    /// The newest entry that is there.
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

    /// Drops the oldest until no more than `max` are left.
    pub(super) fn trim_to(&mut self, max: usize) {
        while self.entries.len() > max {
            self.entries.pop_first();
        }
    }
}
