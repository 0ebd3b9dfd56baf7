//! Schemas of inputs: JSON Schema draft 7 with two more types. `date` is a text `2026-01-31`, with an
//! optional time of day. `timestamp` is a number of seconds or milliseconds since 1970, also as digits in a
//! text. References to other documents are never fetched.

use jsonschema::Validator;
use serde_json::{Value as Json, json};

use tidemill_base::value::JsonMap;

/// The error for an invalid schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid JSON Schema: {0}")]
pub struct SchemaError(pub String);

/// The format that implements the type `date`.
const DATE: &str = "tidemill-date";
/// Deepest chain of `$ref`.
const REFERENCES_MAX: usize = 8;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    source: Json,
    pub(super) validator: Validator,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// The schema is invalid.
    pub fn new(source: Json) -> Result<Self, SchemaError> {
        if !source.is_object() && !source.is_boolean() {
            return Err(SchemaError("a schema must be an object".into()));
        }
        let options = jsonschema::draft7::options().offline().with_format(DATE, is_date);
        let options = options.should_validate_formats(true);
        let built = options.build(&standard(&source)).map_err(|error| SchemaError(error.to_string()));
        Ok(Self { validator: built?, source })
    }

    /// Returns the schema in its original form.
    pub fn source(&self) -> &Json {
        &self.source
    }

    /// Returns the schema of a place; `{}` where it has none.
    pub fn at(&self, pointer: &str) -> Json {
        let found = super::pointer::steps(pointer)
            .try_fold(&self.source, |schema, step| below(&self.source, schema, &step, 0));
        found.map_or_else(|| json!({}), |schema| resolved(&self.source, schema, 0).clone())
    }
}

/// Returns the schema of the value under a key, from all parts of the schema.
fn below<'a>(root: &'a Json, schema: &'a Json, step: &str, depth: usize) -> Option<&'a Json> {
    let schema = resolved(root, schema, 0);
    let property = schema.get("properties").and_then(|properties| properties.get(step));
    let item = || match schema.get("items")? {
        Json::Array(items) => items.get(step.parse::<usize>().ok()?),
        items => step.parse::<usize>().ok().map(|_| items),
    };
    let parts = || {
        let lists = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|key| schema.get(key)?.as_array());
        let mut parts = lists.flatten().filter(|_| depth < REFERENCES_MAX);
        parts.find_map(|part| below(root, part, step, depth + 1))
    };
    let rest = || schema.get("additionalProperties").filter(|rest| rest.is_object());
    property.or_else(item).or_else(parts).or_else(rest)
}

fn resolved<'a>(root: &'a Json, schema: &'a Json, depth: usize) -> &'a Json {
    let reference = schema.get("$ref").and_then(Json::as_str).and_then(|path| path.strip_prefix('#'));
    match reference.and_then(|path| root.pointer(path)).filter(|_| depth < REFERENCES_MAX) {
        Some(found) => resolved(root, found, depth + 1),
        None => schema,
    }
}

/// Rewrites the schema to draft 7.
fn standard(schema: &Json) -> Json {
    let Json::Object(map) = schema else {
        return match schema {
            Json::Array(items) => items.iter().map(standard).collect(),
            other => other.clone(),
        };
    };
    let mut out = JsonMap::new();
    for (key, value) in map {
        let value = match key.as_str() {
            // Values, which contain no schemas.
            "default" | "enum" | "const" | "examples" => value.clone(),
            // The keys of these are names chosen by the author.
            "properties" | "patternProperties" | "definitions" | "dependencies" => match value {
                Json::Object(named) => {
                    named.iter().map(|(name, schema)| (name.clone(), standard(schema))).collect()
                }
                other => other.clone(),
            },
            _ => standard(value),
        };
        out.insert(key.clone(), value);
    }
    let ours = |ty: &Json| matches!(ty.as_str(), Some("date" | "timestamp"));
    match map.get("type") {
        Some(ty) if ours(ty) => {
            out.remove("type");
            with(out, vec![alternative(ty)])
        }
        Some(Json::Array(types)) if types.iter().any(ours) => {
            out.remove("type");
            with(out, types.iter().map(alternative).collect())
        }
        _ => Json::Object(out),
    }
}

fn alternative(ty: &Json) -> Json {
    match ty.as_str() {
        Some("date") => json!({"type": "string", "format": DATE}),
        Some("timestamp") => json!({"anyOf": [
            {"type": "number", "minimum": 0},
            {"type": "string", "pattern": "^[0-9]{1,16}$"},
        ]}),
        _ => json!({"type": ty}),
    }
}

/// Combines the rest of a schema with a choice of alternatives.
fn with(rest: JsonMap, alternatives: Vec<Json>) -> Json {
    json!({"allOf": [Json::Object(rest), {"anyOf": alternatives}]})
}

/// True for `2026-01-31`, with an optional time of day.
fn is_date(text: &str) -> bool {
    chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok()
        || ["%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"]
            .into_iter()
            .any(|format| chrono::NaiveDateTime::parse_from_str(text, format).is_ok())
        || chrono::DateTime::parse_from_rfc3339(text).is_ok()
}

/// Returns a schema with some of its properties replaced as a whole. Unknown properties are added.
#[must_use]
pub fn with_overrides(schema: &Json, overrides: &JsonMap) -> Json {
    if overrides.is_empty() {
        return schema.clone();
    }
    let mut out = schema.as_object().cloned().unwrap_or_default();
    out.entry("type").or_insert_with(|| json!("object"));
    let properties = out.entry("properties").or_insert_with(|| json!({}));
    if let Json::Object(properties) = properties {
        for (key, value) in overrides {
            properties.insert(key.clone(), value.clone());
        }
    }
    Json::Object(out)
}
