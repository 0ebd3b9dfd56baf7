//! The `loop` node: a body repeated until a condition holds. This module holds the configuration, the initial
//! variables, and the break condition. The state machine runs the rounds.

mod variables;

use super::condition::{ConditionGroup, Logical};
use super::fields::set;
use super::{NodeResult, SOURCE_HANDLE};
use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields};
use tidemill_base::failure::NodeFailure;
use tidemill_base::ids::NodeId;
use tidemill_base::value::{JsonMap, Segment, SegmentType, Variables};

pub use variables::LoopVariable;
use variables::WithOwn;

/// The handle of a loop that breaks. It is a signal to the state machine; no edge has it.
pub const BREAK_HANDLE: &str = "break";

/// Configuration of `loop`.
#[derive(Debug, Clone)]
pub struct LoopData {
    /// The node that begins each round.
    pub start: NodeId,
    /// Most rounds.
    pub count: u32,
    /// The loop's variables, in the order of initialisation.
    pub variables: Vec<LoopVariable>,
    /// The break conditions; without conditions it never breaks.
    pub breaks: ConditionGroup,
}

impl LoopData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let fields = Fields::new(data, BUILD_FAILED);
        let start = fields.id("start_node_id", problems);
        let count = match data.get("loop_count") {
            Some(_) => fields.integer("loop_count", 1, 1, problems),
            None => {
                fields.wrong("loop_count", "a whole number of at least 1", problems);
                None
            }
        };
        let known = [Logical::And, Logical::Or];
        let logical = fields.one_of("logical_operator", &known.map(Logical::name), problems);
        let logical = logical.and_then(|name| known.into_iter().find(|logical| logical.name() == name));
        let breaks = problems.within("break_conditions", |problems| {
            // An invalid operator still lets us report problems of the conditions.
            ConditionGroup::parse(logical.unwrap_or_default(), data.get("break_conditions"), problems)
        });
        let variables = variables::parse(&fields, problems);
        logical?;
        Some(Self {
            start: start?.into(),
            count: u32::try_from(count?).unwrap_or(u32::MAX),
            variables: variables?,
            breaks: breaks?,
        })
    }

    /// Adds the variables that the node itself reads, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        for variable in &self.variables {
            variable.mentions(into);
        }
        self.breaks.mentions(into);
    }

    /// The initial values of the loop's variables as outputs, and whether it breaks before the first round. A condition
    /// that cannot be decided yet does not hold; one that never could fails the node.
    pub(super) fn open(&self, node: &str, variables: &dyn Variables) -> NodeResult {
        let count = Segment::new(SegmentType::Integer, self.count.into());
        let mut inputs = vec![("loop_count".to_owned(), count)];
        let mut own = WithOwn::new(node, variables);
        for variable in &self.variables {
            // A variable can start with the value of an earlier one.
            match variable.first_value(&own) {
                Ok(value) => {
                    set(&mut inputs, variable.label(), value.clone());
                    set(&mut own.values, variable.label(), value);
                }
                Err(message) => return NodeResult::failed(NodeFailure::escaped(message)),
            }
        }
        let breaks = match self.holds(&own) {
            Err(message) if is_type_error(&message) => {
                return NodeResult::failed(NodeFailure::new("TypeError", message));
            }
            decided => decided == Ok(true),
        };
        NodeResult { inputs, outputs: own.values, handle: handle(breaks), ..NodeResult::default() }
    }

    /// Checks if the loop breaks after a round. A condition that cannot be decided now fails the loop, with an empty
    /// class as on Dify.
    pub(super) fn check(&self, variables: &dyn Variables) -> NodeResult {
        match self.holds(variables) {
            Ok(breaks) => NodeResult { handle: handle(breaks), ..NodeResult::default() },
            Err(message) => NodeResult::failed(NodeFailure::new("", message)),
        }
    }

    /// Unlike an empty case of an if-else, no conditions never hold.
    fn holds(&self, variables: &dyn Variables) -> Result<bool, String> {
        if self.breaks.conditions.is_empty() {
            return Ok(false);
        }
        self.breaks.evaluate(variables).map(|outcome| outcome.result)
    }
}

fn handle(breaks: bool) -> String {
    if breaks { BREAK_HANDLE.into() } else { SOURCE_HANDLE.into() }
}

/// True for errors of conditions that are `TypeError` in Python. The others are `ValueError`, which Dify ignores before
/// the first round. Only the text distinguishes them.
fn is_type_error(message: &str) -> bool {
    message == "Invalid actual value type: string"
        || message.starts_with("Expected value must be a string ")
        || message.starts_with("unexpected value: type=")
}

#[cfg(test)]
mod tests;
