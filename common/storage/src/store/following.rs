//! Notifies followers of a run: a tick says that events may have been written, and mostly carries them as a
//! page.
//!
//! Ticks may be lost and pages skipped. Only the newest is kept, so a slow reader delays no one and costs no
//! extra memory. A page names the entry before its first; a follower that has not reached it reads the store
//! itself.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use tidemill_base::ids::EntryId;
use tidemill_wire::entry::EventEntry;

/// Consecutive entries of a run.
#[derive(Debug)]
pub struct Page {
    /// The page has everything after this entry, up to its last one.
    pub after: EntryId,
    pub entries: Vec<Arc<EventEntry>>,
    /// Whether it reached the end of the stream when it was read.
    pub is_whole: bool,
}

impl Page {
    /// The last entry of the page.
    pub fn end(&self) -> EntryId {
        self.entries.last().map_or(self.after, |entry| entry.id)
    }

    /// The part of the page after an entry; `None` when entries in between may be missing.
    pub fn behind(&self, reached: EntryId) -> Option<&[Arc<EventEntry>]> {
        if self.end() <= reached {
            return Some(&[]);
        }
        if self.after == reached {
            return Some(&self.entries);
        }
        let at = self.entries.iter().position(|entry| entry.id == reached)?;
        self.entries.get(at + 1..)
    }
}

/// A hint that there may be new events, with a page of them if available.
pub type Tick = Option<Arc<Page>>;

/// The state shared by all followers of a run.
#[derive(Debug)]
pub struct Followed {
    ticks: watch::Sender<Tick>,
    /// The furthest entry at which a follower saw the end of the stream.
    reached: Mutex<Option<EntryId>>,
}

impl Default for Followed {
    fn default() -> Self {
        Self { ticks: watch::channel(None).0, reached: Mutex::default() }
    }
}

impl Followed {
    /// Sends a tick to all followers.
    pub fn publish(&self, tick: Tick) {
        self.ticks.send_replace(tick);
    }

    /// The entry after which one read serves all followers; `None` while each still reads older events.
    pub fn reached(&self) -> Option<EntryId> {
        *self.lock()
    }

    /// Records that a follower has reached this entry. Never goes back: followers that are behind read the
    /// store themselves.
    pub fn advance(&self, to: EntryId) {
        let mut reached = self.lock();
        *reached = (*reached).max(Some(to));
    }

    /// The number of followers.
    pub fn count(&self) -> usize {
        self.ticks.receiver_count()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<EntryId>> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A follower. Create it before the first read, so that no event is missed in between.
pub struct Following {
    ticks: watch::Receiver<Tick>,
    followed: Arc<Followed>,
    /// Called when this follower is dropped.
    leave: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Following {
    /// Adds a follower; `leave` is called when it is dropped.
    pub fn new(followed: Arc<Followed>, leave: Option<Box<dyn FnOnce() + Send + Sync>>) -> Self {
        Self { ticks: followed.ticks.subscribe(), followed, leave }
    }

    /// Waits for a tick since the last [`take`](Self::take); may never return.
    pub async fn changed(&mut self) {
        if self.ticks.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        // Waiting does not consume the tick.
        self.ticks.mark_changed();
    }

    /// Takes the tick since the last call, if any.
    pub fn take(&mut self) -> Option<Tick> {
        if !self.ticks.has_changed().unwrap_or(false) {
            return None;
        }
        Some(self.ticks.borrow_and_update().clone())
    }

    /// Records that this follower saw the end of the stream after this entry; from then on ticks carry pages.
    pub fn has_reached(&self, entry: EntryId) {
        self.followed.advance(entry);
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(leave) = self.leave.take() {
            leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(major: u64) -> Arc<EventEntry> {
        let fields = [("tick".to_string(), format!("{{\"seq\":{major},\"ts\":0}}"))];
        Arc::new(EventEntry::read(EntryId::new(major, 0), fields).unwrap())
    }

    fn page(after: u64, entries: &[u64]) -> Page {
        let entries = entries.iter().map(|major| entry(*major)).collect();
        Page { after: EntryId::new(after, 0), entries, is_whole: true }
    }

    #[test]
    fn a_page_serves_only_followers_that_have_reached_it() {
        for (page, reached, expected) in [
            (page(3, &[4, 5]), 3, Some(vec![4, 5])),
            (page(3, &[4, 5]), 4, Some(vec![5])),
            (page(3, &[4, 5]), 5, Some(vec![])),
            (page(3, &[4, 5]), 9, Some(vec![])),
            (page(3, &[4, 5]), 2, None),
            (page(3, &[5, 7]), 6, None),
            (page(3, &[]), 3, Some(vec![])),
            (page(3, &[]), 2, None),
        ] {
            let behind = page.behind(EntryId::new(reached, 0));
            let ids = behind.map(|entries| entries.iter().map(|e| e.id.major).collect::<Vec<_>>());
            assert_eq!(ids, expected, "{page:?} {reached}");
        }
    }

    #[tokio::test]
    async fn a_tick_is_taken_once_and_only_the_newest_is_kept() {
        let followed = Arc::new(Followed::default());
        let mut following = Following::new(followed.clone(), None);
        assert!(following.take().is_none());
        followed.publish(Some(Arc::new(page(1, &[2]))));
        followed.publish(Some(Arc::new(page(2, &[3]))));
        following.changed().await;
        assert_eq!(following.take().unwrap().unwrap().after, EntryId::new(2, 0));
        assert!(following.take().is_none());
        followed.publish(None);
        assert!(following.take().unwrap().is_none());
    }

    #[test]
    fn the_common_position_never_goes_back() {
        let followed = Followed::default();
        assert_eq!(followed.reached(), None);
        for (to, expected) in [(0, 0), (5, 5), (3, 5)] {
            followed.advance(EntryId::new(to, 0));
            assert_eq!(followed.reached(), Some(EntryId::new(expected, 0)));
        }
    }
}
