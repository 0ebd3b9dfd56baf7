//! Branches chosen by conditions over typed values: the first branch that holds names the handle. Unlike `if-else` a
//! condition whose operand is absent or of another type is passed over, a branch without any condition left is passed over
//! too, and one branch may be the default.
//!
//! [`operator`] compares, [`parse`] reads; a list in `params` is that of the original flow format, which is tried from its
//! last branch to its first, and is turned round when it is read.

pub mod operator;
mod parse;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::{Value as Json, json};

use self::operator::Operator;
use super::NodeResult;
use crate::dsl::Problems;
use crate::objects::Effects;
use crate::value::template::mention;
use crate::value::{JsonMap, Segment, SegmentType, Selector, Variables};

/// The handle when nothing is chosen; no edge has it.
pub const NOTHING: &str = "__none";

/// Configuration of `choice`.
#[derive(Debug, Clone)]
pub struct ChoiceData {
    /// The branches in the order in which they are tried, without the default.
    pub branches: Vec<Branch>,
    /// The branch that is taken when none holds.
    pub default: Option<String>,
}

/// A way out, and the conditions for it.
#[derive(Debug, Clone)]
pub struct Branch {
    /// The handle.
    pub id: String,
    /// Whether one condition is enough.
    pub any: bool,
    /// The conditions; at least one of them must be such that it can be judged.
    pub conditions: Vec<Condition>,
}

/// A comparison. None of its parts is there when the file's cannot be used: it is passed over then.
#[derive(Debug, Clone)]
pub struct Condition {
    left: Option<Operand>,
    operator: Option<Operator>,
    right: Option<Operand>,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
enum Operand {
    /// What another node left.
    Variable(Selector),
    /// A value of the file.
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
    /// Reads `data` of the node; reports what is wrong and returns nothing when it cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        parse::parse(data, problems)
    }

    /// Every handle that the node may leave by.
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
            // Its record in the history follows from what it was given and made.
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
    /// None when it cannot be judged.
    fn judge(&self, variables: &dyn Variables) -> Option<bool> {
        let (left, right) = (self.left.as_ref()?.value(variables)?, self.right.as_ref()?.value(variables)?);
        self.operator.as_ref()?.compare(&left, &right)
    }
}
