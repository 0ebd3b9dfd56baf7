//! Writes to variables that belong to other nodes or to the conversation, and the operations that items of an iteration
//! leave for the frame around them.

use tidemill_base::value::{BlobRef, Stored, blob_text};
use tidemill_workflow::nodes::ChangeKind;
use uuid::Uuid;

use crate::state::run::json_size;

/// A write to a variable.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The namespace: a node's id, or `conversation` and the like.
    pub node: String,
    pub name: String,
    /// The new value.
    pub value: Stored,
    /// The operations that made the value from the one before; `None` when it was written whole.
    pub changes: Option<ChangeLog>,
}

impl Update {
    /// A write that replaces the value.
    pub fn whole(node: String, name: String, value: Stored) -> Self {
        Self { node, name, value, changes: None }
    }
}

/// An operation with its operand. The operand is null where there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub kind: ChangeKind,
    pub operand: Stored,
}

/// Operations on one variable, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChangeLog(Vec<LogEntry>);

/// A part of a log.
#[derive(Debug, Clone, PartialEq)]
pub enum LogEntry {
    One(Change),
    /// Many operations as one blob: a list of [`tidemill_workflow::nodes::VariableChange::list`].
    Page(BlobRef),
}

/// The bytes that an operation takes besides its operand, as an estimate.
const CHANGE_BYTES: usize = 32;

impl ChangeLog {
    /// A log of these entries.
    pub fn new(entries: Vec<LogEntry>) -> Self {
        Self(entries)
    }

    /// The entries, in order.
    pub fn entries(&self) -> &[LogEntry] {
        &self.0
    }

    /// Adds later operations.
    pub(crate) fn append(&mut self, later: &Self) {
        self.0.extend_from_slice(&later.0);
    }

    /// Estimates the bytes of the log in memory and in the state.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(bytes_of).sum()
    }

    /// Takes the last operations with inline operands out, to be put into a page, when the log has more than `bytes_max`
    /// bytes.
    pub(crate) fn overflow(&mut self, bytes_max: usize) -> Vec<Change> {
        if self.bytes() <= bytes_max {
            return Vec::new();
        }
        let first = self.0.iter().rposition(|entry| !is_inline(entry)).map_or(0, |last| last + 1);
        let one = |entry| match entry {
            LogEntry::One(change) => Some(change),
            LogEntry::Page(_) => None,
        };
        self.0.drain(first..).filter_map(one).collect()
    }

    /// Adds a page.
    pub(crate) fn push_page(&mut self, page: BlobRef) {
        self.0.push(LogEntry::Page(page));
    }
}

fn is_inline(entry: &LogEntry) -> bool {
    matches!(entry, LogEntry::One(Change { operand: Stored::Inline(_), .. }))
}

fn bytes_of(entry: &LogEntry) -> usize {
    match entry {
        LogEntry::One(Change { operand: Stored::Inline(operand), .. }) => {
            CHANGE_BYTES + json_size(&operand.value)
        }
        LogEntry::One(_) | LogEntry::Page(_) => 3 * CHANGE_BYTES,
    }
}

/// The writes of an item to a conversation variable.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// It has replaced the value, so nothing before counts.
    Whole,
    /// It has applied operations to the value that it saw.
    Changed {
        log: ChangeLog,
        /// The [`fingerprint`] of the value before the first operation.
        base: String,
    },
}

/// Operations of closed items on a conversation variable that could not be applied in a step, because a value must be
/// loaded for it. They are applied when the iteration ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    pub log: ChangeLog,
    /// The variable as the last of these items saw it. It counts when the operations cannot be applied.
    pub view: Stored,
    /// The variable was written after the job that applies the operations was ordered.
    pub stale: bool,
}

/// A text that is equal for equal values. A blob has only its id, so two blobs with equal content differ.
pub fn fingerprint(stored: &Stored) -> String {
    match stored {
        Stored::Inline(segment) => {
            Uuid::new_v5(&Uuid::NAMESPACE_OID, blob_text(&segment.value).as_bytes()).simple().to_string()
        }
        Stored::Blob(blob) => format!("blob {}", blob.id),
        Stored::Item { list, at } => format!("blob {}/{at}", list.id),
        Stored::Secret(name) => format!("secret {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tidemill_base::ids::BlobId;
    use tidemill_base::value::{Segment, SegmentType};

    fn one(operand: Stored) -> LogEntry {
        LogEntry::One(Change { kind: ChangeKind::Append, operand })
    }
    fn inline(text: &str) -> Stored {
        Stored::Inline(Segment::string(text))
    }
    fn blob(id: &str) -> BlobRef {
        BlobRef { id: BlobId::from(id), ty: SegmentType::String, size: 9_000, len: None }
    }

    #[test]
    fn a_log_that_is_too_large_gives_up_its_last_inline_operations() {
        let mut log = ChangeLog::new(vec![one(inline("a")), one(Stored::Blob(blob("b"))), one(inline("c"))]);
        assert_eq!(log.overflow(1_000), []);
        log.append(&ChangeLog::new(vec![one(inline(&"d".repeat(2_000)))]));
        let taken: Vec<_> = log.overflow(1_000).into_iter().map(|change| change.operand).collect();
        assert_eq!(taken, [inline("c"), inline(&"d".repeat(2_000))]);
        log.push_page(blob("p"));
        let left = [one(inline("a")), one(Stored::Blob(blob("b"))), LogEntry::Page(blob("p"))];
        assert_eq!(log.entries(), left);
    }

    #[test]
    fn equal_values_have_equal_fingerprints_and_others_do_not() {
        let of = |value| fingerprint(&Stored::Inline(Segment::infer(value)));
        assert_eq!(of(json!(["a", 1])), of(json!(["a", 1])));
        let all = [
            of(json!([])),
            of(json!(["a"])),
            of(json!("a")),
            fingerprint(&Stored::Blob(blob("a"))),
            fingerprint(&Stored::Blob(blob("b"))),
            fingerprint(&Stored::Item { list: blob("a"), at: 0 }),
            fingerprint(&Stored::Secret("a".into())),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
