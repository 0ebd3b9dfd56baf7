//! The `assigner` node: writes variables of other nodes or of the conversation. There are two versions of the
//! configuration: one variable ([`v1`]), or a list of operations ([`v2`]).
//!
//! The evaluation writes nothing. Its result lists the writes: each variable once, with its final value. A node that
//! fails in the middle writes nothing.

mod arithmetic;
mod change;
mod operand;
mod operation;
mod record;
mod v1;
mod v2;
mod working;

#[cfg(test)]
mod tests;

use super::NodeResult;
use super::condition::secrets::Secrets;
use crate::dsl::Problems;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::{JsonMap, Segment, Selector, Variables};

pub use change::{ChangeKind, VariableChange};
use v1::Assignment;
use v2::Items;
use working::Working;

/// Configuration of `assigner`.
#[derive(Debug, Clone)]
pub struct AssignerData {
    version: Version,
}

#[derive(Debug, Clone)]
enum Version {
    One(Assignment),
    Two(Items),
}

/// The reason for writing nothing. Dify treats the two differently.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Refusal {
    /// A failure reported by the node: it has no class, and the record keeps the inputs.
    Returned(String),
    /// An exception that leaves the node.
    Escaped(String),
}

impl AssignerData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used. `items` means
    /// version 2; without them the target field means version 1; only then `version` counts.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let says_two = data.get("version").and_then(serde_json::Value::as_str) == Some("2");
        let is_two = data.contains_key("items") || (says_two && !data.contains_key(v1::TARGET_KEY));
        let version = if is_two {
            Version::Two(Items::parse(data, problems)?)
        } else {
            Version::One(Assignment::parse(data, problems)?)
        };
        Some(Self { version })
    }

    /// Adds the variables that the configuration mentions, targets and sources, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        match &self.version {
            Version::One(assignment) => assignment.mentions(into),
            Version::Two(items) => items.mentions(into),
        }
    }

    /// The selectors that the node can write, in file order; one can appear twice. A response that shows one of them
    /// waits for the node.
    pub fn targets(&self) -> impl Iterator<Item = &Selector> {
        let (one, items) = match &self.version {
            Version::One(assignment) => (Some(assignment.target()), None),
            Version::Two(items) => (None, Some(items.targets())),
        };
        one.into_iter().chain(items.into_iter().flatten())
    }

    /// The writes that replace a value, in file order: the place in the node's data, the target, and the name of the
    /// operation. All others are operations on the value that is there.
    pub(crate) fn replacing(&self) -> Vec<(String, &Selector, &'static str)> {
        match &self.version {
            Version::One(assignment) => {
                let named = assignment.replaces();
                named.map(|name| ("write_mode".into(), assignment.target(), name)).into_iter().collect()
            }
            Version::Two(items) => {
                let items = items.replacing();
                items.map(|(at, target, name)| (format!("items[{at}].operation"), target, name)).collect()
            }
        }
    }

    /// Runs the node. The writes are in the result's `updates`; there are no outputs.
    pub fn evaluate(&self, variables: &dyn Variables) -> NodeResult {
        let mut mentions = Vec::new();
        self.mentions(&mut mentions);
        let secrets = Secrets::among(&mentions, variables);
        let mut working = Working::over(variables);
        let ran = match &self.version {
            Version::One(assignment) => {
                assignment.run(&mut working).map(|value| vec![("value".to_owned(), value)])
            }
            Version::Two(items) => items.run(&mut working).map(|()| items.declared().to_vec()),
        };
        match ran {
            Ok(inputs) => {
                let updates = working.into_updates();
                let process_data = match &self.version {
                    Version::One(_) => record::updated(JsonMap::new(), &updates, &secrets),
                    Version::Two(_) => {
                        record::updated(record::finals(&updates, &secrets), &updates, &secrets)
                    }
                };
                NodeResult { inputs, process_data, updates, ..NodeResult::default() }
            }
            Err(Refusal::Returned(message)) => NodeResult {
                inputs: self.declared(),
                ..NodeResult::failed(NodeFailure::new("", secrets.hide(message)))
            },
            Err(Refusal::Escaped(message)) => NodeResult::failed(NodeFailure::escaped(secrets.hide(message))),
        }
    }

    /// The inputs in the record of a failure.
    fn declared(&self) -> Vec<(String, Segment)> {
        match &self.version {
            Version::One(_) => Vec::new(),
            Version::Two(items) => items.declared().to_vec(),
        }
    }
}
