//! Makes the values of a tool's parameters what its plugin expects: defaults, and the conversions that Dify makes.

use serde_json::{Number, Value as Json};
use tidemill_common::value::JsonMap;
use tidemill_common::value::pyrepr;

use crate::package::{Form, Kind, Parameter, Tool};

/// The reason why a parameter cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// A value is missing.
    #[error("the tool {tool} needs a value for the parameter {name:?}")]
    Missing { tool: String, name: String },
    /// There is no such parameter.
    #[error("the tool {tool} has no parameter {name:?}; it has: {known}")]
    Unknown { tool: String, name: String, known: String },
    /// The value does not fit.
    #[error("the parameter {name:?} of the tool {tool} {reason}")]
    Wrong { tool: String, name: String, reason: String },
}

/// The parameters of an invocation, from the values that are given.
///
/// # Errors
/// [`ParameterError`].
pub fn parameters(tool: &Tool, mut given: JsonMap) -> Result<JsonMap, ParameterError> {
    let mut all = JsonMap::new();
    for parameter in &tool.parameters {
        let wrong = |reason: String| ParameterError::Wrong {
            tool: tool.name.clone(),
            name: parameter.name.clone(),
            reason,
        };
        let value = given.shift_remove(&parameter.name).filter(|value| !is_absent(value));
        let value = value.or_else(|| parameter.default.clone());
        let is_given = value.as_ref().is_some_and(|value| !is_absent(value));
        if parameter.required && !is_given {
            return Err(ParameterError::Missing { tool: tool.name.clone(), name: parameter.name.clone() });
        }
        match (value, parameter.form) {
            (Some(value), _) => all.insert(parameter.name.clone(), cast(parameter, value).map_err(wrong)?),
            // A form always sends its fields, a model only those that it fills in.
            (None, Form::Form | Form::Schema) => {
                empty(parameter).and_then(|value| all.insert(parameter.name.clone(), value))
            }
            (None, Form::Llm) => None,
        };
    }
    if tool.has_runtime_parameters {
        // It decides when it is asked which parameters it has.
        all.extend(given);
    } else if let Some((name, _)) = given.iter().next() {
        let known: Vec<&str> = tool.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        return Err(ParameterError::Unknown { tool: tool.name.clone(), name: name.clone(), known });
    }
    Ok(all)
}

/// Dify takes the default where the value is empty; 0 and false are values.
fn is_absent(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(map) => map.is_empty(),
        Json::Bool(_) | Json::Number(_) => false,
    }
}

/// The value of a field of a form that is left empty and has no default.
fn empty(parameter: &Parameter) -> Option<Json> {
    match parameter.kind {
        _ if takes_several(parameter) => Some(Json::Array(Vec::new())),
        Kind::Text | Kind::Secret | Kind::Checkbox | Kind::DynamicSelect | Kind::DynamicTreeSelect => {
            Some(Json::String(String::new()))
        }
        Kind::Boolean => Some(Json::Bool(false)),
        Kind::Select
        | Kind::Number
        | Kind::File
        | Kind::Files
        | Kind::Model
        | Kind::App
        | Kind::Tool
        | Kind::Tools
        | Kind::Array
        | Kind::Object
        | Kind::Any => None,
    }
}

fn takes_several(parameter: &Parameter) -> bool {
    let kinds = [Kind::Select, Kind::Checkbox, Kind::DynamicSelect, Kind::DynamicTreeSelect];
    parameter.multiple && kinds.contains(&parameter.kind)
}

fn cast(parameter: &Parameter, value: Json) -> Result<Json, String> {
    if takes_several(parameter) {
        let items = match value {
            Json::Array(items) => items,
            one => vec![one],
        };
        let items: Vec<Json> = items.iter().map(text).collect();
        for item in &items {
            offered(parameter, item)?;
        }
        return Ok(Json::Array(items));
    }
    Ok(match parameter.kind {
        Kind::Text | Kind::Secret | Kind::Checkbox | Kind::DynamicSelect => text(&value),
        Kind::Select => {
            let value = text(&value);
            offered(parameter, &value)?;
            value
        }
        Kind::DynamicTreeSelect => match value {
            Json::Array(items) => Json::Array(items.iter().map(text).collect()),
            one => text(&one),
        },
        Kind::Boolean => Json::Bool(truth(&value)),
        Kind::Number => number(value)?,
        Kind::Files => match value {
            Json::Array(_) => value,
            one => Json::Array(vec![one]),
        },
        Kind::File => match value {
            Json::Array(mut items) if items.len() == 1 => items.remove(0),
            Json::Array(_) => return Err("takes one file, and several were given".into()),
            one => one,
        },
        Kind::Model | Kind::App | Kind::Tool => {
            let value = parsed(value);
            if !value.is_object() {
                return Err("must be an object that selects a model, an app or a tool".into());
            }
            value
        }
        Kind::Tools => {
            let value = parsed(value);
            if !value.is_array() {
                return Err("must be a list of tools".into());
            }
            value
        }
        Kind::Array => match parsed(value.clone()) {
            list @ Json::Array(_) => list,
            _ => Json::Array(vec![value]),
        },
        Kind::Object => match parsed(value) {
            object @ Json::Object(_) => object,
            _ => Json::Object(JsonMap::new()),
        },
        Kind::Any => value,
    })
}

fn offered(parameter: &Parameter, value: &Json) -> Result<(), String> {
    let is_offered = value.as_str().is_some_and(|text| parameter.options.iter().any(|option| option == text));
    if parameter.kind != Kind::Select || is_offered {
        return Ok(());
    }
    Err(format!("is {value}, which is not one of: {}", parameter.options.join(", ")))
}

/// A value as Python's `str` shows it.
fn text(value: &Json) -> Json {
    Json::String(pyrepr::str_of(value).into_owned())
}

fn truth(value: &Json) -> bool {
    match value {
        Json::String(text) => match text.to_lowercase().as_str() {
            "true" | "yes" | "y" | "1" => true,
            "false" | "no" | "n" | "0" | "" => false,
            _ => true,
        },
        Json::Bool(value) => *value,
        Json::Number(number) => number.as_f64() != Some(0.0),
        other => !is_absent(other),
    }
}

fn number(value: Json) -> Result<Json, String> {
    match &value {
        Json::Number(_) => Ok(value),
        Json::String(text) => {
            let text = text.trim();
            let whole = || text.parse::<i64>().ok().map(Json::from);
            let broken = || {
                text.contains('.').then(|| Number::from_f64(text.parse().ok()?).map(Json::Number)).flatten()
            };
            whole().or_else(broken).ok_or_else(|| format!("must be a number, not {text:?}"))
        }
        // In Python a truth value is a number.
        Json::Bool(_) => Ok(value),
        Json::Null | Json::Array(_) | Json::Object(_) => Err("must be a number".into()),
    }
}

/// A text that is JSON, as its value; every other value as it is.
fn parsed(value: Json) -> Json {
    match &value {
        Json::String(text) => serde_json::from_str(text).unwrap_or(value),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parameter(name: &str, kind: Kind, form: Form) -> Parameter {
        Parameter {
            name: name.into(),
            label: String::new(),
            kind,
            form,
            required: false,
            default: None,
            min: None,
            max: None,
            options: vec!["a".into(), "b".into()],
            multiple: false,
            help: String::new(),
            show_on: Vec::new(),
        }
    }

    fn tool(parameters: Vec<Parameter>) -> Tool {
        Tool {
            file: String::new(),
            name: "t".into(),
            label: String::new(),
            description: String::new(),
            parameters,
            output_schema: None,
            has_runtime_parameters: false,
        }
    }

    fn map(value: Json) -> JsonMap {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn values_are_converted_as_dify_converts_them() {
        for (kind, given, expected) in [
            (Kind::Text, json!(1), json!("1")),
            (Kind::Text, json!(true), json!("True")),
            (Kind::Text, json!({"a": null}), json!("{'a': None}")),
            (Kind::Number, json!("3"), json!(3)),
            (Kind::Number, json!("3.5"), json!(3.5)),
            (Kind::Number, json!(2), json!(2)),
            (Kind::Boolean, json!("No"), json!(false)),
            (Kind::Boolean, json!("yes"), json!(true)),
            (Kind::Boolean, json!("anything"), json!(true)),
            (Kind::Boolean, json!(0), json!(false)),
            (Kind::Select, json!("a"), json!("a")),
            (Kind::Files, json!({"url": "u"}), json!([{"url": "u"}])),
            (Kind::File, json!([{"url": "u"}]), json!({"url": "u"})),
            (Kind::Array, json!("[1, 2]"), json!([1, 2])),
            (Kind::Array, json!("x"), json!(["x"])),
            (Kind::Object, json!("{\"a\": 1}"), json!({"a": 1})),
            (Kind::Object, json!("x"), json!({})),
            (Kind::Any, json!([1]), json!([1])),
        ] {
            assert_eq!(
                cast(&parameter("p", kind, Form::Llm), given.clone()).unwrap(),
                expected,
                "{kind:?} {given}"
            );
        }
        for (kind, given) in [
            (Kind::Number, json!("three")),
            (Kind::Number, json!("nan")),
            (Kind::Number, json!([])),
            (Kind::Select, json!("c")),
            (Kind::File, json!([1, 2])),
            (Kind::Model, json!("gpt")),
        ] {
            assert!(cast(&parameter("p", kind, Form::Llm), given.clone()).is_err(), "{kind:?} {given}");
        }
        let several = Parameter { multiple: true, ..parameter("p", Kind::Select, Form::Form) };
        assert_eq!(cast(&several, json!("a")).unwrap(), json!(["a"]));
        assert!(cast(&several, json!(["a", "c"])).is_err());
    }

    #[test]
    fn defaults_and_empty_fields_are_filled_in() {
        let with_default =
            Parameter { default: Some(json!(5)), ..parameter("often", Kind::Number, Form::Form) };
        let tool = tool(vec![
            parameter("text", Kind::Text, Form::Llm),
            parameter("note", Kind::Text, Form::Form),
            parameter("switch", Kind::Boolean, Form::Form),
            with_default,
        ]);
        let all = parameters(&tool, map(json!({"often": ""}))).unwrap();
        assert_eq!(Json::Object(all), json!({"note": "", "switch": false, "often": 5}));
        let all = parameters(&tool, map(json!({"often": 0, "text": "x"}))).unwrap();
        assert_eq!(Json::Object(all), json!({"text": "x", "note": "", "switch": false, "often": 0}));
    }

    #[test]
    fn missing_and_unknown_parameters_are_named() {
        let needed = Parameter { required: true, ..parameter("text", Kind::Text, Form::Llm) };
        let tool = tool(vec![needed]);
        let error = parameters(&tool, JsonMap::new()).unwrap_err().to_string();
        assert_eq!(error, "the tool t needs a value for the parameter \"text\"");
        let error = parameters(&tool, map(json!({"text": "x", "txt": "y"}))).unwrap_err().to_string();
        assert_eq!(error, "the tool t has no parameter \"txt\"; it has: text");
    }
}
