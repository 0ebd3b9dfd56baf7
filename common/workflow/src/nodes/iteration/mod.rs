//! The `iteration` node: runs a body for each item of a list. This module holds the configuration, the input list and
//! the output. The state machine decides which items run when, and which variables they see.

mod collect;
mod merge;

use serde_json::Value as Json;

use super::NodeResult;
use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields};
use tidemill_base::failure::NodeFailure;
use tidemill_base::ids::NodeId;
use tidemill_base::value::pyrepr::{repr, repr_text, repr_texts};
use tidemill_base::value::template::mention;
use tidemill_base::value::{JsonMap, Segment, SegmentType, Selector, Variables};

pub use collect::Outcome;

/// The prefix of a page of outcomes; the page's number follows.
pub const PAGE_PREFIX: &str = "#";
/// The prefix of an outcome stored on its own. Its number in the order of pages and such outcomes follows, and then,
/// one per line, the keys of the path into the value.
pub const BLOB_PREFIX: &str = "=";

/// The prefix of operations on a conversation variable that items have left: their number follows, then, one per line,
/// the variable and perhaps the operation. As the name of an output: the variable's new value, by its name.
pub const CHANGE_PREFIX: &str = "+";
/// The output with the operations that did not fit their variables.
pub const DROPPED_OUTPUT: &str = "-";

const LANES_DEFAULT: i64 = 10;
/// Most characters of a value shown in an error.
const SHOWN_CHARS_MAX: usize = 200;

/// Configuration of `iteration`.
#[derive(Debug, Clone)]
pub struct IterationData {
    /// The node that begins each item.
    pub start: NodeId,
    /// The list.
    pub iterator: Selector,
    /// An item's result, read among the item's variables.
    pub output: Selector,
    /// Most items in flight; 1 unless the node is parallel.
    pub window: u32,
    /// Treatment of failed items.
    pub errors: ErrorMode,
    /// True when a list of lists becomes one list.
    pub flatten: bool,
}

/// The effect of a failed item on the iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorMode {
    /// No further item begins, and the iteration fails (Dify: `terminated`).
    Terminated,
    /// Null in its place (Dify: `continue-on-error`).
    ContinueOnError,
    /// The item is left out of the output (Dify: `remove-abnormal-output`).
    RemoveAbnormal,
}

impl ErrorMode {
    const ALL: [Self; 3] = [Self::Terminated, Self::ContinueOnError, Self::RemoveAbnormal];

    /// Dify's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Terminated => "terminated",
            Self::ContinueOnError => "continue-on-error",
            Self::RemoveAbnormal => "remove-abnormal-output",
        }
    }
}

impl IterationData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let fields = Fields::new(data, BUILD_FAILED);
        let start = fields.id("start_node_id", problems);
        let iterator = fields.selector("iterator_selector", problems);
        let output = fields.selector("output_selector", problems);
        let parallel = fields.boolean("is_parallel", false, problems);
        let lanes = fields.integer("parallel_nums", LANES_DEFAULT, 1, problems);
        let flatten = fields.boolean("flatten_output", true, problems);
        let errors = match data.contains_key("error_handle_mode") {
            false => Some(ErrorMode::Terminated),
            true => {
                let name = fields.one_of("error_handle_mode", &ErrorMode::ALL.map(ErrorMode::name), problems);
                name.and_then(|name| ErrorMode::ALL.into_iter().find(|mode| mode.name() == name))
            }
        };
        let (parallel, lanes) = (parallel?, u32::try_from(lanes?).unwrap_or(u32::MAX));
        Some(Self {
            start: start?.into(),
            iterator: iterator?,
            output: output?,
            window: if parallel { lanes } else { 1 },
            errors: errors?,
            flatten: flatten?,
        })
    }

    /// Adds the variables that the node itself reads, as (node, name). The output of an item is read within the item.
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        mention(&self.iterator, into);
    }

    /// The list to iterate over, as the output `items`; null counts as an empty list.
    pub(super) fn open(&self, variables: &dyn Variables) -> NodeResult {
        let Some(found) = variables.found(&self.iterator) else {
            let message = format!("iterator variable {} not found", repr_texts(&self.iterator));
            return NodeResult::failed(NodeFailure::escaped(message));
        };
        if found.ty != SegmentType::None && !found.ty.is_array() {
            let message = format!("invalid iterator value: {}, please provide a list.", dump(&found));
            return NodeResult::failed(NodeFailure::escaped(message));
        }
        let list = if found.ty.is_array() { found.into_owned() } else { empty_output(found.ty) };
        NodeResult {
            inputs: vec![("iterator_selector".into(), list.clone())],
            outputs: vec![("items".into(), list)],
            ..NodeResult::default()
        }
    }
}

/// The output for an empty list: an empty list of the same type; for null a list of any type.
pub fn empty_output(ty: SegmentType) -> Segment {
    let ty = if ty.is_array() { ty } else { SegmentType::ArrayAny };
    Segment::new(ty, Json::Array(Vec::new()))
}

/// An item of a list of the given type as its own value. Files stay files, also in a list of any type, where only their
/// mark distinguishes them from other objects.
pub fn item(list: SegmentType, value: Json) -> Segment {
    match list {
        SegmentType::ArrayFile => Segment::new(SegmentType::File, value),
        SegmentType::ArrayAny => Segment::restore_files(value),
        SegmentType::None
        | SegmentType::String
        | SegmentType::Secret
        | SegmentType::Integer
        | SegmentType::Float
        | SegmentType::Boolean
        | SegmentType::Object
        | SegmentType::File
        | SegmentType::ArrayString
        | SegmentType::ArrayNumber
        | SegmentType::ArrayObject
        | SegmentType::ArrayBoolean => Segment::infer(value),
    }
}

/// A value in the form of Dify's error, without parts that differ in each run; secrets are masked.
fn dump(segment: &Segment) -> String {
    let value = match segment.ty {
        SegmentType::Secret => repr_text(&segment.log()),
        SegmentType::None
        | SegmentType::String
        | SegmentType::Integer
        | SegmentType::Float
        | SegmentType::Boolean
        | SegmentType::Object
        | SegmentType::File
        | SegmentType::ArrayAny
        | SegmentType::ArrayString
        | SegmentType::ArrayNumber
        | SegmentType::ArrayObject
        | SegmentType::ArrayBoolean
        | SegmentType::ArrayFile => repr(&segment.value),
    };
    let value = match value.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &value[..at]),
        None => value,
    };
    let name = segment.ty.name();
    format!("value_type=<SegmentType.{}: '{name}'> value={value}", name.to_uppercase())
}

#[cfg(test)]
mod tests;
