//! Tells followers of this process what its own commits have written, without a read: the events are at hand, and their
//! entries have numbers that the commit has chosen. Other processes learn about them by the tick, whose mark lets this
//! process pass over it.

use std::sync::Arc;

use super::follow::{Followers, PAGE_BYTES_MAX};
use crate::store::Commit;
use tidemill_base::ids::EntryId;
use tidemill_wire::commit::RunWrite;
use tidemill_wire::entry::EventEntry;

impl Followers {
    /// Hands the events of a commit that succeeded to the followers of its runs.
    pub(super) fn tell(&self, commit: &Commit) {
        if self.are_none() {
            return;
        }
        for write in commit.writes.iter().filter(|write| write.entries.iter().len() > 0) {
            let Some(followed) = self.of(write.run) else { continue };
            match entries(write, commit.number) {
                // The short form of a question is completed when it is read.
                Some(entries) if !entries.iter().any(|entry| entry.is_short()) => {
                    followed.publish_written(entries, PAGE_BYTES_MAX);
                }
                Some(_) | None => followed.publish(None),
            }
        }
    }

    /// Lets the followers of its runs look themselves, after a commit of which nobody knows whether it succeeded.
    pub(super) fn wake(&self, commit: &Commit) {
        for write in &commit.writes {
            self.of(write.run).into_iter().for_each(|followed| followed.publish(None));
        }
    }
}

/// The entries as a read would return them.
fn entries(write: &RunWrite, number: u64) -> Option<Vec<Arc<EventEntry>>> {
    let entries = write.entries.iter().enumerate().map(|(index, entry)| {
        let events = entry.map(|(kind, text)| (kind.to_string(), text.to_string()));
        EventEntry::read(EntryId::new(number, index as u64), events).map(Arc::new)
    });
    // They were written a moment ago by the same version, so they can be read.
    entries.collect::<Result<_, _>>().ok()
}
