//! Reads the environment and conversation variables of a document, with the checks of Dify's importer.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::Problems;
use super::document::DocumentVariable;
use super::fields::shown;
use tidemill_base::limits::{DESCRIPTION_CHARS_MAX, VARIABLE_BYTES_MAX};
use tidemill_base::value::{JsonMap, Segment, SegmentType};

const INVALID: &str = "runtime_variables.invalid";
const INVALID_ITEM: &str = "runtime_variables.invalid_item";
const INVALID_NAME: &str = "runtime_variables.invalid_name";

/// The list that a variable is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// `workflow.environment_variables`; may hold secrets.
    Environment,
    /// `workflow.conversation_variables`.
    Conversation,
}

impl Scope {
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Environment => "environment_variables",
            Self::Conversation => "conversation_variables",
        }
    }
}

/// Reads one list of variables from `workflow`. An absent or null list is empty.
pub(super) fn read(workflow: &JsonMap, scope: Scope, problems: &mut Problems) -> Vec<DocumentVariable> {
    let items = match workflow.get(scope.key()) {
        None | Some(Json::Null) => return Vec::new(),
        Some(Json::Array(items)) => items,
        Some(_) => {
            problems.within(scope.key(), |problems| problems.error(INVALID, "the variables must be a list"));
            return Vec::new();
        }
    };
    let mut places: HashMap<Arc<str>, usize> = HashMap::new();
    let mut variables: Vec<DocumentVariable> = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        problems.within(format!("{}[{at}]", scope.key()), |problems| {
            let Some(variable) = read_item(item, scope, problems) else { return };
            if let Some(&first) = places.get(&variable.name) {
                let message = format!("two variables are named {:?}; the last one is used", variable.name);
                problems.warning("runtime_variables.duplicate_name", message);
                variables[first] = variable;
                return;
            }
            places.insert(variable.name.clone(), variables.len());
            variables.push(variable);
        });
    }
    variables
}

fn read_item(item: &Json, scope: Scope, problems: &mut Problems) -> Option<DocumentVariable> {
    let Some(item) = item.as_object() else {
        problems.error(INVALID_ITEM, "a variable must be a mapping");
        return None;
    };
    let given = |key: &str| item.get(key).filter(|value| !value.is_null());
    let text = |key: &str| given(key).and_then(Json::as_str).unwrap_or_default();
    let Some(name) = given("name").and_then(Json::as_str).filter(|name| !name.is_empty()) else {
        problems.error(INVALID_NAME, "missing name");
        return None;
    };
    let Some(type_name) = given("value_type") else {
        problems.error(INVALID_ITEM, format!("variable {name:?}: missing value type"));
        return None;
    };
    let Some(value) = given("value") else {
        problems.error(INVALID_ITEM, format!("variable {name:?}: missing value"));
        return None;
    };
    let value = match segment(type_name, value, scope) {
        Ok(value) => value,
        Err(reason) => {
            problems.error(INVALID_ITEM, format!("variable {name:?}: {reason}"));
            return None;
        }
    };
    check_sizes(name, &value, text("description"), problems);
    Some(DocumentVariable {
        id: text("id").into(),
        name: name.into(),
        value,
        description: text("description").into(),
    })
}

fn check_sizes(name: &str, value: &Segment, description: &str, problems: &mut Problems) {
    let size = match &value.value {
        Json::String(text) => text.len(),
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        large @ (Json::Array(_) | Json::Object(_)) => large.to_string().len(),
    };
    if size > VARIABLE_BYTES_MAX {
        let message = format!("variable {name:?}: variable size {size} exceeds limit {VARIABLE_BYTES_MAX}");
        problems.error_with_hint(INVALID_ITEM, message, "raise MAX_VARIABLE_SIZE, or pass it as an input");
    }
    if description.chars().count() > DESCRIPTION_CHARS_MAX {
        let message =
            format!("the description of {name:?} is longer than {DESCRIPTION_CHARS_MAX} characters");
        problems.warning("runtime_variables.long_description", message);
    }
}

/// Reads a value with its declared type; the value itself decides between integer and float. Errors never
/// contain a secret.
fn segment(type_name: &Json, value: &Json, scope: Scope) -> Result<Segment, String> {
    let unsupported = || format!("not supported value type {}", shown(type_name));
    let type_name = type_name.as_str().ok_or_else(unsupported)?;
    let declared = match type_name {
        "integer" | "float" | "number" => {
            return match value {
                Json::Number(_) => Ok(Segment::infer(value.clone())),
                Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => {
                    Err(format!("invalid number value {}", shown(value)))
                }
            };
        }
        "secret" if scope == Scope::Environment => SegmentType::Secret,
        "string" => SegmentType::String,
        "boolean" => SegmentType::Boolean,
        "object" => SegmentType::Object,
        "array[string]" => SegmentType::ArrayString,
        "array[number]" => SegmentType::ArrayNumber,
        "array[object]" => SegmentType::ArrayObject,
        "array[boolean]" => SegmentType::ArrayBoolean,
        _ => return Err(unsupported()),
    };
    if !fits(declared, value) {
        return Err(if declared == SegmentType::Secret {
            "the value of a secret must be a text".into()
        } else {
            format!("the value {} does not fit the type {type_name}", shown(value))
        });
    }
    Ok(Segment::new(declared, value.clone()))
}

fn fits(declared: SegmentType, value: &Json) -> bool {
    let items = |test: fn(&Json) -> bool| value.as_array().is_some_and(|items| items.iter().all(test));
    match declared {
        SegmentType::String | SegmentType::Secret => value.is_string(),
        SegmentType::Boolean => value.is_boolean(),
        SegmentType::Object => value.is_object(),
        SegmentType::ArrayString => items(Json::is_string),
        SegmentType::ArrayNumber => items(Json::is_number),
        SegmentType::ArrayObject => items(Json::is_object),
        SegmentType::ArrayBoolean => items(Json::is_boolean),
        SegmentType::None
        | SegmentType::Integer
        | SegmentType::Float
        | SegmentType::File
        | SegmentType::ArrayAny
        | SegmentType::ArrayFile => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_one(scope: Scope, item: Json) -> Result<DocumentVariable, String> {
        let mut problems = Problems::new();
        let workflow = json!({ scope.key(): [item] });
        let mut found = read(workflow.as_object().unwrap(), scope, &mut problems);
        found.pop().ok_or_else(|| problems.into_vec().remove(0).message)
    }

    #[test]
    fn a_variable_has_the_type_it_declares() {
        for (type_name, value, ty) in [
            ("string", json!("x"), "string"),
            ("secret", json!(""), "secret"),
            ("number", json!(1), "integer"),
            ("number", json!(1.5), "float"),
            ("array[string]", json!([]), "array[string]"),
            ("object", json!({}), "object"),
            ("boolean", json!(false), "boolean"),
        ] {
            let item = json!({"name": "v", "value_type": type_name, "value": value});
            assert_eq!(read_one(Scope::Environment, item).unwrap().value.ty.name(), ty);
        }
    }

    #[test]
    fn variables_that_dify_refuses_are_refused_with_its_messages() {
        let long = "x".repeat(VARIABLE_BYTES_MAX + 1);
        for (item, reason) in [
            (json!({"value_type": "string", "value": "x"}), "missing name"),
            (json!({"name": "v", "value": "x"}), "missing value type"),
            (json!({"name": "v", "value_type": "string", "value": null}), "missing value"),
            (json!({"name": "v", "value_type": "number", "value": "1"}), "invalid number value"),
            (json!({"name": "v", "value_type": "secret", "value": "1"}), "not supported value type"),
            (json!({"name": "v", "value_type": "array[any]", "value": []}), "not supported value type"),
            (json!({"name": "v", "value_type": "array[number]", "value": ["a"]}), "does not fit"),
            (json!("v"), "must be a mapping"),
        ] {
            let error = read_one(Scope::Conversation, item).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        let mut problems = Problems::new();
        let workflow =
            json!({"environment_variables": [{"name": "v", "value_type": "string", "value": long}]});
        read(workflow.as_object().unwrap(), Scope::Environment, &mut problems);
        assert!(problems.into_vec()[0].message.contains("exceeds limit 204800"));
    }
}
