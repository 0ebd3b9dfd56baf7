//! Converts an OpenAPI document to tools, by Dify's rules: names, parameters and their types.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_common::nodes::tool::cast::cast;
use tidemill_common::nodes::tool::{Declaration, Form, Parameter, ParameterType};
use tidemill_common::value::JsonMap;
use url::Url;

use crate::outside::openapi::document::{parsed, resolved};
use crate::outside::openapi::operation::{Described, Parameter as Listed, Place, operations};

/// A parameter outside of the body.
#[derive(Debug, Clone, PartialEq)]
pub struct Outer {
    pub name: String,
    pub place: Place,
    pub required: bool,
    /// The value when none is given.
    pub default: Option<Json>,
}

/// The body of an operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Body {
    /// The operation's first media type; the only one used.
    pub media_type: String,
    /// The schemas of its properties, by name.
    pub properties: JsonMap,
    /// The names of required properties.
    pub required: Vec<String>,
}

/// An operation as a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    pub declaration: Declaration,
    pub method: Method,
    /// Server and path, with path parameters in braces.
    pub url: String,
    /// Parameters outside of the body.
    pub outer: Vec<Outer>,
    pub body: Option<Body>,
}

/// Reads the operations of a document. `server` overrides the document's servers.
///
/// # Errors
/// The reason it cannot be used, in Dify's words if Dify has some.
pub fn read(text: &[u8], server: Option<&str>) -> Result<Vec<Operation>, String> {
    let document = parsed(text)?;
    let listed = document.pointer("/servers/0/url").and_then(Json::as_str);
    let server = server.or(listed).ok_or("No server found in the openapi yaml.")?.trim_end_matches('/');
    Url::parse(server)
        .map_err(|error| format!("the server {server:?} is not a URL: {error}; set `server`"))?;
    if document.get("paths").and_then(Json::as_object).is_none() {
        return Err("No paths found in the openapi yaml.".into());
    }
    Ok(operations(&document).map(|described| operation(&document, server, &described)).collect())
}

fn operation(document: &Json, server: &str, described: &Described<'_>) -> Operation {
    let mut outer: Vec<Outer> = Vec::new();
    let mut parameters: Vec<Parameter> = Vec::new();
    for one in described.parameters() {
        let Listed { place, name, is_required: required, fields } = one;
        let schema = resolved(document, fields.get("schema").unwrap_or(&Json::Null));
        let described = text(fields, "description").or_else(|| text(schema, "description"));
        // Dify's tools have one argument for all parameters of a name.
        parameters.retain(|known| known.name != name);
        outer.push(Outer { name: name.into(), place, required, default: schema.get("default").cloned() });
        parameters.push(parameter(name, schema, required, described));
    }
    let body = described.body().and_then(|body| body_of(document, body));
    for (name, schema) in body.iter().flat_map(|body| &body.properties) {
        let required = body.as_ref().is_some_and(|body| body.required.contains(name));
        let schema = resolved(document, schema);
        if !parameters.iter().any(|known| known.name == *name) {
            parameters.push(parameter(name, schema, required, text(schema, "description")));
        }
    }
    let text = |key: &str| described.fields.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
    let (path, method) = (described.path, described.method);
    let declaration = Declaration {
        name: described.id().map_or_else(|| name_of(path, method), str::to_owned),
        description: text("description").or_else(|| text("summary")).unwrap_or_default().to_owned(),
        parameters,
        takes_more: false,
        has_output_schema: false,
    };
    let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).unwrap_or(Method::GET);
    Operation { declaration, method, url: format!("{server}{path}"), outer, body }
}

/// Builds the name of an unnamed operation.
fn name_of(path: &str, method: &str) -> String {
    let kept: String = path.chars().filter(|c| c.is_ascii_alphanumeric() || "_-".contains(*c)).collect();
    format!("{}_{method}", if kept.is_empty() { "<root>" } else { &kept })
}

fn body_of(document: &Json, body: &Json) -> Option<Body> {
    let (media_type, content) = Described::contents(body).next()?;
    let schema = resolved(document, content.get("schema").unwrap_or(&Json::Null));
    let properties = schema.get("properties").and_then(Json::as_object).cloned().unwrap_or_default();
    let properties =
        properties.into_iter().map(|(name, one)| (name, resolved(document, &one).clone())).collect();
    let required = schema.get("required").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    let required = required.iter().filter_map(Json::as_str).map(str::to_owned).collect();
    Some(Body { media_type: media_type.to_owned(), properties, required })
}

fn text<'a>(value: &'a Json, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Json::as_str)
}

fn parameter(name: &str, schema: &Json, required: bool, description: Option<&str>) -> Parameter {
    let ty = type_of(schema);
    let is_list = ty == ParameterType::Array;
    let default = schema.get("default").filter(|default| !default.is_null() && !is_list);
    Parameter {
        name: name.into(),
        ty,
        form: Form::Llm,
        required,
        default: default.and_then(|default| cast(ty, default).ok()),
        options: Vec::new(),
        description: description.unwrap_or_default().into(),
        schema: match ty {
            ParameterType::Array | ParameterType::Object => Some(schema.clone()),
            _ => schema.get("enum").map(|options| json!({"enum": options})),
        },
    }
}

fn type_of(schema: &Json) -> ParameterType {
    // In a list of types the first one other than null counts.
    let named = match schema.get("type") {
        Some(Json::Array(types)) => types.iter().filter_map(Json::as_str).find(|ty| *ty != "null"),
        other => other.and_then(Json::as_str),
    };
    match named {
        Some("integer" | "number") => ParameterType::Number,
        Some("boolean") => ParameterType::Boolean,
        Some("array") if is_file(schema.get("items").unwrap_or(&Json::Null)) => ParameterType::Files,
        Some("array") => ParameterType::Array,
        Some("object") => ParameterType::Object,
        Some("string") if is_file(schema) => ParameterType::File,
        Some(_) | None => ParameterType::String,
    }
}

/// Returns true for the schema of a file.
pub(super) fn is_file(schema: &Json) -> bool {
    text(schema, "type") == Some("string") && text(schema, "format") == Some("binary")
}
