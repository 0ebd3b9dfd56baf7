//! A body per item of a list. Here: the configuration, what goes in and what comes out. Which items run when, and
//! what they see, is the machine's.

mod collect;

use serde_json::Value as Json;

use super::NodeResult;
use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields};
use crate::failure::NodeFailure;
use crate::ids::NodeId;
use crate::value::pyrepr::{repr, repr_text, repr_texts};
use crate::value::template::mention;
use crate::value::{JsonMap, Segment, SegmentType, Selector, Variables};

pub use collect::Outcome;

/// The name under which a page of outcomes is found; the number of the page follows.
pub const PAGE_PREFIX: &str = "#";
/// The name under which one outcome is found that lies apart; its number among pages and such outcomes follows, and then,
/// a line each, the keys of the way into the value.
pub const APART_PREFIX: &str = "=";

const LANES_DEFAULT: i64 = 10;
/// Most characters of a value that is shown in an error.
const SHOWN_CHARS_MAX: usize = 200;

/// Configuration of `iteration`.
#[derive(Debug, Clone)]
pub struct IterationData {
    /// The child with which every item begins.
    pub start: NodeId,
    /// The list.
    pub iterator: Selector,
    /// What an item brings, read among the variables of the item.
    pub output: Selector,
    /// Most items that run at the same time; 1 unless the node is parallel.
    pub window: u32,
    /// What becomes of items that fail.
    pub errors: ErrorMode,
    /// Lists of lists become one list.
    pub flatten: bool,
}

/// What an item that fails means for the iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorMode {
    /// No further item begins, and the iteration fails (Dify: `terminated`).
    Terminated,
    /// Null in its place (Dify: `continue-on-error`).
    ContinueOnError,
    /// Its place is left out (Dify: `remove-abnormal-output`).
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
    /// Reads `data` of the node; reports what is wrong and returns nothing when it cannot be used.
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

    /// Adds the variables that the node itself reads, as (node, name). What an item brings is read within the item.
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        mention(&self.iterator, into);
    }

    /// The list to run over, as the output `items`; null is an empty list.
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

/// What an iteration over an empty list brings: an empty list of the same type; of null, a list of anything.
pub fn empty_output(ty: SegmentType) -> Segment {
    let ty = if ty.is_array() { ty } else { SegmentType::ArrayAny };
    Segment::new(ty, Json::Array(Vec::new()))
}

/// An item of a list of the given type as a value of its own. Files stay files, also in a list of anything, where
/// only their mark tells them from other objects.
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

/// A value as Dify's error shows it, without the parts that are different in every run; secrets masked.
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
