//! Validates the object from a model, and converts values to the declared types.
//!
//! As on Dify a mistake is reported in `__reason`, but the node succeeds with the usable values. Other than on Dify, an
//! optional parameter may be absent or null (`compat.extractor_requires_all`).

use serde_json::{Value as Json, json};

use super::{Kind, Parameter, ParameterType, find};
use crate::nodes::condition::compare::class_name;
use crate::nodes::llm::message::ToolCall;
use tidemill_base::value::coerce::{parse_python_float, parse_python_int};
use tidemill_base::value::pyrepr::str_of;
use tidemill_base::value::{JsonMap, Segment, SegmentType, infer_type};

/// Dify's message for a reply without any object.
const NOTHING: &str = "Failed to extract result from function call or text response, using empty result.";

/// Values and the first mistake.
#[derive(Debug, Clone, PartialEq)]
pub struct Extracted {
    /// One per parameter, in order.
    pub values: Vec<(String, Segment)>,
    /// The first mistake.
    pub reason: Option<String>,
}

/// Reads a reply: its first tool call, whatever the tool's name, else its text. With `requires_all` an absent optional
/// parameter is a mistake, as on Dify.
pub fn extract(
    parameters: &[Parameter],
    call: Option<&ToolCall>,
    text: &str,
    requires_all: bool,
) -> Extracted {
    // Without a required parameter, an empty object is an answer.
    let may_be_empty = !requires_all && parameters.iter().all(|parameter| !parameter.required);
    let (object, reason) = match call {
        Some(call) => (find::object(&call.arguments).unwrap_or_default(), None),
        None => match find::object(text).filter(|object| may_be_empty || !object.is_empty()) {
            Some(object) => (object, None),
            None => (defaults(parameters), Some(NOTHING.to_owned())),
        },
    };
    let reason = mistake(parameters, &object, requires_all).or(reason);
    let value = |parameter: &Parameter| {
        (parameter.name.clone(), shaped(parameter.ty, object.get(&parameter.name).unwrap_or(&Json::Null)))
    };
    Extracted { values: parameters.iter().map(value).collect(), reason }
}

/// The object for a reply without one. As on Dify lists have no default, so the number of parameters is wrong then.
fn defaults(parameters: &[Parameter]) -> JsonMap {
    let scalar = |parameter: &Parameter| match parameter.ty {
        ParameterType::One(_) => Some((parameter.name.clone(), shaped(parameter.ty, &Json::Null).value)),
        ParameterType::List(_) => None,
    };
    parameters.iter().filter_map(scalar).collect()
}

/// The first mistake in an object. Unless all are required, absent optional parameters are left out of the count.
fn mistake(parameters: &[Parameter], object: &JsonMap, requires_all: bool) -> Option<String> {
    let is_absent = |parameter: &Parameter| object.get(&parameter.name).is_none_or(Json::is_null);
    let left_out = |parameter: &Parameter| !requires_all && !parameter.required && is_absent(parameter);
    let expected = parameters.iter().filter(|parameter| !left_out(parameter)).count();
    let nulls =
        parameters.iter().filter(|parameter| left_out(parameter) && object.contains_key(&parameter.name));
    if object.len() - nulls.count() != expected {
        return Some("Invalid number of parameters".into());
    }
    parameters.iter().filter(|parameter| !left_out(parameter)).find_map(|parameter| {
        let name = &parameter.name;
        let value = object.get(name);
        if parameter.required && value.is_none() {
            return Some(format!("Parameter {name} is required"));
        }
        let value = value.unwrap_or(&Json::Null);
        if !fits(parameter.ty, value) {
            return Some(format!(
                "Invalid value for parameter {name}, expected segment type: {}, actual_type: {}, python_type: <class '{}'>, value: {}",
                parameter.ty.name(),
                inferred(value),
                class_name(value),
                str_of(value)
            ));
        }
        let options = parameter.options.as_ref().filter(|options| !options.is_empty());
        let is_text = parameter.ty == ParameterType::One(Kind::String);
        let is_option = |options: &Vec<String>| options.iter().any(|option| value == option);
        options
            .filter(|options| is_text && !is_option(options))
            .map(|_| format!("Invalid `select` value for parameter {name}"))
    })
}

fn fits(ty: ParameterType, value: &Json) -> bool {
    let one = |kind: Kind, value: &Json| match kind {
        Kind::String => value.is_string(),
        Kind::Number => value.is_number() || value.is_boolean(),
        Kind::Boolean => value.is_boolean(),
        Kind::Object => value.is_object(),
    };
    match ty {
        ParameterType::One(kind) => one(kind, value),
        ParameterType::List(kind) => {
            value.as_array().is_some_and(|items| items.iter().all(|item| one(kind, item)))
        }
    }
}

/// The type that Dify infers here. An empty list is a list of numbers; lists of lists or nulls are lists of any type.
fn inferred(value: &Json) -> SegmentType {
    match value {
        Json::Array(items) if items.is_empty() => SegmentType::ArrayNumber,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => {
            infer_type(value)
        }
    }
}

/// A value in its declared type. An unusable item is left out; an unusable value becomes the type's empty value.
fn shaped(ty: ParameterType, value: &Json) -> Segment {
    let ParameterType::List(kind) = ty else {
        return Segment::infer(match ty {
            ParameterType::One(Kind::String) => json!(value.as_str().unwrap_or_default()),
            ParameterType::One(Kind::Number) => number(value).unwrap_or_else(|| json!(0)),
            ParameterType::One(Kind::Boolean) => json!(is_true(value)),
            ParameterType::One(Kind::Object) | ParameterType::List(_) => value.clone(),
        });
    };
    let item = |item: &Json| match kind {
        Kind::Number => number(item),
        Kind::String | Kind::Boolean | Kind::Object => {
            fits(ParameterType::One(kind), item).then(|| item.clone())
        }
    };
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let items = items.iter().filter_map(item).collect();
    Segment::new(ty.list().unwrap_or(SegmentType::ArrayAny), items)
}

fn is_true(value: &Json) -> bool {
    match value {
        Json::Bool(flag) => *flag,
        Json::Number(number) => !number.is_f64() && number.as_f64() != Some(0.0),
        Json::Null | Json::String(_) | Json::Array(_) | Json::Object(_) => false,
    }
}

/// A number, a boolean as 0 or 1, or a text that Python reads as a number.
fn number(value: &Json) -> Option<Json> {
    match value {
        Json::Bool(flag) => Some(json!(i32::from(*flag))),
        Json::Number(_) => Some(value.clone()),
        // Numbers that JSON cannot hold (`inf.`) are refused.
        Json::String(text) if text.contains('.') => {
            serde_json::Number::from_f64(parse_python_float(text).ok()?).map(Json::Number)
        }
        Json::String(text) => {
            let whole = parse_python_int(text).ok()?;
            let exact =
                i64::try_from(whole).map(|n| json!(n)).or_else(|_| u64::try_from(whole).map(|n| json!(n)));
            // As everywhere, a whole number beyond 64 bits becomes a float.
            Some(exact.unwrap_or_else(|_| json!(whole as f64)))
        }
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}
