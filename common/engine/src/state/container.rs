//! The state of an open container.
//!
//! The state has three parts, because they are written at different times: [`BodyState`] with every frame that opens or
//! closes, [`OpenContainer`] once, [`Collected`] once per frame.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::state::NamedValues;
use crate::state::change::Pending;
use crate::state::run::json_size;
use tidemill_base::value::{BlobRef, Stored};
use tidemill_workflow::nodes::Phase;

/// The progress of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyState {
    /// The number of items, or the most rounds.
    pub count: u32,
    /// The number of the next item or round to open.
    pub next: u32,
    /// The number of closed frames.
    pub closed: u32,
    /// The first failure in a frame.
    pub error: Option<Arc<str>>,
    /// The phase that a worker has to evaluate now.
    pub phase: Option<Phase>,
}

impl BodyState {
    /// A container with no frame opened yet.
    pub const fn new(count: u32) -> Self {
        Self { count, next: 0, closed: 0, error: None, phase: None }
    }
    /// A container whose open phase is for a worker.
    pub const fn to_open() -> Self {
        Self { count: 0, next: 0, closed: 0, error: None, phase: Some(Phase::Open) }
    }
    /// The number of open frames.
    pub const fn open(&self) -> u32 {
        self.next.saturating_sub(self.closed)
    }
}

/// The inputs of an open container, and the results of its closed frames.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OpenContainer {
    /// The inputs, as the record of the container shows them.
    pub inputs: NamedValues,
    /// The list to iterate; `None` for a loop.
    pub items: Option<Stored>,
    /// The results of closed frames by their numbers; added with [`OpenContainer::keep`].
    pub collected: BTreeMap<u32, Collected>,
    /// The estimated bytes of `collected`. Not stored, because it is computed again.
    pub bytes: usize,
    /// The next page: a range of adjacent items with inline outputs, and the bytes of these. Not stored either.
    pub at_hand: (Range<u32>, usize),
    /// Operations of closed items on conversation variables that wait for the end of the iteration.
    pub pending: BTreeMap<String, Pending>,
}

impl OpenContainer {
    /// Adds the result of a closed frame.
    pub fn keep(&mut self, index: u32, left: Collected) {
        self.bytes += left.size();
        self.collected.insert(index, left);
        let (items, bytes) = &mut self.at_hand;
        while let Some(left) = self.collected.get(&items.end) {
            items.end += left.items();
            match (&left.page, &left.output) {
                (None, Some((Stored::Inline(segment), _))) => *bytes += json_size(&segment.value),
                (None, None) => {}
                (Some(_), _) | (_, Some((Stored::Blob(_) | Stored::Item { .. } | Stored::Secret(_), _))) => {
                    (items.start, *bytes) = (items.end, 0);
                }
            }
        }
    }

    /// Takes the range of items for the next page, if their outputs have more than `page_bytes` bytes. The range ends
    /// before the first item that is still open or whose output is a blob.
    pub fn next_page(&mut self, page_bytes: usize) -> Option<Range<u32>> {
        let (items, bytes) = &mut self.at_hand;
        if *bytes <= page_bytes {
            return None;
        }
        let page = items.clone();
        (items.start, *bytes) = (items.end, 0);
        Some(page)
    }

    /// Takes the results of these items out, so that a page can replace them.
    pub fn take(&mut self, items: Range<u32>) -> Vec<Collected> {
        let taken: Vec<Collected> = items.filter_map(|index| self.collected.remove(&index)).collect();
        let bytes: usize = taken.iter().map(Collected::size).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        taken
    }

    /// Estimates the bytes of the results and of waiting operations in memory.
    pub(crate) fn size(&self) -> usize {
        self.bytes + self.pending.values().map(|pending| 128 + pending.log.bytes()).sum::<usize>()
    }

    /// The number of frames with a result.
    pub fn closed(&self) -> usize {
        self.collected.values().map(|left| left.items() as usize).sum()
    }
}

/// The result of a closed frame.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Collected {
    /// The output of an item, and the path into this value that a worker still has to follow. `None` when the item
    /// failed.
    pub output: Option<(Stored, Vec<String>)>,
    /// The loop variables after a round.
    pub variables: NamedValues,
    /// The time that the frame was open, in seconds.
    pub seconds: f64,
    /// The page that holds the outputs of this item and of those after it. The other fields are empty then.
    pub page: Option<Box<Page>>,
}

/// Outputs of adjacent items as one blob, so that finished items take no memory in a scheduler.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// A list of [`tidemill_workflow::nodes::iteration::Outcome::entry`].
    pub outputs: BlobRef,
    /// The time that each item was open, in seconds.
    pub seconds: Vec<f64>,
}

impl Collected {
    /// The number of items that this is the result of.
    pub fn items(&self) -> u32 {
        self.page.as_ref().map_or(1, |page| u32::try_from(page.seconds.len()).unwrap_or(u32::MAX))
    }

    fn size(&self) -> usize {
        let size = |stored: &Stored| match stored {
            Stored::Inline(segment) => 64 + json_size(&segment.value),
            Stored::Blob(_) | Stored::Item { .. } | Stored::Secret(_) => 96,
        };
        let page = self.page.as_ref().map_or(0, |page| 96 + page.seconds.len() * size_of::<f64>());
        let variables: usize = self.variables.iter().map(|(name, value)| name.len() + size(value)).sum();
        96 + self.output.as_ref().map_or(0, |(value, _)| size(value)) + variables + page
    }
}
