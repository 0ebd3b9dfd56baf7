//! The operations of version 2: their names, targets and operands.

use serde_json::Value as Json;

use super::arithmetic::{Arithmetic, compute};
use crate::dsl::Problems;
use crate::nodes::fields::{INVALID_NODE_DATA, text};
use tidemill_base::value::SegmentType;

/// An operation on a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    OverWrite,
    Clear,
    Append,
    Extend,
    Set,
    Compute(Arithmetic),
    RemoveFirst,
    RemoveLast,
}

/// The source of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputType {
    Variable,
    Constant,
}

/// All operations with Dify's names.
const OPERATIONS: [(&str, Operation); 11] = [
    ("over-write", Operation::OverWrite),
    ("clear", Operation::Clear),
    ("append", Operation::Append),
    ("extend", Operation::Extend),
    ("set", Operation::Set),
    ("+=", Operation::Compute(Arithmetic::Add)),
    ("-=", Operation::Compute(Arithmetic::Subtract)),
    ("*=", Operation::Compute(Arithmetic::Multiply)),
    ("/=", Operation::Compute(Arithmetic::Divide)),
    ("remove-first", Operation::RemoveFirst),
    ("remove-last", Operation::RemoveLast),
];

impl Operation {
    /// Reads an operation's name.
    pub(super) fn read(value: &Json, problems: &mut Problems) -> Option<Self> {
        let name = text(value, problems)?;
        let found = OPERATIONS.iter().find(|(known, _)| *known == name).map(|(_, operation)| *operation);
        if found.is_none() {
            let known: Vec<&str> = OPERATIONS.iter().map(|(name, _)| *name).collect();
            problems.error_with_hint(
                INVALID_NODE_DATA,
                format!("{name:?} is not an operation"),
                format!("the operations are: {}", known.join(", ")),
            );
        }
        found
    }

    /// Dify's name of the operation.
    pub(super) fn name(self) -> &'static str {
        // A test checks that the table is complete.
        OPERATIONS.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// True when the operation needs a value.
    pub(super) fn takes_operand(self) -> bool {
        match self {
            Self::OverWrite | Self::Append | Self::Extend | Self::Set | Self::Compute(_) => true,
            Self::Clear | Self::RemoveFirst | Self::RemoveLast => false,
        }
    }

    /// True when variables of the type support the operation.
    pub(super) fn fits_target(self, ty: SegmentType) -> bool {
        match self {
            Self::OverWrite | Self::Clear => true,
            Self::Set => is_scalar(ty),
            Self::Compute(_) => is_number(ty),
            Self::Append | Self::Extend | Self::RemoveFirst | Self::RemoveLast => ty.is_array(),
        }
    }

    /// The new value of an operation that changes the old one; `None` when the old value is of another kind, or a number
    /// has no finite result, and for the operations that replace the value.
    pub(super) fn change(self, old: &Json, operand: &Json) -> Option<Json> {
        let items = || old.as_array().map(Vec::as_slice);
        match self {
            Self::Compute(arithmetic) => compute(arithmetic, old, operand),
            Self::Append => Some(joined(items()?, std::slice::from_ref(operand))),
            Self::Extend => Some(joined(items()?, operand.as_array().map_or(&[][..], Vec::as_slice))),
            Self::RemoveFirst => Some(items()?.get(1..).unwrap_or_default().to_vec().into()),
            Self::RemoveLast => Some(items()?.split_last().map_or(&[][..], |(_, rest)| rest).to_vec().into()),
            Self::OverWrite | Self::Clear | Self::Set => None,
        }
    }

    /// True when the value can come from this source. As on Dify this is checked even when no value is needed.
    pub(super) fn takes(self, input: InputType, ty: SegmentType) -> bool {
        match (input, self) {
            (InputType::Variable, Self::Set | Self::Compute(_)) => false,
            (
                InputType::Variable,
                Self::OverWrite
                | Self::Clear
                | Self::Append
                | Self::Extend
                | Self::RemoveFirst
                | Self::RemoveLast,
            ) => true,
            (InputType::Constant, Self::OverWrite | Self::Set) => is_scalar(ty),
            (InputType::Constant, Self::Compute(_)) => is_number(ty),
            (
                InputType::Constant,
                Self::Clear | Self::Append | Self::Extend | Self::RemoveFirst | Self::RemoveLast,
            ) => false,
        }
    }
}

impl InputType {
    /// Reads the name of an input type.
    pub(super) fn read(value: &Json, problems: &mut Problems) -> Option<Self> {
        let name = text(value, problems)?;
        match name.as_str() {
            "variable" => Some(Self::Variable),
            "constant" => Some(Self::Constant),
            _ => {
                let message = format!("the input type must be variable or constant, not {name:?}");
                problems.error(INVALID_NODE_DATA, message);
                None
            }
        }
    }

    /// Dify's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Variable => "variable",
            Self::Constant => "constant",
        }
    }
}

fn joined(items: &[Json], more: &[Json]) -> Json {
    items.iter().chain(more).cloned().collect()
}

fn is_number(ty: SegmentType) -> bool {
    matches!(ty, SegmentType::Integer | SegmentType::Float)
}

/// The types for which a constant can be written. Secrets are excluded.
fn is_scalar(ty: SegmentType) -> bool {
    is_number(ty) || matches!(ty, SegmentType::String | SegmentType::Object | SegmentType::Boolean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_reads_back_under_its_name() {
        for (name, operation) in OPERATIONS {
            let mut problems = Problems::new();
            assert_eq!(Operation::read(&name.into(), &mut problems), Some(operation));
            assert_eq!(operation.name(), name);
        }
    }

    #[test]
    fn constants_are_for_scalars_and_arithmetic_takes_nothing_else() {
        for (name, ty, of_variable, of_constant) in [
            ("over-write", SegmentType::String, true, true),
            ("over-write", SegmentType::ArrayString, true, false),
            ("over-write", SegmentType::Secret, true, false),
            ("set", SegmentType::Object, false, true),
            ("+=", SegmentType::Integer, false, true),
            ("append", SegmentType::ArrayAny, true, false),
            ("clear", SegmentType::String, true, false),
            ("remove-last", SegmentType::ArrayAny, true, false),
        ] {
            let operation = Operation::read(&name.into(), &mut Problems::new()).expect("an operation");
            let takes = |input| operation.takes(input, ty);
            assert_eq!(
                (takes(InputType::Variable), takes(InputType::Constant)),
                (of_variable, of_constant),
                "{name} {ty}"
            );
        }
    }
}
