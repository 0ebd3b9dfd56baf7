//! The four operations on numbers, with Python's results: whole numbers stay whole except in a division; booleans are 0
//! and 1.

use serde_json::{Number, Value as Json};

/// An operation on two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// The result. `None` when an operand is not a number, or when JSON cannot hold the result (infinite, undefined).
///
/// Python's whole numbers have no limit; beyond 64 bits ours become the nearest float.
pub(super) fn compute(operation: Arithmetic, left: &Json, right: &Json) -> Option<Json> {
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        let result = match operation {
            Arithmetic::Add => left.checked_add(right),
            Arithmetic::Subtract => left.checked_sub(right),
            Arithmetic::Multiply => left.checked_mul(right),
            // In Python always a float, also for 4 / 2.
            Arithmetic::Divide => None,
        };
        if let Some(number) = result.and_then(Number::from_i128) {
            return Some(Json::Number(number));
        }
    }
    let (left, right) = (fraction(left)?, fraction(right)?);
    let result = match operation {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
    };
    Number::from_f64(result).map(Json::Number)
}

fn whole(value: &Json) -> Option<i128> {
    match value {
        Json::Bool(flag) => Some(i128::from(*flag)),
        Json::Number(number) => number.as_i128(),
        Json::Null | Json::String(_) | Json::Array(_) | Json::Object(_) => None,
    }
}

fn fraction(value: &Json) -> Option<f64> {
    match value {
        Json::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Json::Number(number) => number.as_f64(),
        Json::Null | Json::String(_) | Json::Array(_) | Json::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_come_out_as_in_python() {
        use Arithmetic::{Add, Divide, Multiply, Subtract};
        for (left, operation, right, expected) in [
            (json!(3), Add, json!(2), Some(json!(5))),
            (json!(3), Add, json!(0.5), Some(json!(3.5))),
            (json!(3), Add, json!(true), Some(json!(4))),
            (json!(true), Multiply, json!(false), Some(json!(0))),
            (json!(1), Subtract, json!(2), Some(json!(-1))),
            (json!(4), Divide, json!(2), Some(json!(2.0))),
            (json!(1.5), Divide, json!(4), Some(json!(0.375))),
            (json!(4.0), Multiply, json!(2), Some(json!(8.0))),
            (json!(u64::MAX), Subtract, json!(1), Some(json!(u64::MAX - 1))),
            (json!(u64::MAX), Multiply, json!(u64::MAX), Some(json!(u64::MAX as f64 * u64::MAX as f64))),
            (json!(i64::MIN), Multiply, json!(u64::MAX), Some(json!(i64::MIN as f64 * u64::MAX as f64))),
            (json!(1e308), Multiply, json!(10), None),
            (json!(1), Divide, json!(0), None),
            (json!("3"), Add, json!(2), None),
            (json!(null), Add, json!(2), None),
        ] {
            assert_eq!(compute(operation, &left, &right), expected, "{left} {operation:?} {right}");
        }
    }
}
