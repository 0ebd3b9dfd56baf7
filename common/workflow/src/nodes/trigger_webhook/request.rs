//! Checks a request before it starts a run, in Dify's order and with Dify's messages, and builds the run's inputs from
//! it.

use serde_json::{Value as Json, json};

use super::{ContentType, DATA, Parameter, ParameterType, TriggerWebhookData, convert, header_value};
use tidemill_base::value::JsonMap;

/// A received request, with its body parsed by [`TriggerWebhookData::content_type`].
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The headers, without those that carry a secret.
    pub headers: Vec<(String, String)>,
    /// The query parameters, decoded.
    pub query: Vec<(String, String)>,
    pub body: Body,
}

/// The body of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// JSON, as text.
    Json(String),
    /// Fields of a form, and the names of its files.
    Form {
        /// Name and text.
        fields: Vec<(String, String)>,
        /// Names of files.
        files: Vec<String>,
    },
    Text(String),
    /// Bytes, stored as a file; their number.
    Binary(usize),
}

/// A refused request, which starts no run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// An accepted request, which can start a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    method: String,
    headers: JsonMap,
    query: JsonMap,
    body: JsonMap,
    content_type: ContentType,
}

fn refuse<T>(message: impl Into<String>) -> Result<T, Refused> {
    Err(Refused(message.into()))
}

impl TriggerWebhookData {
    /// Checks method and content type before the body is read. A request without a type counts as JSON.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn check_head(&self, method: &str, content_type: Option<&str>) -> Result<(), Refused> {
        if !method.eq_ignore_ascii_case(&self.method) {
            let (expected, got) = (self.method.to_uppercase(), method.to_uppercase());
            return refuse(format!("HTTP method mismatch. Expected {expected}, got {got}"));
        }
        let got = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        let got = if got.is_empty() { ContentType::Json.name().to_string() } else { got.to_lowercase() };
        let expected = self.content_type.name();
        if got != expected {
            return refuse(format!("Content-type mismatch. Expected {expected}, got {got}"));
        }
        Ok(())
    }

    /// Checks the rest and converts values to their types. Undeclared values stay as received.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn accept(&self, request: Request) -> Result<Accepted, Refused> {
        let headers = first_of_each(request.headers);
        for header in self.headers.iter().filter(|header| header.required) {
            if header_value(&headers, &header.name).is_none() {
                return refuse(format!("Required header missing: {}", header.name));
            }
        }
        let query = converted(first_of_each(request.query), &self.params, "Required parameter missing")?;
        let body = self.body(request.body)?;
        Ok(Accepted {
            method: self.method.to_uppercase(),
            headers,
            query,
            body,
            content_type: self.content_type,
        })
    }

    fn body(&self, body: Body) -> Result<JsonMap, Refused> {
        const MISSING: &str = "Required body parameter missing";
        match body {
            Body::Json(text) => self.json(&text),
            Body::Form { fields, files } => {
                let is_file = |param: &&Parameter| param.ty == ParameterType::File;
                for param in self.body.iter().filter(is_file).filter(|param| param.required) {
                    if !files.contains(&param.name) {
                        return refuse(format!("{MISSING}: {}", param.name));
                    }
                }
                let others: Vec<Parameter> =
                    self.body.iter().filter(|param| !is_file(param)).cloned().collect();
                converted(first_of_each(fields), &others, MISSING)
            }
            Body::Text(text) => {
                self.content_if_required(text.is_empty())?;
                Ok(JsonMap::from_iter([("raw".to_string(), text.into())]))
            }
            Body::Binary(bytes) => {
                self.content_if_required(bytes == 0)?;
                Ok(JsonMap::from_iter([("raw".to_string(), Json::Null)]))
            }
        }
    }

    fn content_if_required(&self, is_empty: bool) -> Result<(), Refused> {
        if is_empty && self.body.iter().any(|param| param.required) {
            return refuse(format!("Required body content missing for {} request", self.content_type.name()));
        }
        Ok(())
    }

    fn json(&self, text: &str) -> Result<JsonMap, Refused> {
        let body = match text.trim() {
            "" => Json::Object(JsonMap::new()),
            text => {
                serde_json::from_str(text).or_else(|error| refuse(format!("Invalid JSON body: {error}")))?
            }
        };
        let Json::Object(body) = body else {
            // No parameter can be looked up in it; Dify's services expect a mapping.
            return refuse("Invalid JSON body: expected an object");
        };
        for param in &self.body {
            match body.get(&param.name) {
                None if param.required => {
                    return refuse(format!("Required body parameter missing: {}", param.name));
                }
                None => {}
                Some(value) => {
                    convert::check(value, param.ty).or_else(|detail| invalid(&param.name, &detail))?;
                }
            }
        }
        Ok(body)
    }
}

impl Accepted {
    /// The run's inputs, stored under the node's id. `files` are the file objects of uploaded files in the order of
    /// [`Body::Form`]; for a binary body its one file, under any name.
    pub fn inputs(self, files: Vec<(String, Json)>) -> JsonMap {
        let mut body = self.body;
        let mut by_name = JsonMap::new();
        match self.content_type {
            ContentType::Binary => {
                if let Some((_, file)) = files.into_iter().next() {
                    body.insert("raw".into(), file);
                }
            }
            ContentType::Json | ContentType::Multipart | ContentType::Form | ContentType::Text => {
                for (name, file) in files {
                    by_name.entry(name).or_insert(file);
                }
            }
        }
        let flat = [
            ("webhook_headers", Json::Object(self.headers.clone())),
            ("webhook_query_params", Json::Object(self.query.clone())),
            ("webhook_body", Json::Object(body.clone())),
        ];
        let data = json!({
            "method": self.method,
            "headers": self.headers,
            "query_params": self.query,
            "body": body,
            "files": by_name,
        });
        let mut inputs = JsonMap::from_iter([(DATA.to_string(), data)]);
        inputs.extend(flat.map(|(name, value)| (name.to_string(), value)));
        inputs
    }
}

/// Of values with the same name the first, as Dify's services read queries and forms.
fn first_of_each(pairs: Vec<(String, String)>) -> JsonMap {
    let mut map = JsonMap::new();
    for (name, text) in pairs {
        map.entry(name).or_insert(Json::String(text));
    }
    map
}

/// Converts texts to the types of the declared parameters.
fn converted(mut values: JsonMap, params: &[Parameter], missing: &str) -> Result<JsonMap, Refused> {
    for param in params {
        match values.get_mut(&param.name) {
            None if param.required => return refuse(format!("{missing}: {}", param.name)),
            None => {}
            Some(value) => {
                let text = value.as_str().unwrap_or_default();
                let typed = convert::of_text(&param.name, text, param.ty);
                *value = typed.or_else(|detail| invalid(&param.name, &detail))?;
            }
        }
    }
    Ok(values)
}

fn invalid<T>(name: &str, detail: &str) -> Result<T, Refused> {
    refuse(format!("Parameter '{name}' validation failed: {detail}"))
}
