//! Checks on the kind of a value.

use serde_json::{Number, Value as Json};

/// Reads a number as Python does, which distinguishes integers from floats.
pub(super) fn python_number(text: &str) -> Option<Number> {
    if text.contains(['.', 'e', 'E']) {
        return text.parse().ok().and_then(Number::from_f64);
    }
    let digits = text.trim_start_matches('+');
    digits.parse::<i64>().map(Number::from).or_else(|_| digits.parse::<u64>().map(Number::from)).ok()
}

pub(super) fn is_empty(value: &Json) -> bool {
    match value {
        Json::Array(items) => items.is_empty(),
        Json::Object(map) => map.is_empty(),
        Json::String(text) => text.is_empty(),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

pub(super) const fn is_scalar(value: &Json) -> bool {
    !matches!(value, Json::Array(_) | Json::Object(_))
}

/// True when both values have the same keys, lengths and types at every level.
pub(super) fn same_shape(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same_shape(a, b)))
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_shape(a, b))
        }
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}
