//! An outgoing call: its configuration and everything about it that needs no network.
//!
//! In the order of a call: `parse` reads the node's `data`, [`draft`] fills in the run's variables, [`body`] makes what is
//! sent, [`log`] what is shown of it, and [`response`] tells files from texts and keeps both within their limits. The
//! call itself is in the worker.

pub mod body;
pub mod draft;
pub mod log;
mod parse;
pub mod response;

use crate::dsl::Problems;
use crate::failure::NodeFailure;
use crate::value::template::{Template, mention};
use crate::value::{JsonMap, Selector};

/// Configuration of `http-request`.
#[derive(Debug, Clone)]
pub struct HttpRequestData {
    /// The method as written: all in lower or all in upper case.
    pub method: String,
    /// The address.
    pub url: Template,
    /// One `key: value` a line, once it is filled in.
    pub headers: Template,
    /// Key and value of each line; lines are told apart before they are filled in.
    pub params: Vec<(Template, Template)>,
    /// How the call says who calls.
    pub authorization: Authorization,
    /// What is sent; none is not the same as the type `none` only in name.
    pub body: Option<Body>,
    /// Longest waits; none: the worker's settings.
    pub timeouts: Timeouts,
    /// Whether the other side's certificate is checked; none: the worker's setting.
    pub ssl_verify: Option<bool>,
}

/// How the call says who calls.
#[derive(Debug, Clone)]
pub enum Authorization {
    /// It does not.
    None,
    /// By a key; without its configuration the call fails (as on Dify).
    ApiKey(Option<KeyConfig>),
}

/// A key and how it is sent.
#[derive(Debug, Clone)]
pub struct KeyConfig {
    /// What stands around the key.
    pub scheme: KeyScheme,
    /// The key.
    pub api_key: Template,
    /// The header; empty: `Authorization`.
    pub header: String,
}

impl KeyConfig {
    /// The header's name.
    pub fn header_name(&self) -> &str {
        if self.header.is_empty() { "Authorization" } else { &self.header }
    }
}

/// What stands around a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyScheme {
    /// `Basic`, encoded when it looks like `user:password`.
    Basic,
    /// `Bearer`.
    Bearer,
    /// Nothing.
    Custom,
}

/// What is sent.
#[derive(Debug, Clone)]
pub struct Body {
    /// Its form.
    pub kind: BodyKind,
    /// Its parts.
    pub items: Vec<BodyItem>,
}

/// The forms of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// Nothing.
    None,
    /// Fields and files, `multipart/form-data`.
    FormData,
    /// Fields, `application/x-www-form-urlencoded`.
    UrlEncoded,
    /// One text.
    RawText,
    /// One text that is repaired, and sent as compact JSON.
    Json,
    /// One file.
    Binary,
}

impl BodyKind {
    /// Every kind.
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

    /// The `Content-Type` that goes with it unless the workflow gives one.
    pub const fn content_type(self) -> Option<&'static str> {
        match self {
            Self::UrlEncoded => Some("application/x-www-form-urlencoded"),
            Self::RawText => Some("text/plain"),
            Self::Json => Some("application/json"),
            // That of a form names its boundary, which the sender makes.
            Self::None | Self::FormData | Self::Binary => None,
        }
    }
}

/// A part of a body.
#[derive(Debug, Clone)]
pub struct BodyItem {
    /// The field's name, where there are fields.
    pub key: Template,
    /// Whether it is files.
    pub is_file: bool,
    /// The text.
    pub value: Template,
    /// Where the files come from.
    pub file: Selector,
}

/// Longest waits, in seconds; none: the worker's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timeouts {
    /// Until the connection stands.
    pub connect: Option<u64>,
    /// For the next piece of the answer.
    pub read: Option<u64>,
    /// Until the next piece of the request is taken.
    pub write: Option<u64>,
}

/// The classes of failure that Dify gives this node's own errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorType {
    /// The address cannot be called.
    InvalidUrl,
    /// The key is missing.
    Authorization,
    /// The body does not fit its type.
    RequestBody,
    /// A file that is to be sent is none.
    FileFetch,
    /// `OPTIONS`, which Dify's editor knows and its client does not.
    InvalidMethod,
    /// The answer is over its limit.
    ResponseSize,
    /// The call did not get through.
    Request,
    /// A status that is no success.
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

    /// A failure of this class.
    pub fn failure(self, message: impl Into<String>) -> NodeFailure {
        NodeFailure::new(self.name(), message)
    }
}

impl HttpRequestData {
    /// Reads `data` of the node; reports what is wrong and returns nothing when it cannot be used.
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
