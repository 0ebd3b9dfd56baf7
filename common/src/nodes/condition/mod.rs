//! Conditions on variables, as `if-else` has them; loops and list filters read and evaluate the same form.
//!
//! Reading is in [`parse`], the operators in [`operator`] and [`compare`], lists of files in [`files`]. A group is
//! parsed once; evaluating it copies values only into the record that Dify keeps of every comparison.

mod boolean;
pub mod compare;
pub mod files;
pub mod operator;
pub(super) mod parse;
pub(in crate::nodes) mod secrets;
#[cfg(test)]
pub(super) mod tests;

use std::borrow::Cow;

use regex::Regex;
use serde_json::Value as Json;

use crate::value::template::{Template, mention};
use crate::value::{JsonMap, Segment, SegmentType, Selector, Variables, pyrepr};

pub use files::{FileCondition, FileConditions};
pub use operator::Operator;
use secrets::Secrets;

/// The problem code of node data that cannot be used.
pub(super) const INVALID_NODE_DATA: &str = crate::dsl::fields::BUILD_FAILED;

/// How conditions are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Logical {
    /// All must hold; true without any.
    #[default]
    And,
    /// One must hold; false without any.
    Or,
}

impl Logical {
    /// The name in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::And => "and",
            Self::Or => "or",
        }
    }
}

/// Conditions and how they are joined.
#[derive(Debug, Clone)]
pub struct ConditionGroup {
    /// How they are joined.
    pub logical: Logical,
    /// The conditions, in the order in which they are tried.
    pub conditions: Vec<Condition>,
}

/// What evaluating a group brought.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupOutcome {
    /// One object per comparison: `actual_value`, `expected_value`, `comparison_operator`. Comparisons of files and
    /// `exists` leave none. Secrets are masked.
    pub records: Vec<Json>,
    /// The answer of every condition that was tried.
    pub results: Vec<bool>,
    /// The answer of the group.
    pub result: bool,
}

/// One condition.
#[derive(Debug, Clone)]
pub struct Condition {
    selector: Selector,
    operator: Operator,
    expected: Expected,
    files: Option<FileConditions>,
    /// A regular expression that is known beforehand, compiled.
    pattern: Option<Regex>,
    /// The condition as Dify writes it into a record.
    declared: Json,
}

/// What a condition compares with.
#[derive(Debug, Clone)]
enum Expected {
    /// Text without references, list of texts, truth value or null.
    Constant(Json),
    /// Text that is rendered first.
    Template { template: Template, mentions: Vec<(String, String)> },
}

impl ConditionGroup {
    /// Tries the conditions in order until the answer is known.
    ///
    /// # Errors
    /// Dify's words: a variable that is missing, or values that the operator cannot compare. Secrets are masked.
    pub fn evaluate(&self, variables: &dyn Variables) -> Result<GroupOutcome, String> {
        let decisive = self.logical == Logical::Or;
        let mut outcome = GroupOutcome::default();
        for condition in &self.conditions {
            let held = condition.evaluate(variables, &mut outcome.records)?;
            outcome.results.push(held);
            if held == decisive {
                outcome.result = decisive;
                return Ok(outcome);
            }
        }
        outcome.result = !decisive;
        Ok(outcome)
    }

    /// Adds the variables that the conditions mention, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        for condition in &self.conditions {
            mention(&condition.selector, into);
            if let Expected::Template { mentions, .. } = &condition.expected {
                into.extend_from_slice(mentions);
            }
        }
    }

    /// The conditions as Dify writes them into a record.
    pub fn declared(&self) -> Vec<Json> {
        self.conditions.iter().map(|condition| condition.declared.clone()).collect()
    }
}

impl Condition {
    fn evaluate(&self, variables: &dyn Variables, records: &mut Vec<Json>) -> Result<bool, String> {
        // What is asked for is never a blob here; if it were, it would not be known any better than a missing one.
        let Some(actual) = variables.found(&self.selector) else {
            return Err(format!("Variable {} not found", pyrepr::repr_texts(&self.selector)));
        };
        match self.operator {
            Operator::Contains | Operator::NotContains | Operator::AllOf
                if actual.ty == SegmentType::ArrayFile =>
            {
                let files = self.files.as_ref().ok_or("Sub variable is required")?;
                files.evaluate(actual.value.as_array().map_or(&[], Vec::as_slice))
            }
            Operator::Exists | Operator::NotExists => compare::holds(self.operator, &actual, &Json::Null),
            Operator::Contains
            | Operator::NotContains
            | Operator::AllOf
            | Operator::StartWith
            | Operator::EndWith
            | Operator::Is
            | Operator::IsNot
            | Operator::Empty
            | Operator::NotEmpty
            | Operator::In
            | Operator::NotIn
            | Operator::Equal
            | Operator::NotEqual
            | Operator::Greater
            | Operator::Less
            | Operator::GreaterOrEqual
            | Operator::LessOrEqual
            | Operator::Null
            | Operator::NotNull
            | Operator::RegexMatch => self.compare(&actual, variables, records),
        }
    }

    /// Renders and converts what is expected, leaves a record and applies the operator.
    fn compare(
        &self,
        actual: &Segment,
        variables: &dyn Variables,
        records: &mut Vec<Json>,
    ) -> Result<bool, String> {
        let (mut expected, secrets) = match &self.expected {
            Expected::Constant(value) => (Cow::Borrowed(value), Secrets::default()),
            Expected::Template { template, mentions } => (
                Cow::Owned(Json::String(template.render_text(variables))),
                Secrets::among(mentions, variables),
            ),
        };
        if matches!(actual.ty, SegmentType::Boolean | SegmentType::ArrayBoolean) {
            expected = Cow::Owned(boolean::converted(&expected).map_err(|error| secrets.hide(error))?);
        }
        records.push(self.record(actual, &expected, &secrets));
        let held = if self.operator == Operator::RegexMatch {
            compare::matches(&actual.value, &expected, self.pattern.as_ref())
        } else {
            compare::holds(self.operator, actual, &expected)
        };
        held.map_err(|error| secrets.hide(error))
    }

    fn record(&self, actual: &Segment, expected: &Json, secrets: &Secrets) -> Json {
        let shown = if actual.ty == SegmentType::Secret {
            Json::String(actual.log().into_owned())
        } else {
            actual.value.clone()
        };
        let expected = match expected {
            Json::String(text) => Json::String(secrets.hide(text.clone())),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
                expected.clone()
            }
        };
        Json::Object(JsonMap::from_iter([
            ("actual_value".into(), shown),
            ("expected_value".into(), expected),
            ("comparison_operator".into(), self.operator.name().into()),
        ]))
    }
}
