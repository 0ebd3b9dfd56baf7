//! The record of an execution: everything that its end leaves.

use crate::state::NamedValues;
use crate::state::change::Update;
use tidemill_base::value::JsonMap;
use tidemill_base::warning::Warning;
use tidemill_workflow::messages::Effects;
use tidemill_workflow::nodes::{PauseRequest, Usage, Wasted};

/// The result of an execution: everything that its end leaves.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record {
    /// The inputs of the node, for people.
    pub inputs: NamedValues,
    /// Details of the work, for people.
    pub process_data: NamedValues,
    /// The outputs, which become variables.
    pub outputs: NamedValues,
    /// Tokens, prices and so on.
    pub metadata: JsonMap,
    /// The handle of the end; empty means `source`.
    pub handle: String,
    /// The cost of its model calls.
    pub usage: Option<Box<Usage>>,
    /// The cost of a wasted reply, which is not part of `usage`.
    pub wasted: Option<Box<Wasted>>,
    /// The text of the failure; empty for a success.
    pub error: String,
    /// The class of the failure; empty for a success.
    pub error_type: String,
    /// The worker that failed; empty for a success, and where no worker is known.
    pub worker: String,
    /// The least wait before a retry, in milliseconds, if the failure names one.
    pub retry_hint: Option<u64>,
    /// Whether the failure may be temporary. Set only for nodes with the setting `passing_only`.
    pub passing: bool,
    /// Variables that it writes besides its outputs. Applied only with its success.
    pub updates: Vec<Update>,
    /// The question that the node waits for, instead of an end.
    pub pause: Option<Box<PauseRequest>>,
    /// Changes of messages, `rt` and history. Applied with the end, and not part of its event.
    pub effects: Option<Box<Effects>>,
    /// Things that the author may not have meant. The run keeps them, and the event of the end does not have them.
    pub warnings: Vec<Warning>,
    /// The times that a container's frames were open. They are part of the metadata, but have their own field because
    /// an iteration may have ten thousand.
    pub durations: Option<Durations>,
    /// The variables of a loop after each round, by the number of the round (Dify: `loop_variable_map`).
    pub rounds: Vec<(u32, NamedValues)>,
}

/// The times that the frames of a container were open.
#[derive(Debug, Clone, PartialEq)]
pub struct Durations {
    /// The name in the metadata (Dify: `iteration_duration_map`, `loop_duration_map`).
    pub name: &'static str,
    /// Seconds, by the number of the item or round.
    pub seconds: Vec<(u32, f64)>,
}
