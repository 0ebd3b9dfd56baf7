//! The state of the streamed answers of a run: which response nodes are reached, and which chunks are held.

use std::collections::BTreeMap;

use tidemill_base::clock::Timestamp;

/// The state of the streamed answers of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResponseState {
    /// Indexes into [`tidemill_workflow::graph::Graph::responses`], in the order in which they were reached.
    pub reached: Vec<usize>,
    /// The number of reached nodes that have been sent completely.
    pub done: usize,
    /// The cursor: an index into the template of the node that streams.
    pub at: usize,
    /// Streamed texts by their selectors.
    pub streams: BTreeMap<String, Stream>,
}

impl ResponseState {
    /// Estimates the bytes of the text that is held.
    pub fn held_bytes(&self) -> usize {
        self.streams.values().map(|s| 96 + s.held.iter().map(|h| h.len() + 24).sum::<usize>()).sum()
    }
}

/// One streamed text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stream {
    /// The attempt that produces the text.
    pub attempt: u32,
    /// The delivery that produces the text.
    pub delivery: u32,
    /// When the worker began. It tells two workers apart that have deliveries of one number: a fail-over lost the delivery to
    /// the first. The default if it is unknown, as in texts of earlier versions.
    pub began: Timestamp,
    /// The number of bytes that have arrived.
    pub length: u64,
    /// True when the cursor has reached the text: from then on, chunks are sent as they arrive.
    pub told: bool,
    /// True when no more text will come, because the job has succeeded or the node has ended. Not earlier: when a
    /// worker dies after its last chunk, the next one produces the text again.
    pub closed: bool,
    /// True when the last chunk was emitted.
    pub ended: bool,
    /// Chunks that came before their turn.
    pub held: Vec<String>,
}
