//! The `trigger-webhook` node: starts a run from a request to its URL. This file holds the configuration and the node,
//! which splits the request into the declared values; [`request`] checks requests.

mod answer;
mod convert;
mod parse;
pub mod request;
#[cfg(test)]
mod tests;

use serde_json::Value as Json;

use super::NodeResult;
use super::fields::set;
use super::trigger::{Named, own, system};
use crate::dsl::Problems;
use tidemill_base::value::{JsonMap, Lookup, Segment, SegmentType, Variables};

pub use answer::Reply;
pub use request::{Accepted, Body, Refused, Request};

/// The variable with the request before the node runs.
pub const DATA: &str = "webhook_data";
/// The output with the whole request.
const RAW: &str = "_webhook_raw";

/// The format of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentType {
    Json,
    Multipart,
    Form,
    Text,
    Binary,
}

impl ContentType {
    const ALL: [Self; 5] = [Self::Json, Self::Multipart, Self::Form, Self::Text, Self::Binary];
    /// The name in a header.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Multipart => "multipart/form-data",
            Self::Form => "application/x-www-form-urlencoded",
            Self::Text => "text/plain",
            Self::Binary => "application/octet-stream",
        }
    }
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
    String,
    Number,
    Boolean,
    Object,
    File,
    ArrayString,
    ArrayNumber,
    ArrayBoolean,
    ArrayObject,
}

impl ParameterType {
    const ALL: [Self; 9] = [
        Self::String,
        Self::Number,
        Self::Boolean,
        Self::Object,
        Self::File,
        Self::ArrayString,
        Self::ArrayNumber,
        Self::ArrayBoolean,
        Self::ArrayObject,
    ];
    /// Dify's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Object => "object",
            Self::File => "file",
            Self::ArrayString => "array[string]",
            Self::ArrayNumber => "array[number]",
            Self::ArrayBoolean => "array[boolean]",
            Self::ArrayObject => "array[object]",
        }
    }
}

/// A header, query parameter or body parameter of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    /// The type; headers are always texts.
    pub ty: ParameterType,
    /// True when a request without it is refused.
    pub required: bool,
}

/// Configuration of `trigger-webhook`.
#[derive(Debug, Clone, PartialEq)]
pub struct TriggerWebhookData {
    /// The accepted method, in lower case.
    pub method: String,
    /// The format of the body.
    pub content_type: ContentType,
    /// The declared headers.
    pub headers: Vec<Parameter>,
    /// The declared query parameters.
    pub params: Vec<Parameter>,
    /// The declared body parameters.
    pub body: Vec<Parameter>,
    /// The status of the response.
    pub status_code: u16,
    /// The body of the response, as in the file.
    pub response_body: String,
    /// The last part of the URL, if the file has a valid one.
    pub webhook_id: Option<String>,
    /// The secret environment variable that the caller must know (`tidemill.secret`).
    pub secret: Option<String>,
}

impl TriggerWebhookData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        parse::parse(data, problems)
    }

    /// Runs the node. A run that its host started without a request has the outputs as inputs, by name. With
    /// `missing_file_is_all` a missing file has the mapping of all files as its value (Dify), otherwise it is null.
    pub fn evaluate(&self, id: &str, variables: &dyn Variables, missing_file_is_all: bool) -> NodeResult {
        let mut inputs = own(id, variables);
        let system = system(variables);
        let data = match variables.variable(id, DATA) {
            Lookup::Found(segment) => segment.value.as_object().cloned(),
            Lookup::Missing | Lookup::Blob(_) => None,
        };
        let mut outputs = match &data {
            Some(data) => self.outputs(data, missing_file_is_all),
            None => self.as_given(&inputs),
        };
        inputs.extend(system.iter().cloned());
        outputs.extend(system);
        NodeResult { inputs, outputs, ..NodeResult::default() }
    }

    fn outputs(&self, data: &JsonMap, missing_file_is_all: bool) -> Named {
        let part = |name: &str| data.get(name).and_then(Json::as_object);
        let value = |map: Option<&JsonMap>, name: &str| map.and_then(|map| map.get(name)).cloned();
        let mut outputs = Named::new();
        for header in &self.headers {
            let value = part("headers").and_then(|headers| header_value(headers, &header.name));
            set(&mut outputs, &output_name(&header.name), segment(header.ty, value));
        }
        for param in &self.params {
            set(&mut outputs, &param.name, segment(param.ty, value(part("query_params"), &param.name)));
        }
        let (body, files) = (part("body"), part("files"));
        match self.content_type {
            ContentType::Text | ContentType::Binary => {
                if let Some(first) = self.body.first() {
                    set(
                        &mut outputs,
                        &first.name,
                        Segment::restore_files(value(body, "raw").unwrap_or_default()),
                    );
                }
            }
            ContentType::Json | ContentType::Multipart | ContentType::Form => {
                for param in &self.body {
                    let found = match param.ty {
                        ParameterType::File => {
                            let all = || files.filter(|_| missing_file_is_all).cloned().map(Json::Object);
                            value(files, &param.name).or_else(|| value(body, &param.name)).or_else(all)
                        }
                        ParameterType::String
                        | ParameterType::Number
                        | ParameterType::Boolean
                        | ParameterType::Object
                        | ParameterType::ArrayString
                        | ParameterType::ArrayNumber
                        | ParameterType::ArrayBoolean
                        | ParameterType::ArrayObject => value(body, &param.name),
                    };
                    set(&mut outputs, &param.name, segment(param.ty, found));
                }
            }
        }
        set(&mut outputs, RAW, Segment::new(SegmentType::Object, Json::Object(data.clone())));
        outputs
    }

    fn as_given(&self, given: &Named) -> Named {
        let headers = self.headers.iter().map(|header| output_name(&header.name));
        let others = self.params.iter().chain(&self.body).map(|param| param.name.clone());
        let mut outputs = Named::new();
        for name in headers.chain(others).chain([RAW.to_string()]) {
            let value = given.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
            set(&mut outputs, &name, value.unwrap_or_else(Segment::none));
        }
        outputs
    }
}

/// The output's name for a header.
fn output_name(header: &str) -> String {
    header.replace('-', "_")
}

/// Finds a header in any case, with `-` and `_` treated as equal.
fn header_value(headers: &JsonMap, name: &str) -> Option<Json> {
    let plain = |name: &str| name.to_ascii_lowercase().replace('_', "-");
    let wanted = plain(name);
    headers.iter().find(|(known, _)| plain(known) == wanted).map(|(_, value)| value.clone())
}

/// A value; an empty list gets the declared type, since it has none of its own.
fn segment(ty: ParameterType, value: Option<Json>) -> Segment {
    let segment = Segment::restore_files(value.unwrap_or_default());
    let is_empty_list = segment.value.as_array().is_some_and(Vec::is_empty);
    let of_list = match ty {
        ParameterType::ArrayString => SegmentType::ArrayString,
        ParameterType::ArrayNumber => SegmentType::ArrayNumber,
        ParameterType::ArrayBoolean => SegmentType::ArrayBoolean,
        ParameterType::ArrayObject => SegmentType::ArrayObject,
        ParameterType::String
        | ParameterType::Number
        | ParameterType::Boolean
        | ParameterType::Object
        | ParameterType::File => return segment,
    };
    if is_empty_list { Segment::new(of_list, segment.value) } else { segment }
}
