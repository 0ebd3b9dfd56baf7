//! Builds a request from arguments, as Dify's custom tools do.

use bytes::Bytes;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value as Json, json};
use tidemill_common::nodes::http_request::body::Content;
use tidemill_common::value::coerce::{parse_python_float, parse_python_int};
use tidemill_common::value::pyrepr::str_of;
use tidemill_common::value::{JsonMap, Segment};
use url::form_urlencoded;

use super::document::{Body, Operation, Place, is_file};
use crate::nodes::http_request::Means;
use crate::nodes::http_request::files;
use crate::tools::ToolCall;

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
        let run = Means { http: call.http, files: call.files, run: call.run, idempotency_key: None };
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
    let mut path = operation.url.clone();
    let (mut query, mut headers, mut cookies) = (Vec::new(), HeaderMap::new(), Vec::new());
    for one in &operation.outer {
        let given = arguments.get(&one.name).filter(|value| !value.is_null());
        let value = match given.or(one.default.as_ref()) {
            Some(value) => value,
            None if one.required => return Err(format!("Missing required parameter {}", one.name)),
            None => continue,
        };
        let text = plain(value);
        match one.place {
            // A URL treats these as steps in the path, even when escaped.
            Place::Path if matches!(text.as_str(), "." | "..") => {
                return Err(format!("parameter {} of the path cannot be {text:?}", one.name));
            }
            Place::Path => path = path.replace(&format!("{{{}}}", one.name), &escaped(&text)),
            Place::Query => match value {
                Json::Array(items) => query.extend(items.iter().map(|item| (&one.name, plain(item)))),
                _ if text.is_empty() => {}
                _ => query.push((&one.name, text)),
            },
            Place::Header => {
                let name: HeaderName =
                    one.name.parse().map_err(|_| format!("{:?} is not a valid header name", one.name))?;
                let value =
                    HeaderValue::from_str(&text).map_err(|_| format!("header {name} cannot be sent"))?;
                headers.insert(name, value);
            }
            Place::Cookie => cookies.push(format!("{}={}", one.name, escaped(&text))),
        }
    }
    let mut url = Url::parse(&path).map_err(|error| format!("{path:?} is not a URL: {error}"))?;
    if !query.is_empty() {
        url.query_pairs_mut().extend_pairs(query);
    }
    if !cookies.is_empty() {
        let value = HeaderValue::from_str(&cookies.join("; ")).map_err(|_| "a cookie cannot be sent")?;
        headers.insert(COOKIE, value);
    }
    Ok((url, headers))
}

/// Converts a value to text. Booleans use JSON's words, because servers do not know Python's.
fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => value.to_string(),
        Json::Null => String::new(),
    }
}

/// Escapes a text as one segment of a path.
fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
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
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/x-www-form-urlencoded" => {
            let mut form = form_urlencoded::Serializer::new(String::new());
            for (name, value) in &values {
                form.append_pair(name, &plain(value));
            }
            (Some(media_type), Content::Text(form.finish()))
        }
        "multipart/form-data" => {
            let (mut fields, mut files) = (Vec::new(), Vec::new());
            for (name, value) in values {
                let schema = body.properties.get(&name).unwrap_or(&Json::Null);
                let is_list = schema.get("items").is_some_and(is_file);
                match value {
                    Json::Array(items) if is_list => {
                        files.extend(items.into_iter().map(|file| (name.clone(), file)))
                    }
                    file @ Json::Object(_) if is_file(schema) || is_list => files.push((name, file)),
                    other => fields.push((name, plain(&other))),
                }
            }
            (None, Content::Multipart { fields, files })
        }
        _ => (Some(media_type), Content::Text(Json::Object(values).to_string())),
    }
}
