//! Builds a request from arguments, as Dify's custom tools do.

use bytes::Bytes;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::{Value as Json, json};
use tidemill_common::nodes::http_request::body::Content;
use tidemill_common::value::coerce::{parse_python_float, parse_python_int};
use tidemill_common::value::pyrepr::str_of;
use tidemill_common::value::{JsonMap, Segment};

use crate::nodes::http_request::files;
use crate::nodes::http_request::{AnswerRules, Means};
use crate::outside::openapi::request::{Head, Lists, MediaType, Rules, Unsendable};
use crate::outside::tools::ToolCall;
use crate::outside::tools::openapi::document::{Body, Operation, is_file};

/// Dify's rules: an argument without a value is its default or an empty text, empty parameters of the query are left
/// out, and a form has one field for each property.
const RULES: Rules = Rules {
    skips_null: false,
    fills_empty: true,
    sends_empty: false,
    query: Lists::Items,
    form: Lists::Json,
};

/// A request without credentials.
#[derive(Debug)]
pub struct Assembled {
    pub url: Url,
    pub headers: HeaderMap,
    /// The body in parts.
    pub body: Vec<Bytes>,
}

/// Builds the request and fetches its files.
///
/// # Errors
/// A missing argument, or a value that cannot be sent.
pub async fn assemble(operation: &Operation, call: ToolCall<'_>) -> Result<Assembled, String> {
    let (url, mut headers) = head(operation, call.arguments)?;
    let mut parts = Vec::new();
    if let Some(body) = &operation.body {
        let values = values(operation, body, call.arguments)?;
        let (content_type, content) = content(body, values);
        let rules = AnswerRules::default();
        let (http, files, run) = (call.http, call.files, call.run);
        let run = Means { http, files, run, idempotency_key: None, rules };
        let assembled = files::assemble(content, run).await.map_err(|failure| failure.message)?;
        parts = assembled.parts;
        let content_type = assembled.content_type.or(content_type);
        if let Some(value) = content_type.and_then(|text| HeaderValue::from_str(&text).ok()) {
            headers.insert(CONTENT_TYPE, value);
        }
    }
    Ok(Assembled { url, headers, body: parts })
}

/// Builds path, query, headers and cookies.
fn head(operation: &Operation, arguments: &JsonMap) -> Result<(Url, HeaderMap), String> {
    let mut head = Head::new(&operation.url, &RULES);
    for one in &operation.outer {
        let given = arguments.get(&one.name).filter(|value| !value.is_null());
        let value = match given.or(one.default.as_ref()) {
            Some(value) => value,
            None if one.required => return Err(format!("Missing required parameter {}", one.name)),
            None => continue,
        };
        head.put(one.place, &one.name, value).map_err(|why| match why {
            Unsendable::Path(text) => format!("parameter {} of the path cannot be {text:?}", one.name),
            Unsendable::HeaderName => format!("{:?} is not a valid header name", one.name),
            Unsendable::HeaderValue => format!("header {} cannot be sent", one.name.to_ascii_lowercase()),
        })?;
    }
    let address = &head.address;
    let mut url = Url::parse(address).map_err(|error| format!("{address:?} is not a URL: {error}"))?;
    head.add_query(&mut url);
    let headers = head.headers().map_err(|_| "a cookie cannot be sent")?;
    Ok((url, headers))
}

/// Collects the properties of the body.
fn values(operation: &Operation, body: &Body, arguments: &JsonMap) -> Result<JsonMap, String> {
    let mut values = JsonMap::new();
    for (name, schema) in &body.properties {
        let given = arguments.get(name).filter(|value| !value.is_null());
        let value = match (given, schema.get("default")) {
            (Some(value), _) => convert(schema, value),
            (None, Some(default)) => default.clone(),
            (None, None) if body.required.contains(name) => {
                let id = &operation.declaration.name;
                return Err(format!("Missing required parameter {name} in operation {id}"));
            }
            (None, None) => continue,
        };
        values.insert(name.clone(), value);
    }
    Ok(values)
}

/// Converts a value to its schema's type. An unsuitable value stays as it is.
fn convert(schema: &Json, value: &Json) -> Json {
    if let Some(any) = schema.get("anyOf").and_then(Json::as_array) {
        return any.iter().find_map(|one| strictly(one, value)).unwrap_or_else(|| value.clone());
    }
    strictly(schema, value).unwrap_or_else(|| value.clone())
}

fn strictly(schema: &Json, value: &Json) -> Option<Json> {
    match schema.get("type").and_then(Json::as_str)? {
        "integer" => match value {
            Json::Number(number) if number.is_f64() => {
                number.as_f64().map(|float| json!(float.trunc() as i64))
            }
            Json::Number(_) => Some(value.clone()),
            Json::Bool(flag) => Some(json!(i64::from(*flag))),
            Json::String(text) => {
                parse_python_int(text).ok().and_then(|n| i64::try_from(n).ok()).map(|n| json!(n))
            }
            Json::Null | Json::Array(_) | Json::Object(_) => None,
        },
        "number" => match value {
            Json::Number(_) => Some(value.clone()),
            Json::String(text) if text.contains('.') => parse_python_float(text).ok().map(|n| json!(n)),
            Json::String(text) => {
                parse_python_int(text).ok().and_then(|n| i64::try_from(n).ok()).map(|n| json!(n))
            }
            Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
        },
        // A file stays a file.
        "string" if is_file(schema) => Some(value.clone()),
        "string" => Some(Json::String(str_of(value).into_owned())),
        // As in Dify: the text "false" is not empty, so it is true.
        "boolean" => Some(Json::Bool(!Segment::infer(value.clone()).is_falsy())),
        "null" => (value.is_null() || value == "null").then_some(Json::Null),
        kind @ ("array" | "object") => {
            let parsed = match value {
                Json::String(text) => serde_json::from_str(text).ok()?,
                other => other.clone(),
            };
            let fits = if kind == "array" { parsed.is_array() } else { parsed.is_object() };
            fits.then_some(parsed)
        }
        _ => None,
    }
}

/// The body with its content type, unless the sender creates that.
fn content(body: &Body, values: JsonMap) -> (Option<String>, Content) {
    let media_type = body.media_type.clone();
    match MediaType::of(&media_type) {
        Some(MediaType::Form) => (Some(media_type), Content::Text(RULES.form(&values))),
        Some(MediaType::Multipart) => {
            let (mut fields, mut files) = (Vec::new(), Vec::new());
            for (name, value) in values {
                let schema = body.properties.get(&name).unwrap_or(&Json::Null);
                let is_list = schema.get("items").is_some_and(is_file);
                match value {
                    Json::Array(items) if is_list => {
                        files.extend(items.into_iter().map(|file| (name.clone(), file)))
                    }
                    file @ Json::Object(_) if is_file(schema) || is_list => files.push((name, file)),
                    other => RULES.fields(&name, &other, &mut |name, text| {
                        fields.push((name.to_owned(), text.to_owned()));
                    }),
                }
            }
            (None, Content::Multipart { fields, files })
        }
        // As in Dify, which writes JSON whatever the media type is.
        Some(MediaType::Json) | None => (Some(media_type), Content::Text(Json::Object(values).to_string())),
    }
}
