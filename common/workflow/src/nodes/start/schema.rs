//! JSON schemas of `json_object` inputs: draft 7, compiled once; no schema is fetched over the network.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use serde_json::Value as Json;

use crate::nodes::condition::compare::class_name;
use tidemill_base::value::pyrepr::{repr, repr_text, str_of};

/// Compiles `json_schema`: an object, its JSON text, or nothing (null, blank text, an empty schema).
///
/// # Errors
/// Dify's message: not JSON, not an object, or not a schema.
pub(super) fn compile(given: &Json) -> Result<Option<Validator>, String> {
    let read;
    let schema = match given {
        Json::Null => return Ok(None),
        Json::String(text) if text.trim().is_empty() => return Ok(None),
        Json::String(text) => {
            read = serde_json::from_str(text)
                .map_err(|error| format!("json_schema is not valid JSON: {}", detail(text, &error)))?;
            &read
        }
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => given,
    };
    match schema {
        Json::Object(keys) if keys.is_empty() => Ok(None),
        Json::Object(_) => jsonschema::draft7::options()
            .offline()
            .build(schema)
            .map(Some)
            .map_err(|error| format!("Invalid JSON schema: {}", message(&error))),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            Err(format!("json_schema must be a JSON object, got {}", class_name(schema)))
        }
    }
}

/// The first violation, with the message of Python's validator. `None` when the value fits.
pub(super) fn violation(schema: &Validator, value: &Json) -> Option<String> {
    schema.iter_errors(value).next().map(|error| message(&error))
}

/// Python accepts these three names in JSON; Dify refuses them with this message.
fn detail(text: &str, error: &serde_json::Error) -> String {
    let mut rest = text;
    let mut quoted = false;
    while let Some(c) = rest.chars().next() {
        let constant = ["NaN", "-Infinity", "Infinity"].into_iter().find(|name| rest.starts_with(name));
        match (c, constant) {
            ('"', _) => quoted = !quoted,
            ('\\', _) if quoted => {
                rest = rest.get(1..).filter(|next| next.is_char_boundary(1)).unwrap_or(rest)
            }
            (_, Some(constant)) if !quoted => return format!("invalid constant {constant}"),
            _ => {}
        }
        rest = &rest[rest.chars().next().map_or(1, char::len_utf8)..];
    }
    error.to_string()
}

/// The library's error with values in Python's format. Rare kinds keep the library's message.
pub(in crate::nodes) fn message(error: &ValidationError<'_>) -> String {
    use ValidationErrorKind as Kind;
    let value = || repr(error.instance());
    let listed = |names: &[String]| names.iter().map(|name| repr_text(name)).collect::<Vec<_>>().join(", ");
    match error.kind() {
        Kind::Type { kind: TypeKind::Single(ty) } => format!("{} is not of type '{ty}'", value()),
        Kind::Type { kind: TypeKind::Multiple(types) } => {
            let types = types.iter().map(|ty| format!("'{ty}'")).collect::<Vec<_>>().join(", ");
            format!("{} is not of type {types}", value())
        }
        Kind::Required { property } => format!("{} is a required property", repr(property)),
        Kind::Enum { options } => format!("{} is not one of {}", value(), repr(options)),
        Kind::Constant { expected_value } => format!("{} was expected", repr(expected_value)),
        Kind::Pattern { pattern } => format!("{} does not match {}", value(), repr_text(pattern)),
        Kind::Format { format } => format!("{} is not a {}", value(), repr_text(format)),
        Kind::AdditionalProperties { unexpected } => {
            let verb = if unexpected.len() == 1 { "was" } else { "were" };
            format!("Additional properties are not allowed ({} {verb} unexpected)", listed(unexpected))
        }
        Kind::Minimum { limit } => format!("{} is less than the minimum of {}", value(), str_of(limit)),
        Kind::Maximum { limit } => format!("{} is greater than the maximum of {}", value(), str_of(limit)),
        Kind::ExclusiveMinimum { limit } => {
            format!("{} is less than or equal to the minimum of {}", value(), str_of(limit))
        }
        Kind::ExclusiveMaximum { limit } => {
            format!("{} is greater than or equal to the maximum of {}", value(), str_of(limit))
        }
        Kind::MultipleOf { multiple_of } => format!("{} is not a multiple of {multiple_of}", value()),
        Kind::MinLength { .. } | Kind::MinItems { .. } => format!("{} is too short", value()),
        Kind::MaxLength { .. } | Kind::MaxItems { .. } => format!("{} is too long", value()),
        Kind::MinProperties { .. } => format!("{} does not have enough properties", value()),
        Kind::MaxProperties { .. } => format!("{} has too many properties", value()),
        Kind::FalseSchema => format!("False schema does not allow {}", value()),
        Kind::UniqueItems => format!("{} has non-unique elements", value()),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => {
            format!("{} is not valid under any of the given schemas", value())
        }
        _ => error.to_string(),
    }
}
