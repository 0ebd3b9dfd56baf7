//! Operations on the value that a variable has when they are applied: `append`, `+=`, `remove-first` and so on. Other
//! writes replace the value.
//!
//! An item of an iteration applies an operation to its own copy of a variable. When the item ends, the operation is
//! applied again to the value that the variable has then, so that items in parallel lose nothing.

use serde_json::Value as Json;

use super::operand::fits;
use super::operation::Operation;
use crate::nodes::assigner::arithmetic::Arithmetic;
use tidemill_base::value::{Segment, SegmentType};

/// A kind of operation that changes a value. `operand` is null where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    Append,
    /// `append` of version 1, which takes a value of any type.
    AppendAny,
    Extend,
    Add,
    Subtract,
    Multiply,
    Divide,
    RemoveFirst,
    RemoveLast,
}

/// All kinds with their stored names and their operations.
const KINDS: [(ChangeKind, &str, Operation); 9] = [
    (ChangeKind::Append, "append", Operation::Append),
    (ChangeKind::AppendAny, "append-any", Operation::Append),
    (ChangeKind::Extend, "extend", Operation::Extend),
    (ChangeKind::Add, "+=", Operation::Compute(Arithmetic::Add)),
    (ChangeKind::Subtract, "-=", Operation::Compute(Arithmetic::Subtract)),
    (ChangeKind::Multiply, "*=", Operation::Compute(Arithmetic::Multiply)),
    (ChangeKind::Divide, "/=", Operation::Compute(Arithmetic::Divide)),
    (ChangeKind::RemoveFirst, "remove-first", Operation::RemoveFirst),
    (ChangeKind::RemoveLast, "remove-last", Operation::RemoveLast),
];

impl ChangeKind {
    /// The stored name.
    pub fn name(self) -> &'static str {
        // A test checks that the table is complete.
        KINDS.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, name, _)| name)
    }

    /// Returns the kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        KINDS.iter().find(|(_, known, _)| *known == name).map(|(kind, ..)| *kind)
    }

    /// Returns the kind for an operation of version 2; `None` for one that replaces the value.
    pub(super) fn of(operation: Operation) -> Option<Self> {
        // `Append` comes before `AppendAny`.
        KINDS.iter().find(|(_, _, known)| *known == operation).map(|(kind, ..)| *kind)
    }

    /// True when the operation needs a value.
    pub fn takes_operand(self) -> bool {
        !matches!(self, Self::RemoveFirst | Self::RemoveLast)
    }

    /// Applies the operation. Returns `None` when it does not fit the value: the variable has another type now, or a
    /// number has no finite result.
    pub fn apply(self, current: &Segment, operand: &Segment) -> Option<Segment> {
        let (_, _, operation) = *KINDS.iter().find(|(kind, ..)| *kind == self)?;
        let accepts = match self {
            Self::AppendAny => current.ty.is_array(),
            Self::Append
            | Self::Extend
            | Self::Add
            | Self::Subtract
            | Self::Multiply
            | Self::Divide
            | Self::RemoveFirst
            | Self::RemoveLast => operation.fits_target(current.ty) && fits(current.ty, operation, operand),
        };
        let value = if accepts { operation.change(&current.value, &operand.value) } else { None };
        value.map(|value| Segment::new(current.ty, value))
    }
}

/// An operation with its operand, as the assigner has applied it.
#[derive(Debug, Clone, PartialEq)]
pub struct VariableChange {
    pub kind: ChangeKind,
    pub operand: Segment,
}

impl VariableChange {
    /// An operation; an operand that it does not take is left out.
    pub(super) fn new(kind: ChangeKind, operand: &Segment) -> Self {
        let operand = if kind.takes_operand() { operand.clone() } else { Segment::none() };
        Self { kind, operand }
    }

    /// Writes operations as one list, in which many are stored as one value.
    pub fn list<'a>(changes: impl IntoIterator<Item = (ChangeKind, &'a Segment)>) -> Segment {
        let one = |(kind, operand): (ChangeKind, &Segment)| {
            Json::Array(vec![kind.name().into(), operand.value.clone()])
        };
        Segment::new(SegmentType::ArrayAny, changes.into_iter().map(one).collect())
    }

    /// Reads the list of [`Self::list`]. `None` when it is damaged.
    pub fn of_list(list: &Json) -> Option<Vec<Self>> {
        let one = |item: &Json| {
            let kind = ChangeKind::from_name(item.get(0)?.as_str()?)?;
            Some(Self { kind, operand: Segment::infer(item.get(1)?.clone()) })
        };
        list.as_array()?.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_kind_reads_back_under_its_name() {
        for (kind, name, _) in KINDS {
            assert_eq!((kind.name(), ChangeKind::from_name(name)), (name, Some(kind)));
        }
        assert_eq!(ChangeKind::from_name("over-write"), None);
    }

    #[test]
    fn a_change_applies_to_the_value_of_now_or_not_at_all() {
        use SegmentType as Ty;
        for (kind, ty, value, operand, expected) in [
            ("append", Ty::ArrayString, json!(["a"]), json!("b"), Some(json!(["a", "b"]))),
            ("append", Ty::ArrayNumber, json!([1]), json!("b"), None),
            ("append", Ty::String, json!("a"), json!("b"), None),
            ("append-any", Ty::ArrayNumber, json!([1]), json!([2]), Some(json!([1, [2]]))),
            ("append-any", Ty::String, json!("a"), json!("b"), None),
            ("append-any", Ty::ArrayAny, json!("no list"), json!(1), None),
            ("extend", Ty::ArrayAny, json!([1]), json!([2, "x"]), Some(json!([1, 2, "x"]))),
            ("extend", Ty::ArrayAny, json!([1]), json!(2), None),
            ("+=", Ty::Integer, json!(2), json!(3), Some(json!(5))),
            ("+=", Ty::Integer, json!("q"), json!(3), None),
            ("-=", Ty::Float, json!(2.5), json!(1), Some(json!(1.5))),
            ("*=", Ty::Float, json!(1e308), json!(10), None),
            ("/=", Ty::Integer, json!(4), json!(0), None),
            ("/=", Ty::Integer, json!(4), json!(2), Some(json!(2.0))),
            ("remove-first", Ty::ArrayAny, json!([1, 2]), json!(null), Some(json!([2]))),
            ("remove-last", Ty::ArrayAny, json!([1, 2]), json!(null), Some(json!([1]))),
            ("remove-first", Ty::ArrayAny, json!([]), json!(null), Some(json!([]))),
            ("remove-last", Ty::Object, json!({}), json!(null), None),
        ] {
            let current = Segment { ty, ..Segment::infer(value) };
            let result = ChangeKind::from_name(kind).unwrap().apply(&current, &Segment::infer(operand));
            assert_eq!(
                result.map(|it| (it.ty, it.value)),
                expected.map(|value| (ty, value)),
                "{kind} {current:?}"
            );
        }
    }

    #[test]
    fn a_list_of_changes_reads_back() {
        let changes = vec![
            VariableChange::new(ChangeKind::Append, &Segment::string("x")),
            VariableChange::new(ChangeKind::RemoveLast, &Segment::string("is left out")),
        ];
        let list = VariableChange::list(changes.iter().map(|it| (it.kind, &it.operand)));
        assert_eq!(list.value, json!([["append", "x"], ["remove-last", null]]));
        assert_eq!(VariableChange::of_list(&list.value), Some(changes));
        assert_eq!(VariableChange::of_list(&json!([["set", 1]])), None);
    }
}
