//! How a follower hears of news of its run: a hint that something may have been written, most often with what it is.
//!
//! Hints may get lost and pages may be skipped: only the newest is kept, so that a slow reader holds nobody up and costs
//! no more memory than that. A page says which entry it begins behind; whoever has not come that far, or was not shown
//! the one before, reads by itself.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::ids::EntryId;
use crate::wire::entry::EventEntry;

/// Entries of a run that came one after the other.
#[derive(Debug)]
pub struct Page {
    /// Everything between this entry and the last of the page is in it.
    pub after: EntryId,
    /// In order.
    pub entries: Vec<Arc<EventEntry>>,
    /// Whether there was no more at that time.
    pub is_whole: bool,
}

impl Page {
    /// How far it reaches.
    pub fn end(&self) -> EntryId {
        self.entries.last().map_or(self.after, |entry| entry.id)
    }

    /// What it has for somebody who has come as far as an entry; none when something may be missing between the two.
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

/// A hint that there may be news. If a page is there, this is what they are.
pub type Tick = Option<Arc<Page>>;

/// What all who follow a run share.
#[derive(Debug)]
pub struct Followed {
    ticks: watch::Sender<Tick>,
    /// How far somebody has come who has then seen the end of the stream.
    reached: Mutex<Option<EntryId>>,
}

impl Default for Followed {
    fn default() -> Self {
        Self { ticks: watch::channel(None).0, reached: Mutex::default() }
    }
}

impl Followed {
    /// Tells all who follow.
    pub fn tell(&self, tick: Tick) {
        self.ticks.send_replace(tick);
    }

    /// From where on it is worth reading for all of them at once; none while everybody still reads what there was.
    pub fn reached(&self) -> Option<EntryId> {
        *self.lock()
    }

    /// Somebody has come this far. It never goes back: whoever is behind reads by itself.
    pub fn advance(&self, to: EntryId) {
        let mut reached = self.lock();
        *reached = (*reached).max(Some(to));
    }

    /// How many follow.
    pub fn count(&self) -> usize {
        self.ticks.receiver_count()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<EntryId>> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who follows. Take it before the first look, so that nothing falls between the two.
pub struct Following {
    ticks: watch::Receiver<Tick>,
    followed: Arc<Followed>,
    /// Called when this one leaves.
    leave: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Following {
    /// One more who follows; `leave` is called when it does no longer.
    pub fn new(followed: Arc<Followed>, leave: Option<Box<dyn FnOnce() + Send + Sync>>) -> Self {
        Self { ticks: followed.ticks.subscribe(), followed, leave }
    }

    /// Returns when a tick has come since the last one was taken; perhaps never.
    pub async fn changed(&mut self) {
        if self.ticks.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        // Whoever waits is told; taking it is another matter.
        self.ticks.mark_changed();
    }

    /// The tick that has come since the last one was taken.
    pub fn take(&mut self) -> Option<Tick> {
        if !self.ticks.has_changed().unwrap_or(false) {
            return None;
        }
        Some(self.ticks.borrow_and_update().clone())
    }

    /// Says that the stream's end was seen behind this entry: from here on ticks come with what there is to tell.
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
    fn a_page_serves_those_who_have_come_to_it_and_nobody_before() {
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
        followed.tell(Some(Arc::new(page(1, &[2]))));
        followed.tell(Some(Arc::new(page(2, &[3]))));
        following.changed().await;
        assert_eq!(following.take().unwrap().unwrap().after, EntryId::new(2, 0));
        assert!(following.take().is_none());
        followed.tell(None);
        assert!(following.take().unwrap().is_none());
    }

    #[test]
    fn the_common_place_never_goes_back() {
        let followed = Followed::default();
        assert_eq!(followed.reached(), None);
        for (to, expected) in [(0, 0), (5, 5), (3, 5)] {
            followed.advance(EntryId::new(to, 0));
            assert_eq!(followed.reached(), Some(EntryId::new(expected, 0)));
        }
    }
}
