//! The form of a run: checks and completes the caller's inputs before the run begins, with Dify's rules and messages,
//! in Dify's order.

use serde_json::{Number, Value as Json};

use super::{InputField, InputKind};
use crate::nodes::condition::compare::class_name;
use tidemill_base::value::coerce::{is_python_space, parse_python_float, parse_python_int};
use tidemill_base::value::pyrepr::{repr_texts, str_of};
use tidemill_base::value::{JsonMap, Segment};

/// Inputs that the form refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// An error of the caller: Dify answers 400 `invalid_param`.
    #[error("{0}")]
    Invalid(String),
    /// A value of a class that Dify does not expect: there an internal error, not a 400.
    #[error("{0}")]
    Type(String),
}

impl FormError {
    /// Dify's text.
    pub fn message(&self) -> &str {
        match self {
            Self::Invalid(message) | Self::Type(message) => message,
        }
    }
    /// True when Dify answers 400 `invalid_param`.
    pub const fn is_invalid_param(&self) -> bool {
        match self {
            Self::Invalid(_) => true,
            Self::Type(_) => false,
        }
    }
}

/// Checks the inputs of a run. The result has exactly the declared inputs, with null for a missing value. NUL
/// characters are removed from texts.
///
/// # Errors
/// The first problem, in the form's order.
pub fn validate_form(fields: &[InputField], inputs: &JsonMap) -> Result<JsonMap, FormError> {
    let mut checked = JsonMap::with_capacity(fields.len());
    for field in fields {
        let given = inputs.get(&field.variable).unwrap_or(&Json::Null);
        let value = match field.value_of(given)? {
            Json::String(text) if text.contains('\0') => Json::String(text.replace('\0', "")),
            value => value,
        };
        checked.insert(field.variable.clone(), value);
    }
    refuse_objects(fields, &checked)?;
    Ok(checked)
}

/// The last check: objects and lists of objects are allowed only for files and `json_object` inputs.
fn refuse_objects(fields: &[InputField], checked: &JsonMap) -> Result<(), FormError> {
    let wrong = |test: fn(&Json) -> bool, allowed: &[InputKind]| {
        let names: Vec<&str> = fields
            .iter()
            .filter(|field| !allowed.contains(&field.kind) && checked.get(&field.variable).is_some_and(test))
            .map(|field| field.variable.as_str())
            .collect();
        if names.is_empty() {
            Ok(())
        } else {
            invalid(format!("Invalid input type for {}", repr_texts(&names)))
        }
    };
    wrong(Json::is_object, &[InputKind::File, InputKind::JsonObject])?;
    wrong(
        |value| value.as_array().is_some_and(|items| items.iter().any(Json::is_object)),
        &[InputKind::FileList],
    )
}

impl InputField {
    fn value_of(&self, given: &Json) -> Result<Json, FormError> {
        let name = &self.variable;
        if given.is_null() && self.required {
            return invalid(format!("{name} is required in input form"));
        }
        let value = if given.is_null() { &self.default } else { given };
        if value.is_null() {
            return Ok(Json::Null);
        }
        match self.kind {
            InputKind::TextInput | InputKind::Paragraph => self.text(value),
            InputKind::Select => self.option(value),
            InputKind::Number => self.number(value),
            InputKind::File => self.file(value),
            InputKind::FileList => self.files(value),
            InputKind::Checkbox => Ok(checkbox(value)),
            InputKind::JsonObject => match value {
                Json::Object(_) => Ok(value.clone()),
                other if Segment::infer(other.clone()).is_falsy() => Ok(value.clone()),
                _ => invalid(format!("{name} in input form must be a dict")),
            },
            InputKind::ExternalDataTool => Ok(value.clone()),
        }
    }

    fn as_text<'a>(&self, value: &'a Json) -> Result<&'a str, FormError> {
        let (kind, name) = (self.kind.name(), &self.variable);
        value.as_str().ok_or_else(|| {
            FormError::Invalid(format!("(type '{kind}') {name} in input form must be a string"))
        })
    }

    fn text(&self, value: &Json) -> Result<Json, FormError> {
        let text = self.as_text(value)?;
        match self.limit() {
            Some(limit) if longer(text.chars().count(), limit) => {
                invalid(format!("{} in input form must be less than {limit} characters", self.variable))
            }
            Some(_) | None => Ok(value.clone()),
        }
    }

    fn option(&self, value: &Json) -> Result<Json, FormError> {
        let text = self.as_text(value)?;
        if self.options.iter().any(|option| option == text) {
            return Ok(value.clone());
        }
        let options = repr_texts(&self.options);
        invalid(format!("{} in input form must be one of the following: {options}", self.variable))
    }

    fn number(&self, value: &Json) -> Result<Json, FormError> {
        match value {
            Json::Number(_) | Json::Bool(_) => Ok(value.clone()),
            Json::String(text) if text.trim_matches(is_python_space).is_empty() => Ok(Json::Null),
            Json::String(text) => number(text).map(Json::Number).ok_or_else(|| {
                FormError::Invalid(format!("{} in input form must be a valid number", self.variable))
            }),
            Json::Null | Json::Array(_) | Json::Object(_) => Err(FormError::Type(format!(
                "expected value type int, float or str, got <class '{}'>, value: {}",
                class_name(value),
                str_of(value)
            ))),
        }
    }

    /// A form sends an empty text for a file that was not chosen.
    fn is_unset_file(&self, value: &Json) -> bool {
        !self.required && value.as_str() == Some("")
    }

    fn file(&self, value: &Json) -> Result<Json, FormError> {
        match value {
            Json::Object(_) => Ok(value.clone()),
            _ if self.is_unset_file(value) => Ok(Json::Null),
            _ => invalid(format!("{} in input form must be a file", self.variable)),
        }
    }

    fn files(&self, value: &Json) -> Result<Json, FormError> {
        if self.is_unset_file(value) {
            return Ok(Json::Null);
        }
        let Some(files) = value.as_array().filter(|items| items.iter().all(Json::is_object)) else {
            return invalid(format!("{} in input form must be a list of files", self.variable));
        };
        match self.limit() {
            Some(limit) if longer(files.len(), limit) => {
                invalid(format!("{} in input form must be less than {limit} files", self.variable))
            }
            Some(_) | None => Ok(value.clone()),
        }
    }

    fn limit(&self) -> Option<u64> {
        self.max_length.filter(|limit| *limit > 0)
    }
}

fn invalid<T>(message: String) -> Result<T, FormError> {
    Err(FormError::Invalid(message))
}

fn longer(count: usize, limit: u64) -> bool {
    u64::try_from(count).is_ok_and(|count| count > limit)
}

/// Reads a text with a dot as a fraction and any other as a whole number, so `1e5` is refused. As in JSON whole numbers
/// beyond 64 bits become fractions.
#[allow(clippy::cast_precision_loss)]
fn number(text: &str) -> Option<Number> {
    if text.contains('.') {
        return Number::from_f64(parse_python_float(text).ok()?);
    }
    let whole = parse_python_int(text).ok()?;
    i64::try_from(whole)
        .map(Number::from)
        .or_else(|_| u64::try_from(whole).map(Number::from))
        .ok()
        .or_else(|| Number::from_f64(whole as f64))
}

fn checkbox(value: &Json) -> Json {
    let truth = match value {
        Json::String(text) => match text.trim_matches(is_python_space).to_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Some(true),
            "false" | "0" | "no" | "off" => Some(false),
            _ => None,
        },
        Json::Number(number) if number.as_f64() == Some(1.0) => Some(true),
        Json::Number(number) if number.as_f64() == Some(0.0) => Some(false),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => None,
    };
    truth.map_or_else(|| value.clone(), Json::Bool)
}
