//! Notifies followers of a run: a tick says that events may have been written, and mostly carries them as a
//! page.
//!
//! Ticks may be lost and pages skipped. Only the newest is kept, so a slow reader delays no one and costs no
//! extra memory. A page names the entry before its first; a follower that has not reached it reads the store
//! itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use tidemill_base::ids::EntryId;
use tidemill_wire::entry::EventEntry;

/// The most entries that are sent again with the next ones: for a follower that was not woken in between.
const SENT_AGAIN: usize = 5;
/// The most bytes of those.
const SENT_AGAIN_BYTES: usize = 2 * 1024;

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

fn bytes_of(entries: &[Arc<EventEntry>]) -> usize {
    entries.iter().map(|entry| entry.bytes()).sum()
}

/// A hint that there may be new events, with a page of them if available.
pub type Tick = Option<Arc<Page>>;

/// The state shared by all followers of a run.
#[derive(Debug)]
pub struct Followed {
    ticks: watch::Sender<Tick>,
    reached: Mutex<Option<Reached>>,
}

/// The furthest entry at which the end of the stream was seen, or the last one that was written here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Reached {
    entry: EntryId,
    /// The number of its last event.
    seq: u64,
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

    /// Sends a page that was read, unless its entries were sent before.
    pub fn publish_read(&self, page: &Page, tick: Tick) {
        let mut reached = self.lock();
        if reached.is_some_and(|reached| page.end() < reached.entry) {
            return;
        }
        if let Some(last) = page.entries.last() {
            *reached = (*reached).max(Some(Reached { entry: last.id, seq: last.last_seq() }));
        }
        self.publish(tick);
    }

    /// Sends entries that this process has just written, with the few before them, so that a follower that comes late
    /// misses none. Where they do not follow what was seen last, followers read the store themselves; so they do if there
    /// are more than `bytes_max` bytes.
    pub fn publish_written(&self, entries: Vec<Arc<EventEntry>>, bytes_max: usize) {
        let mut reached = self.lock();
        let (Some(last), Some(first)) = (entries.last(), entries.first()) else { return };
        let now = Reached { entry: last.id, seq: last.last_seq() };
        let before = reached.filter(|before| first.seqs().is_some_and(|(seq, _)| before.seq + 1 == seq));
        // Without a reader at the end, the place from which to read on is not known.
        if reached.is_some() {
            *reached = (*reached).max(Some(now));
        }
        let page = before.map(|before| self.page_after(before.entry, entries));
        self.publish(page.filter(|page| bytes_of(&page.entries) <= bytes_max).map(Arc::new));
    }

    /// A page of new entries after `before`, and of those that were sent with the last page if they are few.
    fn page_after(&self, before: EntryId, entries: Vec<Arc<EventEntry>>) -> Page {
        let sent = self.ticks.borrow();
        let Some(sent) = sent.as_ref().filter(|sent| sent.end() == before && !sent.entries.is_empty()) else {
            return Page { after: before, entries, is_whole: true };
        };
        let (gone, kept) = sent.entries.split_at(sent.entries.len().saturating_sub(SENT_AGAIN));
        let after = gone.last().map_or(sent.after, |entry| entry.id);
        if bytes_of(kept) > SENT_AGAIN_BYTES {
            return Page { after: before, entries, is_whole: true };
        }
        Page { after, entries: kept.iter().cloned().chain(entries).collect(), is_whole: true }
    }

    /// The entry after which one read serves all followers; `None` while each still reads older events.
    pub fn reached(&self) -> Option<EntryId> {
        self.lock().map(|reached| reached.entry)
    }

    /// Records that a follower has reached this entry, whose last event has the number `seq`. Never goes back: followers
    /// that are behind read the store themselves.
    pub fn advance(&self, to: EntryId, seq: u64) {
        let mut reached = self.lock();
        *reached = (*reached).max(Some(Reached { entry: to, seq }));
    }

    /// The number of followers.
    pub fn count(&self) -> usize {
        self.ticks.receiver_count()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Reached>> {
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

    /// Records that this follower saw the end of the stream after this entry, whose last event has the number `seq`; from
    /// then on ticks carry pages.
    pub fn has_reached(&self, entry: EntryId, seq: u64) {
        self.followed.advance(entry, seq);
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
            followed.advance(EntryId::new(to, 0), to);
            assert_eq!(followed.reached(), Some(EntryId::new(expected, 0)));
        }
    }

    #[test]
    fn what_was_written_is_a_page_for_those_who_have_seen_all_before_it() {
        let written = |majors: &[u64]| majors.iter().map(|major| entry(*major)).collect::<Vec<_>>();
        for (reached, majors, bytes_max, page, then) in [
            (None, [4, 5], 1000, None, None),
            (Some(3), [4, 5], 1000, Some(3), Some(5)),
            (Some(2), [4, 5], 1000, None, Some(5)),
            (Some(9), [4, 5], 1000, None, Some(9)),
            (Some(3), [4, 5], 10, None, Some(5)),
        ] {
            let followed = Arc::new(Followed::default());
            let mut following = Following::new(followed.clone(), None);
            reached.into_iter().for_each(|major| followed.advance(EntryId::new(major, 0), major));
            followed.publish_written(written(&majors), bytes_max);
            let tick = following.take().expect("all are woken");
            assert_eq!(tick.map(|page| page.after.major), page, "{reached:?} {bytes_max}");
            assert_eq!(followed.reached().map(|entry| entry.major), then, "{reached:?} {bytes_max}");
        }
    }

    #[test]
    fn a_page_that_was_read_does_not_replace_what_was_written_since() {
        let followed = Arc::new(Followed::default());
        let mut following = Following::new(followed.clone(), None);
        followed.advance(EntryId::new(3, 0), 3);
        let old = page(3, &[4]);
        followed.publish_written(vec![entry(4)], 1000);
        followed.publish_written(vec![entry(5)], 1000);
        followed.publish_read(&old, Some(Arc::new(page(3, &[4]))));
        let told = following.take().unwrap().unwrap();
        assert_eq!((told.after.major, told.end().major), (3, 5), "the first was not taken, and comes again");
        let newer = page(4, &[5, 6]);
        followed.publish_read(&newer, Some(Arc::new(page(4, &[5, 6]))));
        assert_eq!(following.take().unwrap().unwrap().entries.len(), 2);
        assert_eq!(followed.reached(), Some(EntryId::new(6, 0)));
    }

    #[test]
    fn a_follower_that_was_not_woken_for_some_entries_needs_no_read() {
        let followed = Arc::new(Followed::default());
        let mut following = Following::new(followed.clone(), None);
        followed.advance(EntryId::new(1, 0), 1);
        for last in 2..40 {
            followed.publish_written(vec![entry(last)], 1000);
            let told = following.take().unwrap().unwrap();
            let first = told.after.major;
            assert_eq!(first, last.saturating_sub(SENT_AGAIN as u64 + 1).max(1));
            let ids: Vec<u64> = told.entries.iter().map(|entry| entry.id.major).collect();
            assert_eq!(ids, (first + 1..=last).collect::<Vec<_>>());
        }
    }
}
