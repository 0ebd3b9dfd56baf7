//! Converts values of parameters: texts from queries and forms are converted to the declared types, JSON values must
//! already have them. The messages are Dify's.

use serde_json::Value as Json;

use super::ParameterType;
use tidemill_base::value::coerce::parse_python_float;

/// Converts a text from a query or a form to a type.
///
/// # Errors
/// Dify's message for a text that cannot be converted.
pub(super) fn of_text(name: &str, text: &str, ty: ParameterType) -> Result<Json, String> {
    match ty {
        ParameterType::String => Ok(text.into()),
        ParameterType::Number => number(text).ok_or_else(|| format!("Cannot convert '{text}' to number")),
        ParameterType::Boolean => match text.to_lowercase().as_str() {
            "true" | "1" | "yes" => Ok(true.into()),
            "false" | "0" | "no" => Ok(false.into()),
            _ => Err(format!("Cannot convert '{text}' to boolean")),
        },
        ParameterType::Object
        | ParameterType::File
        | ParameterType::ArrayString
        | ParameterType::ArrayNumber
        | ParameterType::ArrayBoolean
        | ParameterType::ArrayObject => {
            Err(format!("Unsupported type '{}' for form data parameter '{name}'", ty.name()))
        }
    }
}

/// Whole numbers stay whole, as far as a float is exact.
fn number(text: &str) -> Option<Json> {
    let float = parse_python_float(text).ok().filter(|float| float.is_finite())?;
    if float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 {
        // The cast is exact within this range.
        return Some(Json::from(float as i64));
    }
    serde_json::Number::from_f64(float).map(Json::Number)
}

/// Checks that a value in a JSON body has the type.
///
/// # Errors
/// Dify's message with the actual type.
pub(super) fn check(value: &Json, ty: ParameterType) -> Result<(), String> {
    // In Python booleans are numbers.
    let is_number = |value: &Json| value.is_number() || value.is_boolean();
    let all = |test: fn(&Json) -> bool| value.as_array().is_some_and(|items| items.iter().all(test));
    let (fits, expected) = match ty {
        ParameterType::String => (value.is_string(), "string"),
        ParameterType::Number => (is_number(value), "number"),
        ParameterType::Boolean => (value.is_boolean(), "boolean"),
        ParameterType::Object => (value.is_object(), "object"),
        ParameterType::ArrayString => (all(Json::is_string), "array of strings"),
        ParameterType::ArrayNumber => (all(|v| v.is_number() || v.is_boolean()), "array of numbers"),
        ParameterType::ArrayBoolean => (all(Json::is_boolean), "array of booleans"),
        ParameterType::ArrayObject => (all(Json::is_object), "array of objects"),
        // As on Dify any JSON value is accepted for a file.
        ParameterType::File => (true, "file"),
    };
    if fits { Ok(()) } else { Err(format!("Expected {expected}, got {}", python_type(value))) }
}

fn python_type(value: &Json) -> &'static str {
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
