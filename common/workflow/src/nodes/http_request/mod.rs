//! The `http-request` node: its configuration and all steps that need no network.
//!
//! In the order of a request: `parse` reads the node's `data`, [`draft`] fills in the run's variables, [`body`] builds
//! the body, [`log`] the masked record, and [`response`] tells files from texts and limits both. The worker makes the
//! request.

pub mod body;
pub mod draft;
pub mod log;
mod parse;
pub mod response;

use crate::dsl::Problems;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::template::{Template, mention};
use tidemill_base::value::{JsonMap, Selector};

/// Configuration of `http-request`.
#[derive(Debug, Clone)]
pub struct HttpRequestData {
    /// The method as written: all in lower or all in upper case.
    pub method: String,
    pub url: Template,
    /// One `key: value` per line after variables are filled in.
    pub headers: Template,
    /// Key and value of each line. The text is split into lines before variables are filled in.
    pub params: Vec<(Template, Template)>,
    pub authorization: Authorization,
    /// The body. `None` and the type `none` both send nothing.
    pub body: Option<Body>,
    /// Longest waits. `None`: the worker's settings.
    pub timeouts: Timeouts,
    /// True when the server's certificate is checked. `None`: the worker's setting.
    pub ssl_verify: Option<bool>,
}

/// Authorization of the request.
#[derive(Debug, Clone)]
pub enum Authorization {
    None,
    /// By a key. Without its configuration the request fails, as on Dify.
    ApiKey(Option<KeyConfig>),
}

/// A key and its header.
#[derive(Debug, Clone)]
pub struct KeyConfig {
    /// The format of the header's value.
    pub scheme: KeyScheme,
    pub api_key: Template,
    /// The header's name; empty: `Authorization`.
    pub header: String,
}

impl KeyConfig {
    /// The header's name.
    pub fn header_name(&self) -> &str {
        if self.header.is_empty() { "Authorization" } else { &self.header }
    }
}

/// The format of the header's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyScheme {
    /// `Basic`; base64-encoded when the key looks like `user:password`.
    Basic,
    /// `Bearer`.
    Bearer,
    /// The key alone.
    Custom,
}

/// The body of a request.
#[derive(Debug, Clone)]
pub struct Body {
    pub kind: BodyKind,
    pub items: Vec<BodyItem>,
}

/// The types of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    None,
    /// Fields and files, `multipart/form-data`.
    FormData,
    /// Fields, `application/x-www-form-urlencoded`.
    UrlEncoded,
    /// One text.
    RawText,
    /// One text, repaired and sent as compact JSON.
    Json,
    /// One file.
    Binary,
}

impl BodyKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::None, Self::FormData, Self::UrlEncoded, Self::RawText, Self::Json, Self::Binary];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::FormData => "form-data",
            Self::UrlEncoded => "x-www-form-urlencoded",
            Self::RawText => "raw-text",
            Self::Json => "json",
            Self::Binary => "binary",
        }
    }

    /// The `Content-Type` for it, unless the workflow sets one.
    pub const fn content_type(self) -> Option<&'static str> {
        match self {
            Self::UrlEncoded => Some("application/x-www-form-urlencoded"),
            Self::RawText => Some("text/plain"),
            Self::Json => Some("application/json"),
            // A form's type includes its boundary, which the sender makes.
            Self::None | Self::FormData | Self::Binary => None,
        }
    }
}

/// A part of a body.
#[derive(Debug, Clone)]
pub struct BodyItem {
    /// The field's name, for bodies with fields.
    pub key: Template,
    /// True for files, false for a text.
    pub is_file: bool,
    /// The text.
    pub value: Template,
    /// The variable with the files.
    pub file: Selector,
}

/// Longest waits, in seconds. `None`: the worker's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timeouts {
    /// For the connection.
    pub connect: Option<u64>,
    /// For the next piece of the response.
    pub read: Option<u64>,
    /// For sending the next piece of the request.
    pub write: Option<u64>,
}

/// Dify's error types of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorType {
    /// The URL is invalid.
    InvalidUrl,
    /// The key is missing.
    Authorization,
    /// The body does not fit its type.
    RequestBody,
    /// The variable for a file is not a file.
    FileFetch,
    /// `OPTIONS`, which Dify's editor offers and its client refuses.
    InvalidMethod,
    /// The response exceeds its limit.
    ResponseSize,
    /// The request failed.
    Request,
    /// The status is not a success.
    Status,
}

impl ErrorType {
    /// Dify's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvalidUrl => "InvalidURLError",
            Self::Authorization => "AuthorizationConfigError",
            Self::RequestBody => "RequestBodyError",
            Self::FileFetch => "FileFetchError",
            Self::InvalidMethod => "InvalidHttpMethodError",
            Self::ResponseSize => "ResponseSizeError",
            Self::Request => "HttpRequestNodeError",
            Self::Status => "HTTPResponseCodeError",
        }
    }

    /// A failure of this type.
    pub fn failure(self, message: impl Into<String>) -> NodeFailure {
        NodeFailure::new(self.name(), message)
    }
}

impl HttpRequestData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        parse::parse(data, problems)
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        if let Authorization::ApiKey(Some(config)) = &self.authorization {
            config.api_key.mentions(into);
        }
        self.url.mentions(into);
        for (key, value) in &self.params {
            key.mentions(into);
            value.mentions(into);
        }
        self.headers.mentions(into);
        for item in self.body.iter().flat_map(|body| &body.items) {
            item.key.mentions(into);
            item.value.mentions(into);
            mention(&item.file, into);
        }
    }
}

#[cfg(test)]
mod tests;
