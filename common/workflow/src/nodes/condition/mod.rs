//! Conditions on variables, used by `if-else`, loops and list filters.
//!
//! [`parse`] reads them, [`operator`] and [`compare`] hold the operators, [`files`] the conditions on lists of files. A
//! group is parsed once. Its evaluation copies values only into Dify's record of the comparisons.

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

use tidemill_base::value::template::{Template, mention};
use tidemill_base::value::{JsonMap, Segment, SegmentType, Selector, Variables, pyrepr};

pub use files::{FileCondition, FileConditions};
pub use operator::Operator;
use secrets::Secrets;

/// The problem code for unusable node data.
pub(super) const INVALID_NODE_DATA: &str = crate::dsl::fields::BUILD_FAILED;

/// The way in which conditions are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Logical {
    /// All must hold; true without conditions.
    #[default]
    And,
    /// One must hold; false without conditions.
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

/// Joined conditions.
#[derive(Debug, Clone)]
pub struct ConditionGroup {
    pub logical: Logical,
    /// The conditions, in the order of evaluation.
    pub conditions: Vec<Condition>,
}

/// The result of evaluating a group.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupOutcome {
    /// One object per comparison: `actual_value`, `expected_value`, `comparison_operator`. Comparisons of files and
    /// `exists` give no record. Secrets are masked.
    pub records: Vec<Json>,
    /// One result per evaluated condition.
    pub results: Vec<bool>,
    /// The result of the group.
    pub result: bool,
}

/// One condition.
#[derive(Debug, Clone)]
pub struct Condition {
    selector: Selector,
    operator: Operator,
    expected: Expected,
    files: Option<FileConditions>,
    /// The compiled regular expression, when it does not depend on variables.
    pattern: Option<Regex>,
    /// The condition in the form of Dify's record.
    declared: Json,
}

/// The expected value of a condition.
#[derive(Debug, Clone)]
enum Expected {
    /// A text without references, a list of texts, a boolean or null.
    Constant(Json),
    /// A text that is rendered first.
    Template { template: Template, mentions: Vec<(String, String)> },
}

impl ConditionGroup {
    /// Evaluates the conditions in order until the result is known.
    ///
    /// # Errors
    /// Dify's message: a variable is missing, or the operator cannot compare the values. Secrets are masked.
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

    /// The conditions in the form of Dify's record.
    pub fn declared(&self) -> Vec<Json> {
        self.conditions.iter().map(|condition| condition.declared.clone()).collect()
    }
}

impl Condition {
    /// An empty list does not show that it is a list of files. "All of" has no list of texts then, so it must not be
    /// asked about one.
    fn is_about_no_files(&self, actual: &Segment) -> bool {
        self.operator == Operator::AllOf && self.files.is_some() && actual.ty.is_array() && actual.is_falsy()
    }

    fn evaluate(&self, variables: &dyn Variables, records: &mut Vec<Json>) -> Result<bool, String> {
        // Blobs are loaded before this; one that is not would count as a missing variable.
        let Some(actual) = variables.found(&self.selector) else {
            return Err(format!("Variable {} not found", pyrepr::repr_texts(&self.selector)));
        };
        match self.operator {
            Operator::Contains | Operator::NotContains | Operator::AllOf
                if actual.ty == SegmentType::ArrayFile || self.is_about_no_files(&actual) =>
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

    /// Renders and converts the expected value, adds a record and applies the operator.
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
