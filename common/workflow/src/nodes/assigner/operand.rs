//! The values that an operation accepts, by the type of its target.

use serde_json::Value as Json;

use super::arithmetic::Arithmetic;
use super::operation::Operation;
use tidemill_base::value::{Segment, SegmentType};

/// True when the operand fits. As on Dify booleans are numbers, files never fit, and the items of a list are checked
/// one by one.
pub(super) fn fits(target: SegmentType, operation: Operation, operand: &Segment) -> bool {
    if !operation.takes_operand() {
        return true;
    }
    let value = &operand.value;
    // In our JSON a file is an object; in Python it is not.
    let is_file = matches!(operand.ty, SegmentType::File | SegmentType::ArrayFile);
    let item_fits: fn(&Json) -> bool = match target {
        SegmentType::String => return value.is_string(),
        SegmentType::Boolean => return value.is_boolean(),
        SegmentType::Integer | SegmentType::Float => {
            return is_numeric(value) && !divides_by_zero(operation, value);
        }
        SegmentType::Object => return value.is_object() && !is_file,
        SegmentType::ArrayAny => |item| !item.is_null() && !item.is_array(),
        SegmentType::ArrayString => Json::is_string,
        SegmentType::ArrayNumber => is_numeric,
        SegmentType::ArrayObject => Json::is_object,
        SegmentType::ArrayBoolean => Json::is_boolean,
        SegmentType::None | SegmentType::Secret | SegmentType::File | SegmentType::ArrayFile => return false,
    };
    match operation {
        Operation::Append => !is_file && item_fits(value),
        Operation::Extend | Operation::OverWrite => value
            .as_array()
            .is_some_and(|items| items.is_empty() || (!is_file && items.iter().all(item_fits))),
        // Lists refuse these operations before the values are checked.
        Operation::Set
        | Operation::Compute(_)
        | Operation::Clear
        | Operation::RemoveFirst
        | Operation::RemoveLast => false,
    }
}

fn is_numeric(value: &Json) -> bool {
    value.is_number() || value.is_boolean()
}

fn divides_by_zero(operation: Operation, value: &Json) -> bool {
    let is_zero = value.as_f64() == Some(0.0) || value.as_bool() == Some(false);
    operation == Operation::Compute(Arithmetic::Divide) && is_zero
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_fit_as_dify_has_it() {
        use SegmentType as Ty;
        let (add, divide) = (Operation::Compute(Arithmetic::Add), Operation::Compute(Arithmetic::Divide));
        for (target, operation, value, expected) in [
            (Ty::Integer, add, json!(true), true),
            (Ty::Float, add, json!("1"), false),
            (Ty::Float, Operation::OverWrite, json!(0), true),
            (Ty::Integer, divide, json!(0), false),
            (Ty::Integer, divide, json!(-0.0), false),
            (Ty::Integer, divide, json!(false), false),
            (Ty::Integer, divide, json!(true), true),
            (Ty::String, Operation::Set, json!(5), false),
            (Ty::Boolean, Operation::OverWrite, json!(1), false),
            (Ty::Object, Operation::Set, json!([]), false),
            (Ty::ArrayAny, Operation::Append, json!({}), true),
            (Ty::ArrayAny, Operation::Append, json!([]), false),
            (Ty::ArrayAny, Operation::Append, json!(null), false),
            (Ty::ArrayAny, Operation::Extend, json!([1, "x", true]), true),
            (Ty::ArrayAny, Operation::Extend, json!([[1]]), false),
            (Ty::ArrayString, Operation::Extend, json!([]), true),
            (Ty::ArrayString, Operation::Extend, json!("x"), false),
            (Ty::ArrayNumber, Operation::OverWrite, json!([1, 2.5, true]), true),
            (Ty::ArrayBoolean, Operation::Append, json!(1), false),
            (Ty::ArrayFile, Operation::OverWrite, json!([]), false),
            (Ty::File, Operation::OverWrite, json!({}), false),
            (Ty::Secret, Operation::OverWrite, json!("x"), false),
            (Ty::None, Operation::OverWrite, json!("x"), false),
            (Ty::ArrayString, Operation::RemoveFirst, json!(null), true),
        ] {
            let operand = Segment::infer(value);
            assert_eq!(fits(target, operation, &operand), expected, "{target} {operation:?} {operand:?}");
        }
    }

    #[test]
    fn files_fit_nowhere() {
        let mark = json!({"dify_model_identity": "__dify__file__"});
        let (file, files) = (Segment::restore_files(mark.clone()), Segment::restore_files(json!([mark])));
        for target in SegmentType::ALL {
            assert!(!fits(target, Operation::OverWrite, &file), "{target}");
            assert!(!fits(target, Operation::Append, &file), "{target}");
            assert!(!fits(target, Operation::Extend, &files), "{target}");
        }
    }
}
