//! Validates a value against a schema, with the paths and messages of Python's validator. No schema is fetched over the
//! network.

use std::error::Error;

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{Retrieve, Uri, ValidationError, Validator, draft7};
use serde_json::{Value as Json, json};

use crate::nodes::start::schema::message;

/// Replaces each external schema: only exactly this value would fit.
const ELSEWHERE: &str = "an external schema \u{1f}\u{1f}";

/// A mismatch and its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    /// For example `$.profile.scores[1]`.
    pub(super) path: String,
    pub(super) message: String,
}

/// A compiled schema. `None` when it has an unresolvable reference; as on Dify that is only reported when a value is
/// validated.
#[derive(Debug)]
pub(super) struct Check(Option<Validator>);

impl Check {
    /// Compiles a schema.
    pub(super) fn new(schema: &Json) -> Result<Self, Mistake> {
        draft7::meta::validate(schema).map_err(|error| mistake(&error))?;
        match draft7::options().with_retriever(Elsewhere).build(schema) {
            Ok(validator) => Ok(Self(Some(validator))),
            Err(error) if matches!(error.kind(), ValidationErrorKind::Referencing(_)) => Ok(Self(None)),
            Err(error) => Err(mistake(&error)),
        }
    }

    /// The first mismatch, in the order of the schema's keywords.
    pub(super) fn mistake(&self, value: &Json) -> Option<Mistake> {
        let Some(validator) = &self.0 else { return Some(unresolved()) };
        let error = validator.iter_errors(value).next()?;
        let leads_elsewhere = matches!(
            error.kind(), ValidationErrorKind::Constant { expected_value } if **expected_value == *ELSEWHERE
        );
        Some(if leads_elsewhere { unresolved() } else { mistake(&error) })
    }
}

struct Elsewhere;

impl Retrieve for Elsewhere {
    fn retrieve(&self, _: &Uri<String>) -> Result<Json, Box<dyn Error + Send + Sync>> {
        Ok(json!({"const": ELSEWHERE}))
    }
}

fn unresolved() -> Mistake {
    Mistake { path: "$".into(), message: "schema reference could not be resolved".into() }
}

fn mistake(error: &ValidationError<'_>) -> Mistake {
    Mistake { path: json_path(error.instance_path()), message: message(error) }
}

/// A path in the format of Python's validator: unusual names are in brackets.
fn json_path(location: &Location) -> String {
    let mut path = String::from("$");
    for segment in location {
        match segment {
            LocationSegment::Index(at) => path.push_str(&format!("[{at}]")),
            LocationSegment::Property(name) => {
                let plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
                    && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                if plain {
                    path.push('.');
                    path.push_str(&name);
                } else {
                    let name = name.replace('\\', r"\\").replace('\'', r"\'");
                    path.push_str(&format!("['{name}']"));
                }
            }
        }
    }
    path
}
