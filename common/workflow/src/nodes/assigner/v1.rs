//! Version 1: one variable, three modes, and no check that the value fits the variable.

use serde_json::Value as Json;

use super::Refusal;
use super::change::{ChangeKind, VariableChange};
use super::working::Working;
use crate::dsl::Problems;
use crate::nodes::fields::{INVALID_NODE_DATA, required, selector, text};
use tidemill_base::value::coerce::zero_value;
use tidemill_base::value::template::mention;
use tidemill_base::value::{JsonMap, Segment, Selector, Variables};

/// The field that identifies version 1.
pub(super) const TARGET_KEY: &str = "assigned_variable_selector";

/// One assignment.
#[derive(Debug, Clone)]
pub(super) struct Assignment {
    target: Selector,
    mode: WriteMode,
    source: Selector,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteMode {
    OverWrite,
    Append,
    Clear,
}

impl Assignment {
    pub(super) fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let target = required(data, TARGET_KEY, problems, selector);
        let mode = required(data, "write_mode", problems, WriteMode::read);
        let source = required(data, "input_variable_selector", problems, selector);
        Some(Self { target: target?, mode: mode?, source: source? })
    }

    pub(super) fn mentions(&self, into: &mut Vec<(String, String)>) {
        mention(&self.target, into);
        if self.mode != WriteMode::Clear {
            mention(&self.source, into);
        }
    }

    pub(super) fn target(&self) -> &Selector {
        &self.target
    }

    /// The name of the mode, when it replaces the value.
    pub(super) fn replaces(&self) -> Option<&'static str> {
        match self.mode {
            WriteMode::OverWrite => Some("over-write"),
            WriteMode::Clear => Some("clear"),
            WriteMode::Append => None,
        }
    }

    /// Writes the variable and returns the input for the record.
    pub(super) fn run(&self, working: &mut Working<'_>) -> Result<Segment, Refusal> {
        let escaped = |message: &str| Refusal::Escaped(message.into());
        let target =
            working.target(&self.target).ok_or_else(|| escaped("assigned variable not found"))?.into_owned();
        let ty = target.ty;
        let source = || working.found(&self.source).ok_or_else(|| escaped("input value not found"));
        let mut change = None;
        let (input, value) = match self.mode {
            WriteMode::OverWrite => {
                let input = source()?.into_owned();
                let value = input.value.clone();
                (input, value)
            }
            WriteMode::Append => {
                let input = source()?.into_owned();
                // An earlier over-write can have put any value into a list variable.
                let Json::Array(mut items) = target.value else {
                    return Err(escaped("append mode requires an array variable"));
                };
                if !ty.is_array() {
                    return Err(escaped("append mode requires an array variable"));
                }
                items.push(input.value.clone());
                change = Some(VariableChange::new(ChangeKind::AppendAny, &input));
                (input, Json::Array(items))
            }
            WriteMode::Clear => {
                let zero = zero_value(ty).map_err(Refusal::Escaped)?;
                (Segment::new(ty, zero.clone()), zero)
            }
        };
        working.write(&self.target, Segment::new(ty, value), change);
        Ok(input)
    }
}

impl WriteMode {
    fn read(value: &Json, problems: &mut Problems) -> Option<Self> {
        let name = text(value, problems)?;
        match name.as_str() {
            "over-write" => Some(Self::OverWrite),
            "append" => Some(Self::Append),
            "clear" => Some(Self::Clear),
            _ => {
                let message = format!("{name:?} is not a write mode");
                problems.error_with_hint(
                    INVALID_NODE_DATA,
                    message,
                    "the modes are: over-write, append, clear",
                );
                None
            }
        }
    }
}
