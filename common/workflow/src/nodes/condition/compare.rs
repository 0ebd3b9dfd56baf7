//! Applies each operator to an actual and an expected value, with Dify's rules and messages: Python's notions of truth,
//! membership and equality, and Python's parsing of numbers.

use std::cmp::Ordering;

use regex::Regex;
use serde_json::{Number, Value as Json};

use super::Operator;
use tidemill_base::value::Segment;
use tidemill_base::value::coerce::{parse_python_float, parse_python_int};
use tidemill_base::value::pyrepr::str_of;

/// Applies an operator. The expected value is already rendered and converted.
///
/// # Errors
/// Dify's message when the operator cannot be applied to such values.
pub fn holds(operator: Operator, actual: &Segment, expected: &Json) -> Result<bool, String> {
    let value = &actual.value;
    match operator {
        Operator::Contains => contains(actual, expected),
        Operator::NotContains => contains(actual, expected).map(|held| !held),
        Operator::StartWith => edge(actual, expected, "startswith", |text, part| text.starts_with(part)),
        Operator::EndWith => edge(actual, expected, "endswith", |text, part| text.ends_with(part)),
        Operator::Is => is(value, expected).map(|same| same == Some(true)),
        Operator::IsNot => is(value, expected).map(|same| same == Some(false)),
        Operator::Empty => Ok(actual.is_falsy()),
        Operator::NotEmpty => Ok(!actual.is_falsy()),
        Operator::In => is_in(actual, expected),
        Operator::NotIn => is_in(actual, expected).map(|held| !held),
        Operator::AllOf => all_of(actual, expected),
        Operator::Equal => equal(value, expected).map(|same| same == Some(true)),
        Operator::NotEqual => equal(value, expected).map(|same| same == Some(false)),
        Operator::Greater => ordered(value, expected, Ordering::is_gt),
        Operator::Less => ordered(value, expected, Ordering::is_lt),
        Operator::GreaterOrEqual => ordered(value, expected, Ordering::is_ge),
        Operator::LessOrEqual => ordered(value, expected, Ordering::is_le),
        Operator::Null | Operator::NotExists => Ok(value.is_null()),
        Operator::NotNull | Operator::Exists => Ok(!value.is_null()),
        Operator::RegexMatch => matches(value, expected, None),
    }
}

/// [`Operator::RegexMatch`]. Uses the compiled expression if it equals the expected one. Null matches nothing.
pub(super) fn matches(actual: &Json, expected: &Json, compiled: Option<&Regex>) -> Result<bool, String> {
    let text = match actual {
        Json::Null => return Ok(false),
        Json::String(text) => text,
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            return Err("Invalid actual value type: string".into());
        }
    };
    let Json::String(pattern) = expected else {
        return Err("Expected value must be a string for regex match".into());
    };
    if let Some(regex) = compiled.filter(|regex| regex.as_str() == pattern) {
        return Ok(regex.is_match(text));
    }
    let regex = Regex::new(pattern).map_err(|error| format!("Invalid regular expression: {error}"))?;
    Ok(regex.is_match(text))
}

fn contains(actual: &Segment, expected: &Json) -> Result<bool, String> {
    if actual.is_falsy() {
        return Ok(false);
    }
    match (&actual.value, expected) {
        (Json::String(text), Json::String(part)) => Ok(text.contains(part.as_str())),
        (Json::String(text), other) => Ok(text.contains(&*str_of(other))),
        (Json::Array(items), _) => Ok(has(items, expected)),
        (Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_), _) => {
            Err("Invalid actual value type: string or array".into())
        }
    }
}

fn edge(
    actual: &Segment,
    expected: &Json,
    method: &str,
    test: fn(&str, &str) -> bool,
) -> Result<bool, String> {
    if actual.is_falsy() {
        return Ok(false);
    }
    let Json::String(text) = &actual.value else { return Err("Invalid actual value type: string".into()) };
    let Json::String(part) = expected else {
        return Err(format!("Expected value must be a string for {method}"));
    };
    Ok(test(text, part))
}

/// `None` for null: then neither `is` nor `is not` holds.
fn is(actual: &Json, expected: &Json) -> Result<Option<bool>, String> {
    match actual {
        Json::Null => Ok(None),
        Json::String(_) | Json::Bool(_) => Ok(Some(python_equal(actual, expected))),
        Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            Err("Invalid actual value type: string or boolean".into())
        }
    }
}

fn is_in(actual: &Segment, expected: &Json) -> Result<bool, String> {
    if actual.is_falsy() {
        return Ok(false);
    }
    let Json::Array(items) = expected else { return Err("Invalid expected value type: array".into()) };
    Ok(has(items, &actual.value))
}

fn all_of(actual: &Segment, expected: &Json) -> Result<bool, String> {
    let wanted = match expected {
        Json::Array(items) if items.iter().all(Json::is_string) || items.iter().all(Json::is_boolean) => {
            items
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => {
            return Err("all of operator expects homogeneous list of strings or booleans".into());
        }
    };
    if actual.is_falsy() {
        return Ok(false);
    }
    Ok(match &actual.value {
        Json::String(text) => wanted.iter().all(|part| part.as_str().is_some_and(|part| text.contains(part))),
        Json::Array(items) => wanted.iter().all(|item| has(items, item)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => false,
    })
}

/// `None` for null: then neither `=` nor `≠` holds.
fn equal(actual: &Json, expected: &Json) -> Result<Option<bool>, String> {
    Ok(match actual {
        Json::Null => None,
        Json::Bool(truth) => Some(*truth == to_bool(expected)?),
        Json::Number(number) => Some(match Numeric::of(number) {
            Numeric::Int(whole) => whole == to_int(expected)?,
            // Python compares floats exactly, and the expected text is read by the same rules.
            #[allow(clippy::float_cmp)]
            Numeric::Float(float) => float == to_float(expected)?,
        }),
        Json::String(_) | Json::Array(_) | Json::Object(_) => {
            return Err("Invalid actual value type: number or boolean".into());
        }
    })
}

fn ordered(actual: &Json, expected: &Json, test: fn(Ordering) -> bool) -> Result<bool, String> {
    let actual = match actual {
        Json::Null => return Ok(false),
        Json::Bool(truth) => Numeric::Int(i128::from(*truth)),
        Json::Number(number) => Numeric::of(number),
        Json::String(_) | Json::Array(_) | Json::Object(_) => {
            return Err("Invalid actual value type: number".into());
        }
    };
    let expected = match expected {
        Json::Bool(truth) => Numeric::Int(i128::from(*truth)),
        Json::Number(number) => Numeric::of(number),
        Json::String(text) => Numeric::Float(
            parse_python_float(text).map_err(|_| format!("Cannot convert '{text}' to number"))?,
        ),
        Json::Null | Json::Array(_) | Json::Object(_) => return Err(cannot_convert(expected, "number")),
    };
    // NaN has no order, so no comparison holds.
    Ok(actual.order(expected).is_some_and(test))
}

/// A number with Python's types.
#[derive(Clone, Copy)]
enum Numeric {
    Int(i128),
    Float(f64),
}

impl Numeric {
    fn of(number: &Number) -> Self {
        match (number.as_i128(), number.as_f64()) {
            (Some(whole), _) => Self::Int(whole),
            (None, float) => Self::Float(float.unwrap_or(f64::NAN)),
        }
    }

    /// Compares two whole numbers exactly, a whole number and a fraction as floats.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    fn order(self, expected: Self) -> Option<Ordering> {
        match (self, expected) {
            (Self::Int(a), Self::Int(e)) => Some(a.cmp(&e)),
            // The cast saturates far outside the range of JSON numbers.
            (Self::Int(a), Self::Float(e)) if e.is_finite() && e.fract() == 0.0 => Some(a.cmp(&(e as i128))),
            (Self::Int(a), Self::Float(e)) => (a as f64).partial_cmp(&e),
            (Self::Float(a), Self::Int(e)) => a.partial_cmp(&(e as f64)),
            (Self::Float(a), Self::Float(e)) => a.partial_cmp(&e),
        }
    }
}

fn to_bool(expected: &Json) -> Result<bool, String> {
    match expected {
        Json::Bool(truth) => Ok(*truth),
        Json::Number(number) => Ok(number.as_f64() != Some(0.0)),
        Json::String(text) => Ok(!text.is_empty()),
        Json::Null | Json::Array(_) | Json::Object(_) => Err(cannot_convert(expected, "bool")),
    }
}

#[allow(clippy::cast_possible_truncation)]
fn to_int(expected: &Json) -> Result<i128, String> {
    match expected {
        Json::Bool(truth) => Ok(i128::from(*truth)),
        Json::Number(number) => Ok(match Numeric::of(number) {
            Numeric::Int(whole) => whole,
            // Like Python's `int()`, this cuts the fraction.
            Numeric::Float(float) => float as i128,
        }),
        Json::String(text) => parse_python_int(text),
        Json::Null | Json::Array(_) | Json::Object(_) => Err(cannot_convert(expected, "int")),
    }
}

fn to_float(expected: &Json) -> Result<f64, String> {
    match expected {
        Json::Bool(truth) => Ok(f64::from(u8::from(*truth))),
        Json::Number(number) => Ok(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => parse_python_float(text),
        Json::Null | Json::Array(_) | Json::Object(_) => Err(cannot_convert(expected, "float")),
    }
}

fn cannot_convert(value: &Json, target: &str) -> String {
    format!("Cannot convert <class '{}'> to {target}", class_name(value))
}

/// The name of a value's class in Python.
pub(in crate::nodes) fn class_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "NoneType",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_f64() => "float",
        Json::Number(_) => "int",
        Json::String(_) => "str",
        Json::Array(_) => "list",
        Json::Object(_) => "dict",
    }
}

fn has(items: &[Json], wanted: &Json) -> bool {
    items.iter().any(|item| python_equal(item, wanted))
}

/// Python's `==`: booleans count as 1 and 0, `1` equals `1.0`, and a text never equals a number.
fn python_equal(a: &Json, b: &Json) -> bool {
    let number = |value: &Json| match value {
        Json::Bool(truth) => Some(Numeric::Int(i128::from(*truth))),
        Json::Number(number) => Some(Numeric::of(number)),
        Json::Null | Json::String(_) | Json::Array(_) | Json::Object(_) => None,
    };
    match (a, b) {
        (Json::String(a), Json::String(b)) => a == b,
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| python_equal(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| python_equal(a, b)))
        }
        (Json::Null, Json::Null) => true,
        _ => match (number(a), number(b)) {
            (Some(a), Some(b)) => a.order(b) == Some(Ordering::Equal),
            (None, _) | (_, None) => false,
        },
    }
}
