//! Conditions on the attributes of a list of files: each sub-condition checks all files.

use regex::Regex;
use serde_json::Value as Json;

use super::{Logical, Operator, compare};
use tidemill_base::value::Segment;
use tidemill_base::value::selector::{FILE_ATTRIBUTES, file_attribute};

/// `sub_variable_condition` of a condition.
#[derive(Debug, Clone)]
pub struct FileConditions {
    pub logical: Logical,
    pub conditions: Vec<FileCondition>,
}

/// One sub-condition.
#[derive(Debug, Clone)]
pub struct FileCondition {
    /// The attribute to compare. As on Dify an unknown one fails only on evaluation.
    pub key: String,
    pub operator: Operator,
    /// The expected value: text, list of texts or null; never rendered.
    pub expected: Json,
    pub(super) pattern: Option<Regex>,
}

impl FileConditions {
    /// Evaluates all sub-conditions (no short circuit, so that each can fail) and joins them.
    pub(super) fn evaluate(&self, files: &[Json]) -> Result<bool, String> {
        let mut held = Vec::with_capacity(self.conditions.len());
        for condition in &self.conditions {
            held.push(condition.evaluate(files)?);
        }
        Ok(match self.logical {
            Logical::And => held.iter().all(|held| *held),
            Logical::Or => held.iter().any(|held| *held),
        })
    }
}

impl FileCondition {
    fn evaluate(&self, files: &[Json]) -> Result<bool, String> {
        if !FILE_ATTRIBUTES.contains(&self.key.as_str()) {
            return Err(format!("'{}' is not a valid FileAttribute", self.key));
        }
        let dotted;
        // A regular expression can match the dot itself.
        let expected = if self.key == "extension" && self.operator != Operator::RegexMatch {
            let Json::String(extension) = &self.expected else {
                return Err("Expected value must be a string when key is FileAttribute.EXTENSION".into());
            };
            dotted = Json::String(with_dot(extension));
            &dotted
        } else {
            &self.expected
        };
        let mut passed = 0;
        // All files are checked before the result is known: each of them can fail the condition.
        for file in files {
            passed += usize::from(self.holds_for(file, expected)?);
        }
        Ok(if self.operator.asks_all_files() { passed == files.len() } else { passed > 0 })
    }

    fn holds_for(&self, file: &Json, expected: &Json) -> Result<bool, String> {
        let mut actual = Segment::infer(file_attribute(file, &self.key).unwrap_or(Json::Null));
        if self.key == "extension"
            && let Json::String(extension) = &mut actual.value
        {
            *extension = with_dot(extension);
        }
        if self.operator == Operator::RegexMatch {
            return compare::matches(&actual.value, expected, self.pattern.as_ref());
        }
        compare::holds(self.operator, &actual, expected)
    }
}

/// Adds the dot to an extension. Files write it with or without; both are compared with the dot.
fn with_dot(extension: &str) -> String {
    if extension.is_empty() || extension.starts_with('.') {
        extension.into()
    } else {
        format!(".{extension}")
    }
}
