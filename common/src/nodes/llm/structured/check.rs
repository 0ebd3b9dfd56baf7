//! Holding a value to a schema, with the paths and words of Python's validator. Nothing is fetched from anywhere.

use std::error::Error;

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{Retrieve, Uri, ValidationError, Validator, draft7};
use serde_json::{Value as Json, json};

use crate::nodes::start::schema::message;

/// What stands for every schema that lies elsewhere: only a value that is exactly this would fit it.
const ELSEWHERE: &str = "a schema that lies elsewhere \u{1f}\u{1f}";

/// What does not fit, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    /// As `$.profile.scores[1]`.
    pub(super) path: String,
    pub(super) message: String,
}

/// A schema, compiled; none when a reference in it leads nowhere, which is told when a value is held to it (Dify).
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

    /// The first thing that does not fit, in the order of the schema's keywords.
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

/// A path as Python's validator writes it: names that are not plain stand in brackets.
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
