//! Reads an operation from a service's OpenAPI document: its request and its parameters.
//!
//! A step names it by its `operationId`, or by method and path (`get /weather/{city}`). The parameters are grouped by
//! place (`path`, `query`, `headers`, `body`), so that missing required ones can be filled.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::step::CallError;
use tidemill_common::value::JsonMap;

use crate::outside::calls::api::SERVICE_METADATA;
use crate::outside::calls::api::request::content_types;
use crate::outside::openapi::document::resolved;
use crate::outside::openapi::operation::{Described, Parameter, Place, operations};
use crate::outside::openapi::request::MediaType;

/// Deepest level of a schema that is read.
const LEVELS_MAX: usize = 64;
/// Most parts of an operation's schemas, with references resolved.
const PARTS_MAX: usize = 10_000;
/// Most operations an error lists.
const NAMED_MAX: usize = 20;

/// An operation, ready for use.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Operation {
    method: String,
    path: String,
    /// The content type of the body, if there is one.
    content_type: Option<String>,
    /// The schemas of `path`, `query`, `headers` and `body`, if present.
    places: JsonMap,
    /// The places with required fields.
    required: Vec<String>,
}

/// Finds an operation in a service's document.
///
/// # Errors
/// The operation does not exist, or cannot be called.
pub(super) fn find(document: &Json, service: &str, name: &str) -> Result<Operation, CallError> {
    let wrong = |reason: String| CallError::of(SERVICE_METADATA, format!("service {service}: {reason}"));
    let mut known = Vec::new();
    for described in operations(document) {
        let plain = format!("{} {}", described.method, described.path);
        let id = described.id();
        if id == Some(name) || is_same(&plain, name) {
            return read(document, &described).map_err(wrong);
        }
        known.push(id.map_or(plain, str::to_owned));
    }
    let more = if known.len() > NAMED_MAX { ", …" } else { "" };
    known.truncate(NAMED_MAX);
    Err(wrong(format!("its OpenAPI document has no operation {name:?}; it has {}{more}", known.join(", "))))
}

/// Returns true if both name the same method and path.
fn is_same(known: &str, name: &str) -> bool {
    let Some((method, path)) = name.trim().split_once(char::is_whitespace) else { return false };
    known.split_once(' ') == Some((&*method.to_ascii_lowercase(), path.trim()))
}

fn read(document: &Json, described: &Described<'_>) -> Result<Operation, String> {
    let (method, path) = (described.method, described.path);
    let (mut places, mut required) = (JsonMap::new(), Vec::new());
    let mut whole = Whole { document, within: Vec::new(), parts: 0 };
    for Parameter { place, name, is_required, fields } in described.parameters() {
        let place = match place {
            Place::Path => "path",
            Place::Query => "query",
            Place::Header => "headers",
            // Cookies belong to the service's credentials; a call has no input for them.
            Place::Cookie if is_required => {
                return Err(format!(
                    "{method} {path} needs the cookie {name}: keep it with the service (auth.cookie)"
                ));
            }
            Place::Cookie => continue,
        };
        let schema = fields.get("schema").map(|schema| whole.of(schema, 0)).transpose()?;
        let mut schema = schema.unwrap_or_else(|| json!({}));
        if let (Some(description), Some(schema)) = (fields.get("description"), schema.as_object_mut()) {
            schema.entry("description").or_insert_with(|| description.clone());
        }
        let of = places
            .entry(place)
            .or_insert_with(|| json!({"type": "object", "properties": {}, "required": []}));
        of["properties"][name] = schema;
        if place == "path" || is_required {
            if let Some(names) = of["required"].as_array_mut() {
                names.push(name.into());
            }
            if !required.iter().any(|known| known == place) {
                required.push(place.to_owned());
            }
        }
    }
    let mut content_type = None;
    // Other methods have no body.
    let takes_body = matches!(method, "post" | "put" | "patch");
    if let Some(body) = described.body().filter(|_| takes_body) {
        let found = Described::contents(body).find(|(name, _)| MediaType::of(name).is_some());
        let Some((name, of)) = found else {
            return Err(format!("{method} {path} accepts none of {}", content_types()));
        };
        content_type = Some(name.to_owned());
        let schema = of.get("schema").map(|schema| whole.of(schema, 0)).transpose()?;
        places.insert("body".into(), schema.unwrap_or_else(|| json!({})));
        if body.get("required").and_then(Json::as_bool) == Some(true) {
            required.push("body".to_owned());
        }
    }
    Ok(Operation { method: method.into(), path: path.into(), content_type, places, required })
}

/// Resolves references in schemas.
struct Whole<'a> {
    document: &'a Json,
    /// The references being followed.
    within: Vec<&'a str>,
    parts: usize,
}

impl<'a> Whole<'a> {
    /// Returns a schema without references, as JSON Schema draft 7. Recursive and too deep parts are left open.
    fn of(&mut self, schema: &'a Json, level: usize) -> Result<Json, String> {
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(format!("the schemas of an operation have more than {PARTS_MAX} parts"));
        }
        let reference = schema.get("$ref").and_then(Json::as_str);
        if level > LEVELS_MAX || reference.is_some_and(|reference| self.within.contains(&reference)) {
            return Ok(json!({}));
        }
        self.within.extend(reference);
        let made = match resolved(self.document, schema) {
            Json::Object(map) => {
                let mut out = JsonMap::new();
                for (key, value) in map {
                    let value = match (key.as_str(), value) {
                        ("properties" | "patternProperties", Json::Object(fields)) => {
                            let fields = fields
                                .iter()
                                .map(|(name, field)| Ok((name.clone(), self.of(field, level + 1)?)));
                            Json::Object(fields.collect::<Result<_, String>>()?)
                        }
                        // These keywords contain values, not schemas.
                        ("default" | "enum" | "const" | "example" | "examples", value) => value.clone(),
                        (_, value) => self.of(value, level + 1)?,
                    };
                    out.insert(key.clone(), value);
                }
                draft7(&mut out);
                Json::Object(out)
            }
            Json::Array(items) => {
                items.iter().map(|item| self.of(item, level + 1)).collect::<Result<_, String>>()?
            }
            other => other.clone(),
        };
        if reference.is_some() {
            self.within.pop();
        }
        Ok(made)
    }
}

/// Converts the keywords of OpenAPI 3.0 that differ.
fn draft7(schema: &mut JsonMap) {
    for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match schema.get(flag) {
            Some(Json::Bool(true)) => match schema.shift_remove(bound) {
                Some(value) => drop(schema.insert(flag.into(), value)),
                None => drop(schema.shift_remove(flag)),
            },
            Some(Json::Bool(false)) => drop(schema.shift_remove(flag)),
            _ => {}
        }
    }
    if schema.get("nullable") == Some(&Json::Bool(true)) {
        schema.shift_remove("nullable");
        if let Some(Json::String(ty)) = schema.get("type").cloned() {
            schema.insert("type".into(), json!([ty, "null"]));
        }
    }
}

impl Operation {
    /// Adds the document's method, path and content type to the input, and empty objects for required places, so that
    /// they can be filled.
    pub(super) fn complete(&self, input: &mut JsonMap) {
        input.insert("url".into(), self.path.clone().into());
        input.insert("method".into(), self.method.clone().into());
        if let Some(name) = &self.content_type {
            input.entry("content_type").or_insert_with(|| name.clone().into());
        }
        for place in &self.required {
            let is_object = self.places[place].get("type").is_none_or(|ty| ty == "object");
            if is_object && input.get(place).is_none_or(Json::is_null) {
                input.insert(place.clone(), json!({}));
            }
        }
    }

    /// Adds the operation's parameters to the general schema of the input.
    pub(super) fn schema(&self, mut general: Json) -> Json {
        if let Some(properties) = general.get_mut("properties").and_then(Json::as_object_mut) {
            properties.extend(self.places.clone());
        }
        if let Some(required) = general.get_mut("required").and_then(Json::as_array_mut) {
            required.extend(self.required.iter().map(|place| place.as_str().into()));
        }
        general
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::slots::Schema;

    fn document() -> Json {
        json!({
            "openapi": "3.0.0",
            "paths": {
                "/weather/{city}": {
                    "parameters": [
                        {"name": "city", "in": "path", "required": true, "schema": {"type": "string"}},
                        {"name": "days", "in": "query", "schema": {"type": "string"}},
                    ],
                    "get": {"operationId": "forecast", "parameters": [
                        {"name": "days", "in": "query", "required": true, "description": "How many",
                         "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": true}},
                        {"$ref": "#/components/parameters/Trace"},
                    ]},
                    "post": {"requestBody": {"required": true, "content": {
                        "text/xml": {}, "application/json": {"schema": {"$ref": "#/components/schemas/Report"}}}}},
                },
                "/odd": {
                    "put": {"requestBody": {"content": {"text/xml": {}}}},
                    "get": {"parameters": [{"name": "sid", "in": "cookie", "required": true}]},
                },
            },
            "components": {
                "parameters": {"Trace": {"name": "X-Trace", "in": "header", "schema": {"type": "string"}}},
                "schemas": {"Report": {"type": "object", "required": ["text"], "properties": {
                    "text": {"type": "string", "nullable": true}, "of": {"$ref": "#/components/schemas/Report"}}}},
            },
        })
    }

    fn found(name: &str) -> Operation {
        find(&document(), "svc", name).unwrap()
    }

    #[test]
    fn an_operation_is_found_by_its_id_or_by_method_and_path() {
        let forecast = found("forecast");
        assert_eq!(found("GET /weather/{city}"), forecast);
        let mut input = json!({"url": "x", "query": {"days": 3}}).as_object().cloned().unwrap();
        forecast.complete(&mut input);
        let expected = json!({"url": "/weather/{city}", "query": {"days": 3}, "method": "get", "path": {}});
        assert_eq!(Json::Object(input), expected);
        let error = find(&document(), "svc", "nope").unwrap_err();
        assert_eq!(error.error_type, "ServiceMetadataError");
        assert!(error.message.contains("forecast, post /weather/{city}"), "{error}");
        for (name, part) in [("put /odd", "accepts none of"), ("get /odd", "cookie sid")] {
            let error = find(&document(), "svc", name).unwrap_err();
            assert!(error.message.contains(part), "{error}");
        }
    }

    #[test]
    fn a_cookie_of_the_path_is_not_needed_where_the_operation_makes_it_optional() {
        let document = json!({"openapi": "3.0.0", "paths": {"/x": {
            "parameters": [{"name": "sid", "in": "cookie", "required": true}],
            "get": {"parameters": [{"name": "sid", "in": "cookie", "required": false}]},
            "delete": {},
        }}});
        assert_eq!(find(&document, "svc", "get /x").unwrap().places, JsonMap::new());
        let error = find(&document, "svc", "delete /x").unwrap_err();
        assert!(error.message.contains("cookie sid"), "{error}");
    }

    #[test]
    fn what_it_requires_is_missing_where_it_is_not_given() {
        let missing = |name: &str, input: Json| {
            let operation = found(name);
            let mut input = input.as_object().cloned().unwrap();
            operation.complete(&mut input);
            let general =
                json!({"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}});
            let schema = Schema::new(operation.schema(general)).unwrap();
            let missing = schema.missing(&Json::Object(input));
            missing.into_iter().map(|field| field.pointer).collect::<Vec<_>>()
        };
        assert_eq!(missing("forecast", json!({})), ["/path/city", "/query/days"]);
        assert_eq!(
            missing("forecast", json!({"path": {"city": "Rome"}, "query": {"days": 0}})),
            ["/query/days"]
        );
        assert_eq!(missing("forecast", json!({"path": {"city": "Rome"}, "query": {"days": 1}})), [""; 0]);
        assert_eq!(missing("post /weather/{city}", json!({"path": {"city": "Rome"}})), ["/body/text"]);
        let nothing = json!({"path": {"city": "Rome"}, "body": {"text": null, "of": {"text": "x"}}});
        assert_eq!(missing("post /weather/{city}", nothing), [""; 0]);
    }
}
