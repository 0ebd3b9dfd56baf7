//! The events of a step, as entries of the run's event stream. A commit has many entries, nearly all with one or two
//! events, so all events are in one list whose buffer is reused.

use crate::order::events::Event;

/// Entries of an event stream, each with one or more events.
#[derive(Debug, Default)]
pub struct Entries {
    events: Vec<Event>,
    /// The end of each entry in `events`.
    ends: Vec<usize>,
}

impl Entries {
    /// Adds an event to the open entry.
    pub(crate) fn push(&mut self, event: Event) {
        self.events.push(event);
    }
    /// Makes one entry from the events since the last call, if there are any.
    pub(crate) fn close(&mut self) {
        let end = self.events.len();
        if self.ends.last().copied().unwrap_or(0) < end {
            self.ends.push(end);
        }
    }
    /// Iterates over the entries, each with its events.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[Event]> {
        let begin_of = |at: usize| at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.ends.iter().enumerate().map(move |(at, end)| &self.events[begin_of(at)..*end])
    }
    /// All events, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }
    /// True when there is no closed entry.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
    /// Adds the entries of a later step.
    pub(crate) fn append(&mut self, later: Self) {
        debug_assert_eq!(self.ends.last().copied().unwrap_or(0), self.events.len(), "an entry is still open");
        let before = self.events.len();
        self.events.extend(later.events);
        self.ends.extend(later.ends.into_iter().map(|end| before + end));
    }
    /// Removes all events and keeps the buffers.
    pub(crate) fn clear(&mut self) {
        self.events.clear();
        self.ends.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::events::EventKind;
    use tidemill_base::clock::Timestamp;
    use tidemill_workflow::graph::EdgeIx;

    fn event(seq: u64) -> Event {
        Event { seq, at: Timestamp::from_millis(1), kind: EventKind::GraphEdgeSkipped(EdgeIx(0)) }
    }
    fn numbers(entries: &Entries) -> Vec<Vec<u64>> {
        entries.iter().map(|entry| entry.iter().map(|event| event.seq).collect()).collect()
    }

    #[test]
    fn an_entry_has_the_events_since_the_one_before() {
        let mut entries = Entries::default();
        entries.close();
        assert!(entries.is_empty() && numbers(&entries).is_empty());
        for seq in [1, 2, 0, 3, 0, 0] {
            if seq == 0 { entries.close() } else { entries.push(event(seq)) }
        }
        assert_eq!(numbers(&entries), [vec![1, 2], vec![3]]);
        let mut later = Entries::default();
        later.push(event(4));
        later.close();
        entries.append(later);
        entries.append(Entries::default());
        assert_eq!((numbers(&entries), entries.events().len()), (vec![vec![1, 2], vec![3], vec![4]], 4));
        entries.clear();
        assert!(entries.is_empty() && entries.events().is_empty());
    }
}
