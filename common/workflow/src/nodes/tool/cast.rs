//! Converts a parameter's value to the type that its tool declares, by Dify's rules. Values from a workflow are mostly
//! texts.

use serde_json::{Value as Json, json};

use super::ParameterType;
use tidemill_base::value::Segment;
use tidemill_base::value::coerce::{parse_python_float, parse_python_int};
use tidemill_base::value::pyrepr::{repr, str_of};

/// The value in the type.
///
/// # Errors
/// Dify's message for a value that cannot be converted.
pub fn cast(ty: ParameterType, value: &Json) -> Result<Json, String> {
    let wrong = || {
        format!("The tool parameter value {} is not in correct type of {}.", repr(value), ty.normal_name())
    };
    Ok(match ty {
        ParameterType::String
        | ParameterType::SecretInput
        | ParameterType::Select
        | ParameterType::Checkbox
        | ParameterType::DynamicSelect => match value {
            Json::Null => json!(""),
            other => Json::String(str_of(other).into_owned()),
        },
        ParameterType::Boolean => Json::Bool(truth(value)),
        ParameterType::Number => match value {
            Json::Null => Json::Null,
            Json::Number(_) => value.clone(),
            Json::String(text) if text.is_empty() => Json::Null,
            Json::String(text) => number(text).ok_or_else(wrong)?,
            // In Python booleans are numbers.
            Json::Bool(_) => value.clone(),
            Json::Array(_) | Json::Object(_) => return Err(wrong()),
        },
        ParameterType::File => match value.as_array().map(Vec::as_slice) {
            Some([one]) => one.clone(),
            Some([]) => Json::Null,
            Some(_) => {
                return Err(
                    "This parameter only accepts one file but got multiple files while invoking.".into()
                );
            }
            None => value.clone(),
        },
        ParameterType::Files | ParameterType::SystemFiles => match value {
            Json::Array(_) => value.clone(),
            other => json!([other]),
        },
        ParameterType::ModelSelector | ParameterType::AppSelector => match value {
            Json::Object(_) => value.clone(),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
                return Err(wrong());
            }
        },
        ParameterType::Array => match value {
            Json::Array(_) => value.clone(),
            Json::String(text) => match serde_json::from_str(text) {
                Ok(list @ Json::Array(_)) => list,
                Ok(_) | Err(_) => json!([value]),
            },
            other => json!([other]),
        },
        ParameterType::Object => match value {
            Json::Object(_) => value.clone(),
            Json::String(text) => match serde_json::from_str(text) {
                Ok(map @ Json::Object(_)) => map,
                Ok(_) | Err(_) => json!({}),
            },
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) => json!({}),
        },
        ParameterType::Any => value.clone(),
    })
}

fn truth(value: &Json) -> bool {
    match value {
        Json::String(text) => match text.to_lowercase().as_str() {
            "true" | "yes" | "y" | "1" => true,
            "false" | "no" | "n" | "0" => false,
            other => !other.is_empty(),
        },
        other => !Segment::infer(other.clone()).is_falsy(),
    }
}

fn number(text: &str) -> Option<Json> {
    if text.contains('.') {
        return parse_python_float(text).ok().map(|float| json!(float)).filter(|float| !float.is_null());
    }
    let whole = parse_python_int(text).ok()?;
    i64::try_from(whole).map(|whole| json!(whole)).or_else(|_| u64::try_from(whole).map(|w| json!(w))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_get_the_declared_types() {
        use ParameterType::*;
        let file = json!({"dify_model_identity": "__dify__file__"});
        for (ty, value, expected) in [
            (String, json!(null), json!("")),
            (Select, json!(5), json!("5")),
            (SecretInput, json!(true), json!("True")),
            (Checkbox, json!({"a": 1}), json!("{'a': 1}")),
            (Boolean, json!(null), json!(false)),
            (Boolean, json!("YES"), json!(true)),
            (Boolean, json!("n"), json!(false)),
            (Boolean, json!("perhaps"), json!(true)),
            (Boolean, json!(""), json!(false)),
            (Boolean, json!(0), json!(false)),
            (Number, json!("3"), json!(3)),
            (Number, json!("-3.50"), json!(-3.5)),
            (Number, json!(2.5), json!(2.5)),
            (Number, json!(""), json!(null)),
            (Number, json!(null), json!(null)),
            (File, json!([file]), file.clone()),
            (File, file.clone(), file.clone()),
            (Files, file.clone(), json!([file])),
            (SystemFiles, json!([file]), json!([file])),
            (ModelSelector, json!({"m": 1}), json!({"m": 1})),
            (Array, json!("[1, 2]"), json!([1, 2])),
            (Array, json!("a"), json!(["a"])),
            (Array, json!(1), json!([1])),
            (Object, json!("{\"a\": 1}"), json!({"a": 1})),
            (Object, json!("[1]"), json!({})),
            (Object, json!(null), json!({})),
            (Any, json!("5"), json!("5")),
        ] {
            assert_eq!(cast(ty, &value), Ok(expected), "{ty:?} {value}");
        }
    }

    #[test]
    fn a_value_that_cannot_have_the_type_is_refused() {
        for (ty, value, message) in [
            (
                ParameterType::Number,
                json!("x"),
                "The tool parameter value 'x' is not in correct type of number.",
            ),
            (
                ParameterType::Number,
                json!([]),
                "The tool parameter value [] is not in correct type of number.",
            ),
            (
                ParameterType::AppSelector,
                json!("app"),
                "The tool parameter value 'app' is not in correct type of app-selector.",
            ),
            (
                ParameterType::File,
                json!([1, 2]),
                "This parameter only accepts one file but got multiple files while invoking.",
            ),
        ] {
            assert_eq!(cast(ty, &value), Err(message.to_owned()));
        }
    }
}
