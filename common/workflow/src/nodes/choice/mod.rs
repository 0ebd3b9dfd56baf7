//! The `choice` node: chooses a branch by conditions over typed values; the first branch that holds gives the handle.
//! It differs from `if-else`: a condition with an absent or wrongly typed operand is skipped, a branch without
//! remaining conditions is skipped too, and one branch can be the default.
//!
//! [`operator`] compares, [`parse`] reads. A list in `params` comes from the original flow format, which tries the last
//! branch first, so it is reversed on reading.

pub mod operator;
mod parse;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::{Value as Json, json};

use self::operator::Operator;
use super::NodeResult;
use crate::dsl::Problems;
use crate::messages::Effects;
use tidemill_base::value::template::mention;
use tidemill_base::value::{JsonMap, Segment, SegmentType, Selector, Variables};

/// The handle when no branch is chosen; no edge has it.
pub const NOTHING: &str = "__none";

/// Configuration of `choice`.
#[derive(Debug, Clone)]
pub struct ChoiceData {
    /// The branches in the order of evaluation, without the default.
    pub branches: Vec<Branch>,
    /// The handle of the branch taken when no other holds.
    pub default: Option<String>,
}

/// A handle and its conditions.
#[derive(Debug, Clone)]
pub struct Branch {
    pub id: String,
    /// True when one condition is enough.
    pub any: bool,
    /// The conditions. At least one must be decidable for the branch to hold.
    pub conditions: Vec<Condition>,
}

/// A comparison. A part is `None` when the file's value is invalid; then the condition is skipped.
#[derive(Debug, Clone)]
pub struct Condition {
    left: Option<Operand>,
    operator: Option<Operator>,
    right: Option<Operand>,
}

/// An operand of a comparison.
#[derive(Debug, Clone, PartialEq)]
enum Operand {
    /// A variable of another node.
    Variable(Selector),
    /// A value from the file.
    Constant(Json),
}

impl Operand {
    fn value<'a>(&'a self, variables: &'a dyn Variables) -> Option<Cow<'a, Json>> {
        match self {
            Self::Constant(value) => Some(Cow::Borrowed(value)),
            Self::Variable(selector) => variables.found(selector).map(|segment| match segment {
                Cow::Borrowed(segment) => Cow::Borrowed(&segment.value),
                Cow::Owned(segment) => Cow::Owned(segment.value),
            }),
        }
    }
}

impl ChoiceData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        parse::parse(data, problems)
    }

    /// All handles of the node.
    pub fn handles(&self) -> impl Iterator<Item = &str> {
        self.branches.iter().map(|branch| branch.id.as_str()).chain(self.default.as_deref())
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        let conditions = self.branches.iter().flat_map(|branch| &branch.conditions);
        for operand in conditions.flat_map(|condition| [&condition.left, &condition.right]).flatten() {
            if let Operand::Variable(selector) = operand {
                mention(selector, into);
            }
        }
    }

    /// Runs the node.
    pub fn evaluate(&self, variables: &dyn Variables) -> NodeResult {
        let mut tried = Vec::new();
        let mut chosen = None;
        for branch in &self.branches {
            let results: Vec<Option<bool>> =
                branch.conditions.iter().map(|condition| condition.judge(variables)).collect();
            let holds = branch.holds(&results);
            tried.push(json!({"branch_id": branch.id, "results": results, "final_result": holds}));
            if holds {
                chosen = Some(branch.id.as_str());
                break;
            }
        }
        let chosen = chosen.or(self.default.as_deref());
        let branch_id = Segment::new(SegmentType::String, chosen.unwrap_or("").into());
        NodeResult {
            process_data: JsonMap::from_iter([("branches".to_owned(), Json::Array(tried))]),
            outputs: vec![("branch_id".into(), branch_id)],
            handle: chosen.unwrap_or(NOTHING).into(),
            // The history's record is derived from the node's inputs and outputs.
            effects: Some(Box::new(Effects { history: vec![JsonMap::new()], ..Effects::default() })),
            ..NodeResult::default()
        }
    }
}

impl Branch {
    fn holds(&self, results: &[Option<bool>]) -> bool {
        let mut judged = results.iter().flatten().peekable();
        judged.peek().is_some() && if self.any { judged.any(|&held| held) } else { judged.all(|&held| held) }
    }
}

impl Condition {
    /// Returns `None` when the condition cannot be decided.
    fn judge(&self, variables: &dyn Variables) -> Option<bool> {
        let (left, right) = (self.left.as_ref()?.value(variables)?, self.right.as_ref()?.value(variables)?);
        self.operator.as_ref()?.compare(&left, &right)
    }
}
