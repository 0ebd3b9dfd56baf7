//! Builds `process_data.request`: the request's text as sent, with secrets masked and files replaced by a description.

use serde_json::Value as Json;

use super::body::{form_fields, url_encoded_fields};
use super::draft::{
    CONTENT_TYPE, Head, Pairs, Show, assembled, encode, is_content_type, own_headers, params, set,
};
use super::{Authorization, Body, BodyKind, HttpRequestData};
use tidemill_base::value::{JsonMap, Variables};

/// A file in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownFile {
    /// The field's name; empty for a body that is one file.
    pub key: String,
    pub filename: Option<String>,
    pub mime_type: String,
    /// Bytes.
    pub size: usize,
}

impl ShownFile {
    /// Describes the file object of a field; `size` is the number of bytes sent.
    pub fn of(key: &str, file: &Json, size: usize) -> Self {
        let text = |key: &str| file.get(key).and_then(Json::as_str).filter(|text| !text.is_empty());
        Self {
            key: key.to_owned(),
            filename: text("filename").map(str::to_owned),
            mime_type: text("mime_type").unwrap_or("application/octet-stream").to_owned(),
            size,
        }
    }
}

/// The record of the request. `head` is the sent head; of its key only the length is used. `boundary` has 16 letters.
pub fn record(
    data: &HttpRequestData,
    variables: &dyn Variables,
    head: &Head,
    files: &[ShownFile],
    boundary: &str,
) -> JsonMap {
    let text = request(data, variables, head, files, &format!("----WebKitFormBoundary{boundary}"));
    JsonMap::from_iter([("request".to_owned(), Json::String(text))])
}

fn request(
    data: &HttpRequestData,
    variables: &dyn Variables,
    head: &Head,
    files: &[ShownFile],
    boundary: &str,
) -> String {
    let url = data.url.render_log(variables);
    let (netloc, path, query) = split(&url);
    let params = params(data, variables, Show::Masked);
    let query = if params.is_empty() { query.to_owned() } else { encode(params.iter()) };
    let mut text = format!("{} {}", data.method.to_uppercase(), if path.is_empty() { "/" } else { path });
    if !query.is_empty() {
        text.push('?');
        text.push_str(&query);
    }
    text.push_str(&format!(" HTTP/1.1\r\nHost: {netloc}\r\n"));
    for (name, value) in shown_headers(data, variables, head, boundary) {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let body =
        data.body.as_ref().map(|body| shown_body(body, variables, files, boundary)).unwrap_or_default();
    if !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.chars().count()));
    }
    text.push_str("\r\n");
    text.push_str(&body);
    text
}

/// Splits a URL into host (with port and user), path and query.
fn split(url: &str) -> (&str, &str, &str) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
    let (front, query) = rest.split_once('?').unwrap_or((rest, ""));
    match front.find('/') {
        Some(slash) => (&front[..slash], &front[slash..], query),
        None => (front, "", query),
    }
}

fn shown_headers(data: &HttpRequestData, variables: &dyn Variables, head: &Head, boundary: &str) -> Pairs {
    let own = own_headers(data, variables, Show::Masked);
    let has_own_type = own.iter().any(is_content_type);
    let key = match &data.authorization {
        Authorization::ApiKey(Some(config)) => Some(config.header_name()),
        Authorization::ApiKey(None) | Authorization::None => None,
    };
    let sent = |name: &str| head.headers.iter().find(|(known, _)| known == name);
    let credentials = key.map(|name| (name, sent(name).map_or_else(String::new, |(_, value)| value.clone())));
    let mut shown = assembled(data, own, credentials);
    // Dify's record adds the body's type also beside a key whose header is a content type in another spelling.
    match data.body.as_ref().map(|body| body.kind) {
        Some(BodyKind::FormData) => {
            set(&mut shown, CONTENT_TYPE, format!("multipart/form-data; boundary={boundary}"));
        }
        Some(kind) if !has_own_type => {
            if let Some(content_type) = kind.content_type() {
                set(&mut shown, CONTENT_TYPE, content_type.into());
            }
        }
        Some(_) | None => {}
    }
    if let Some(name) = key {
        for (_, value) in shown.iter_mut().filter(|(known, _)| known.eq_ignore_ascii_case(name)) {
            *value = "*".repeat(value.chars().count());
        }
    }
    shown
}

fn shown_body(body: &Body, variables: &dyn Variables, files: &[ShownFile], boundary: &str) -> String {
    let first = || body.items.first().map(|item| item.value.render_log(variables)).unwrap_or_default();
    match body.kind {
        BodyKind::None => String::new(),
        BodyKind::RawText => first(),
        BodyKind::Json => shown_json(first()),
        BodyKind::UrlEncoded => encode(url_encoded_fields(body, variables, Show::Masked).iter()),
        BodyKind::Binary => {
            files.iter().map(|file| format!("<binary_content: size={} bytes>", file.size)).collect()
        }
        BodyKind::FormData if files.is_empty() => {
            let fields = form_fields(body, variables, Show::Masked);
            parts(fields.iter().map(|(key, value)| (key.as_str(), value.clone())), boundary)
        }
        BodyKind::FormData => parts(files.iter().map(|file| (file.key.as_str(), named(file))), boundary),
    }
}

/// The rendered text before its repair; empty for values that Python counts as false.
fn shown_json(text: String) -> String {
    if matches!(text.trim(), "null" | "false" | "0" | "0.0" | "[]" | "{}") { String::new() } else { text }
}

fn named(file: &ShownFile) -> String {
    let ShownFile { filename, mime_type, size, .. } = file;
    let filename = filename.as_deref().unwrap_or("unknown");
    format!("<file_content_binary: '{filename}', type='{mime_type}', size={size} bytes>")
}

fn parts<'a>(parts: impl Iterator<Item = (&'a str, String)>, boundary: &str) -> String {
    let shown: String = parts
        .map(|(key, value)| {
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{key}\"\r\n\r\n{value}\r\n")
        })
        .collect();
    if shown.is_empty() { shown } else { format!("{shown}--{boundary}--\r\n") }
}
