//! Message lists. Messages are only ever added; an operation decides which of them are visible, and in which
//! order. So hidden messages can be made visible again.

use std::collections::VecDeque;

use serde_json::{Value as Json, json};

use super::change::ListChange;
use super::{Message, MessageError, MessageLimits, StoredMessage, select};
use crate::usage::Usage;
use tidemill_base::ids::ExecutionId;

/// Number of executions that a list remembers as authors of its changes.
const APPLIED_HELD: usize = 16;

/// A message list; see the module.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MessageList {
    /// All messages, in the order in which they were added.
    pub messages: Vec<StoredMessage>,
    pub index: Index,
}

/// The data of a list without its messages. It is small and written with each change; messages are written
/// once.
#[derive(Debug, Clone, PartialEq)]
pub struct Index {
    /// The number of changes so far.
    pub version: u64,
    /// The number of messages.
    pub count: u32,
    /// The visible messages, by index among all messages.
    pub visible: Vec<u32>,
    /// The batches; the last is the current one.
    pub batches: Vec<Batch>,
    /// The approximate size of all messages in bytes.
    pub bytes: usize,
    /// Tokens that models have used for the list, in the current batch and those before it.
    pub current: TokenSum,
    /// Tokens that models have used for the list, including batches that were rolled back.
    pub lifetime: TokenSum,
    /// The last executions that changed the list, each with the version that it made.
    pub applied: VecDeque<(ExecutionId, u64)>,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            version: 0,
            count: 0,
            visible: Vec::new(),
            batches: vec![Batch::default()],
            bytes: 0,
            current: TokenSum::default(),
            lifetime: TokenSum::default(),
            applied: VecDeque::new(),
        }
    }
}

/// The state of a list between two operations that change the visibility.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// The operation that opened the batch; empty for the first.
    pub operation: String,
    /// The execution that opened the batch.
    pub opened_by: Option<ExecutionId>,
    /// The number of messages stored at that time.
    pub boundary: u32,
    /// The messages that were visible at the end of the batch; empty for the current batch.
    pub visible: Vec<u32>,
    /// Tokens used up to the end of the batch.
    pub tokens: TokenSum,
}

/// Token counts, by direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenSum {
    pub prompt: u64,
    pub completion: u64,
    pub total: u64,
}

impl TokenSum {
    fn add(&mut self, usage: &Usage) {
        self.prompt += usage.prompt_tokens;
        self.completion += usage.completion_tokens;
        self.total += usage.total_tokens;
    }
    /// Returns the form that is shown.
    pub fn to_json(&self) -> Json {
        json!({"prompt_tokens": self.prompt, "completion_tokens": self.completion, "total_tokens": self.total})
    }
}

/// Message counts of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// All messages.
    pub original: usize,
    /// Visible messages.
    pub visible: usize,
}

impl Stats {
    /// Returns the form that is shown.
    pub fn to_json(&self) -> Json {
        json!({
            "original_message_count": self.original,
            "visible_message_count": self.visible,
            "invisible_message_count": self.original.saturating_sub(self.visible),
        })
    }
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub operation: &'static str,
    /// The number of visible messages.
    pub message_count: usize,
    pub stats: Stats,
    /// The number of the current batch.
    pub batch: usize,
    /// The indexes of the added messages.
    pub added: std::ops::Range<u32>,
    /// The approximate number of tokens in visible messages.
    pub tokens: u64,
}

/// The index of a list in the form of the design that message lists come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkMap {
    /// The indexes of the visible messages.
    pub original_indices: Vec<u32>,
    /// The number of stored messages when each batch was opened.
    pub batch_boundaries: Vec<u32>,
    /// The batch of each boundary.
    pub boundary_to_batch: Vec<u32>,
    pub current_batch: u32,
}

impl MarkMap {
    /// Returns the form that is shown.
    pub fn to_json(&self) -> Json {
        json!({
            "originalIndices": self.original_indices,
            "batchBoundaries": self.batch_boundaries,
            "boundaryToBatch": self.boundary_to_batch,
            "currentBatch": self.current_batch,
        })
    }
}

impl MessageList {
    /// Creates a list with these messages.
    pub fn beginning(messages: Vec<Message>) -> Self {
        let mut list = Self::default();
        list.index.bytes = messages.iter().map(Message::size).sum();
        list.messages =
            messages.into_iter().map(|message| StoredMessage { message, by: "".into() }).collect();
        list.index.count = list.end();
        list.index.visible = (0..list.end()).collect();
        list
    }

    /// Returns the index of the next message.
    pub fn end(&self) -> u32 {
        u32::try_from(self.messages.len()).unwrap_or(u32::MAX)
    }

    /// Iterates over the visible messages in their order, each with its index.
    pub fn visible(&self) -> impl Iterator<Item = (u32, &StoredMessage)> {
        self.index.visible.iter().filter_map(|idx| Some((*idx, self.messages.get(*idx as usize)?)))
    }

    /// Returns the visible messages in the form that nodes read.
    pub fn to_json(&self) -> Json {
        self.visible().map(|(idx, kept)| kept.to_json(idx)).collect()
    }

    /// Estimates the number of tokens in visible messages.
    pub fn tokens(&self) -> u64 {
        self.visible().map(|(_, kept)| kept.message.tokens()).sum()
    }

    /// Returns the [`MarkMap`].
    pub fn mark_map(&self) -> MarkMap {
        self.index.mark_map()
    }

    /// Returns the message counts.
    pub fn stats(&self) -> Stats {
        Stats { original: self.messages.len(), visible: self.index.visible.len() }
    }

    /// True when an execution is known to have changed the list.
    pub fn has_applied(&self, execution: &ExecutionId) -> bool {
        self.index.applied.iter().any(|(known, _)| known == execution)
    }

    /// Hides the messages of some nodes, as a separate batch.
    pub fn hide(&mut self, is_gone: impl Fn(&str) -> bool) -> bool {
        let stays = |idx: &u32| self.messages.get(*idx as usize).is_none_or(|kept| !is_gone(&kept.by));
        let left: Vec<u32> = self.index.visible.iter().copied().filter(stays).collect();
        let changes = left.len() < self.index.visible.len();
        if changes {
            let end = self.end();
            self.index.open_batch("rewind", None, end, left);
            self.index.version += 1;
        }
        changes
    }

    /// Estimates its size in memory, in bytes.
    pub fn size_estimate(&self) -> usize {
        let batches: usize = self.index.batches.iter().map(|batch| 96 + batch.visible.len() * 4).sum();
        self.index.bytes + self.messages.len() * 64 + self.index.visible.len() * 4 + batches
    }

    /// Applies a change by a node's execution. On an error nothing changes.
    ///
    /// # Errors
    /// The position or batch does not exist, or a limit is exceeded.
    pub fn apply(
        &mut self,
        name: &str,
        change: &ListChange,
        by: (&str, &ExecutionId),
        limits: &MessageLimits,
    ) -> Result<Outcome, MessageError> {
        let (first, boundary) = (self.end(), self.end());
        let next = self.next_visible(change)?;
        let added: &[Message] = match change {
            ListChange::Append(messages) | ListChange::Insert { messages, .. } => messages,
            ListChange::Replace { message, .. } => std::slice::from_ref(message),
            ListChange::Truncate { .. }
            | ListChange::Clear { .. }
            | ListChange::Filter { .. }
            | ListChange::StartBatch { .. }
            | ListChange::Rollback { .. } => &[],
        };
        self.check(name, added, &next, limits)?;
        self.index.bytes += added.iter().map(Message::size).sum::<usize>();
        self.messages
            .extend(added.iter().map(|message| StoredMessage { message: message.clone(), by: by.0.into() }));
        match next {
            Next::SameBatch => self.index.visible.extend(first..self.end()),
            Next::NewBatch(visible) => self.index.open_batch(change.name(), Some(*by.1), boundary, visible),
            Next::Back(target) => self.index.go_back(target),
        }
        self.index.version += 1;
        self.index.count = self.end();
        let stats = self.stats();
        Ok(Outcome {
            operation: change.name(),
            message_count: stats.visible,
            stats,
            batch: self.index.batches.len() - 1,
            added: first..self.end(),
            tokens: self.tokens(),
        })
    }

    /// Records the execution that made the current version.
    pub fn note(&mut self, execution: ExecutionId) {
        self.index.applied.push_back((execution, self.index.version));
        while self.index.applied.len() > APPLIED_HELD {
            self.index.applied.pop_front();
        }
    }

    /// Adds the tokens that a model has used for the list.
    pub fn count(&mut self, usage: &Usage) {
        self.index.current.add(usage);
        self.index.lifetime.add(usage);
    }

    /// Undoes the changes since `index` was copied.
    pub fn restore(&mut self, index: Index) {
        self.messages.truncate(index.count as usize);
        self.index = index;
    }

    /// Returns the visible messages after a change; indexes from [`Self::end`] on are those of added
    /// messages.
    fn next_visible(&self, change: &ListChange) -> Result<Next, MessageError> {
        let base = |visible_only: bool| -> Vec<u32> {
            if visible_only { self.index.visible.clone() } else { (0..self.end()).collect() }
        };
        Ok(match change {
            ListChange::Append(_) | ListChange::Insert { position: -1, .. } => Next::SameBatch,
            ListChange::Truncate { by, visible_only } => {
                Next::NewBatch(select::truncate(base(*visible_only), by, &self.messages))
            }
            ListChange::Filter { by, visible_only } => {
                Next::NewBatch(select::filter(base(*visible_only), by, &self.messages))
            }
            ListChange::Clear { keep_system_message, visible_only } => {
                Next::NewBatch(select::clear(&base(*visible_only), *keep_system_message, &self.messages))
            }
            ListChange::Insert { position, messages, visible_only } => {
                let mut visible = base(*visible_only);
                let visible_count = visible.len();
                let at = usize::try_from(*position).ok().filter(|at| *at <= visible_count);
                let out = MessageError::InsertPositionOutOfRange { position: *position, visible_count };
                let at = at.ok_or(out)?;
                let end = self.end().saturating_add(u32::try_from(messages.len()).unwrap_or(u32::MAX));
                visible.splice(at..at, self.end()..end);
                Next::NewBatch(visible)
            }
            ListChange::Replace { index, visible_only, .. } => {
                let mut visible = base(*visible_only);
                let visible_count = visible.len();
                let place = usize::try_from(*index).ok().and_then(|at| visible.get_mut(at));
                let out = MessageError::VisibleIndexOutOfBounds { index: *index, visible_count };
                *place.ok_or(out)? = self.end();
                Next::NewBatch(visible)
            }
            ListChange::StartBatch { boundary, visible_only } => {
                let count = self.messages.len();
                let is_there = usize::try_from(*boundary).is_ok_and(|at| at <= count);
                if !is_there {
                    return Err(MessageError::InvalidBoundaryIndex { boundary: *boundary, count });
                }
                let mut visible = base(*visible_only);
                visible.retain(|idx| u64::from(*idx) >= *boundary);
                Next::NewBatch(visible)
            }
            ListChange::Rollback { target_batch } => {
                let count = self.index.batches.len();
                let target = usize::try_from(*target_batch).ok().filter(|target| *target < count);
                Next::Back(target.ok_or_else(|| {
                    let available: Vec<String> = (0..count).map(|batch| batch.to_string()).collect();
                    MessageError::TargetBatchNotFound {
                        target: *target_batch,
                        available: available.join(", "),
                    }
                })?)
            }
        })
    }

    fn check(
        &self,
        name: &str,
        added: &[Message],
        next: &Next,
        limits: &MessageLimits,
    ) -> Result<(), MessageError> {
        let list = || name.to_string();
        let count = self.messages.len() + added.len();
        if !added.is_empty() && count as u64 > limits.messages_max {
            return Err(MessageError::ConversationTooLong { list: list(), count, max: limits.messages_max });
        }
        let kept = match next {
            Next::NewBatch(visible) => visible.len() + self.index.visible.len() + self.index.seen(),
            Next::SameBatch | Next::Back(_) => 0,
        };
        let bytes = self.index.bytes + added.iter().map(Message::size).sum::<usize>() + kept * INDEX_BYTES;
        if (!added.is_empty() || kept > 0) && bytes as u64 > limits.messages_bytes_max {
            return Err(MessageError::ConversationTooLarge {
                list: list(),
                bytes,
                max: limits.messages_bytes_max,
            });
        }
        let count = self.index.batches.len() + 1;
        if matches!(next, Next::NewBatch(_)) && count as u64 > limits.messages_max {
            return Err(MessageError::TooManyBatches { list: list(), count, max: limits.messages_max });
        }
        Ok(())
    }
}

/// Approximate bytes of one message index in a batch.
const INDEX_BYTES: usize = 6;

/// The effect of a change on the visible messages.
enum Next {
    /// The added messages become visible at the end.
    SameBatch,
    /// These messages are visible, in a new batch.
    NewBatch(Vec<u32>),
    /// The state of an earlier batch is restored.
    Back(usize),
}

impl Index {
    /// Returns the [`MarkMap`].
    pub fn mark_map(&self) -> MarkMap {
        let numbers = 0..u32::try_from(self.batches.len()).unwrap_or(u32::MAX);
        MarkMap {
            original_indices: self.visible.clone(),
            batch_boundaries: self.batches.iter().map(|batch| batch.boundary).collect(),
            current_batch: numbers.end.saturating_sub(1),
            boundary_to_batch: numbers.collect(),
        }
    }

    /// Returns the batches in the form that is shown.
    pub fn shown_batches(&self) -> Json {
        let last = self.batches.len().saturating_sub(1);
        let shown = |(number, batch): (usize, &Batch)| {
            json!({
                "batch": number, "operation": batch.operation, "opened_by": batch.opened_by, "boundary": batch.boundary,
                "visible": if number == last { &self.visible } else { &batch.visible },
            })
        };
        self.batches.iter().enumerate().map(shown).collect()
    }

    fn open_batch(
        &mut self,
        operation: &str,
        opened_by: Option<ExecutionId>,
        boundary: u32,
        visible: Vec<u32>,
    ) {
        let left = std::mem::replace(&mut self.visible, visible);
        let tokens = self.current;
        if let Some(batch) = self.batches.last_mut() {
            (batch.visible, batch.tokens) = (left, tokens);
        }
        let operation = operation.to_string();
        self.batches.push(Batch { operation, opened_by, boundary, ..Batch::default() });
    }

    /// Returns how many message indexes all earlier batches hold.
    fn seen(&self) -> usize {
        self.batches.iter().map(|batch| batch.visible.len()).sum()
    }

    fn go_back(&mut self, target: usize) {
        if target + 1 >= self.batches.len() {
            return;
        }
        self.batches.truncate(target + 1);
        if let Some(batch) = self.batches.last_mut() {
            self.visible = std::mem::take(&mut batch.visible);
            self.current = std::mem::take(&mut batch.tokens);
        }
    }
}
