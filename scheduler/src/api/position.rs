//! Where a follower is in the events of its run. Pure: [`super::events`] reads the store, and the simulator follows runs
//! through fail-overs with the same rules.
//!
//! A read begins with the entry that the follower had last. If another one comes first, something that was sent to the
//! client is not there any more. Between two entries the numbers of the events show that none is missing.

use tidemill_common::ids::EntryId;
use tidemill_common::wire::entry::EventEntry;

use super::events::After;

/// A place in the events of a run.
#[derive(Debug, Clone)]
pub struct Position {
    after: After,
    /// True once the entry that the client named has come by.
    is_found: bool,
    /// The last returned entry, and the number of its last event.
    last: Option<(EntryId, u64)>,
    /// The number that the next event must have, if known.
    next_seq: Option<u64>,
    /// After a reset the rest may have gaps, which are expected.
    forgives_gaps: bool,
    is_caught_up: bool,
}

/// What an entry is for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It comes after the client's position.
    New,
    /// It comes before the client's position.
    Old,
    /// Events before it are missing: the client must begin again.
    Broken,
}

impl Position {
    /// The position of a client that wants the events after this.
    pub fn new(after: After) -> Self {
        Self {
            after,
            is_found: !matches!(after, After::Entry(_)),
            last: None,
            next_seq: (after == After::Start).then_some(1),
            forgives_gaps: false,
            is_caught_up: false,
        }
    }

    /// The last returned entry and the number of its last event; `None` before the first.
    pub fn last(&self) -> Option<(EntryId, u64)> {
        self.last
    }

    /// The last returned entry.
    pub fn reached(&self) -> EntryId {
        self.last.map_or(EntryId::ZERO, |(entry, _)| entry)
    }

    /// All earlier events were returned; the next ones are live.
    pub fn is_caught_up(&self) -> bool {
        self.is_caught_up
    }

    /// The entry after which a read has to begin, so that it begins with the last returned entry.
    pub fn read_after(&self) -> EntryId {
        self.last.map_or(EntryId::ZERO, |(entry, _)| before(entry))
    }

    /// Takes the entry with which a read began. Returns false if it should have been the last returned entry and is not.
    pub fn begins_with_last<T: AsRef<EventEntry>>(&self, read: &mut impl Iterator<Item = T>) -> bool {
        let Some(last) = self.last else { return true };
        let first = read.next();
        first.is_some_and(|first| (first.as_ref().id, first.as_ref().last_seq()) == last)
    }

    /// Goes past the next entry. After [`Step::Broken`] it has not moved.
    pub fn step(&mut self, events: &EventEntry) -> Step {
        let id = events.id;
        let is_old = match self.after {
            After::Start => false,
            After::Now => !self.is_caught_up,
            After::Entry(wanted) => {
                self.is_found |= id == wanted;
                id <= wanted
            }
        };
        if !is_old && (!self.is_found || self.has_gap(events)) {
            return Step::Broken;
        }
        self.last = Some((id, events.last_seq()));
        self.next_seq = Some(events.last_seq() + 1);
        if is_old { Step::Old } else { Step::New }
    }

    fn has_gap(&self, events: &EventEntry) -> bool {
        let follows = |(first, _)| self.next_seq.is_none_or(|expected| expected == first);
        !self.forgives_gaps && !events.seqs().is_some_and(follows)
    }

    /// Notes that the end of the stream was reached. Returns false if the entry that the client named did not come by: the
    /// client must begin again.
    pub fn catch_up(&mut self) -> bool {
        if self.is_found {
            self.is_caught_up = true;
            self.forgives_gaps = false;
        }
        self.is_found
    }

    /// Begins again with the first event.
    pub fn restart(&mut self) {
        *self = Self { next_seq: None, forgives_gaps: true, ..Self::new(After::Start) };
    }
}

/// The largest id before this one.
fn before(entry: EntryId) -> EntryId {
    match entry.minor.checked_sub(1) {
        Some(minor) => EntryId::new(entry.major, minor),
        None => EntryId::new(entry.major.saturating_sub(1), u64::MAX),
    }
}
