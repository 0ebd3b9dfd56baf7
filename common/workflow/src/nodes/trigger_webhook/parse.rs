//! Parses `data` of a `trigger-webhook` node.

use serde_json::Value as Json;

use super::{ContentType, Parameter, ParameterType, TriggerWebhookData};
use crate::dsl::Problems;
use crate::dsl::fields::{Fields, shown};
use crate::nodes::fields::{INVALID_NODE_DATA, flag, list, mapping, required, text};
use tidemill_base::value::JsonMap;

const METHODS: [&str; 6] = ["get", "post", "put", "patch", "delete", "head"];
/// Characters of the last part of a URL.
const ID_CHARS: usize = 24;
/// A response says that the request was accepted; other statuses would contradict that.
const STATUSES: std::ops::RangeInclusive<i64> = 200..=399;

pub(super) fn parse(data: &JsonMap, problems: &mut Problems) -> Option<TriggerWebhookData> {
    let fields = Fields::new(data, INVALID_NODE_DATA);
    let method = match fields.given("method").map(|value| (value, value.as_str())) {
        None => Some("get".to_string()),
        Some((value, name)) => {
            let name = name.map(str::to_ascii_lowercase).filter(|name| METHODS.contains(&name.as_str()));
            name.or_else(|| refuse("method", &format!("one of {}", METHODS.join(", ")), value, problems))
        }
    };
    let content_type = match fields.given("content_type") {
        None => Some(ContentType::Json),
        Some(value) => {
            let known =
                |name: &str| ContentType::ALL.into_iter().find(|t| t.name().eq_ignore_ascii_case(name));
            let names = format!("one of {}", ContentType::ALL.map(ContentType::name).join(", "));
            value.as_str().and_then(known).or_else(|| refuse("content_type", &names, value, problems))
        }
    };
    let headers = parameters(data, "headers", &[ParameterType::String], problems);
    let simple = [ParameterType::String, ParameterType::Number, ParameterType::Boolean];
    let params = parameters(data, "params", &simple, problems);
    let body = parameters(data, "body", &ParameterType::ALL, problems);
    let status_code = match fields.given("status_code") {
        None => Some(200),
        Some(value) => {
            let status = crate::dsl::fields::lax_integer(value).filter(|status| STATUSES.contains(status));
            let status = status.and_then(|status| u16::try_from(status).ok());
            status.or_else(|| refuse("status_code", "a status from 200 to 399", value, problems))
        }
    };
    let response_body = match fields.given("response_body") {
        None => Some(String::new()),
        Some(_) => fields.text("response_body", problems).map(str::to_string),
    };
    let secret = secret(data, problems);
    Some(TriggerWebhookData {
        method: method?,
        content_type: content_type?,
        headers: headers?,
        params: params?,
        body: body?,
        status_code: status_code?,
        response_body: response_body?,
        webhook_id: fields
            .given("webhook_id")
            .and_then(Json::as_str)
            .filter(|id| is_id(id))
            .map(str::to_string),
        secret: secret?,
    })
}

/// True for a valid last part of a URL. Exports leave it empty; then a new one is generated.
fn is_id(id: &str) -> bool {
    id.len() == ID_CHARS && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn parameters(
    data: &JsonMap,
    key: &str,
    types: &[ParameterType],
    problems: &mut Problems,
) -> Option<Vec<Parameter>> {
    let Some(given) = data.get(key).filter(|given| !given.is_null()) else { return Some(Vec::new()) };
    problems.within(key, |problems| list(given, problems, |item, problems| parameter(item, types, problems)))
}

fn parameter(item: &Json, types: &[ParameterType], problems: &mut Problems) -> Option<Parameter> {
    let item = mapping(item, problems)?;
    let name = required(item, "name", problems, text);
    let ty = match item.get("type").filter(|value| !value.is_null()) {
        // A header is always a text, whatever type its entry has.
        _ if types.len() == 1 => types.first().copied(),
        None => Some(ParameterType::String),
        Some(value) => {
            let known = |name: &str| types.iter().copied().find(|ty| ty.name() == name);
            let names: Vec<&str> = types.iter().map(|ty| ty.name()).collect();
            value
                .as_str()
                .and_then(known)
                .or_else(|| refuse("type", &format!("one of {}", names.join(", ")), value, problems))
        }
    };
    let required = match item.get("required").filter(|value| !value.is_null()) {
        None => Some(false),
        Some(value) => problems.within("required", |problems| flag(value, problems)),
    };
    Some(Parameter { name: name?, ty: ty?, required: required? })
}

/// The name of the secret. The outer option is `None` for an invalid one.
#[expect(clippy::option_option, reason = "absent and unusable are two things")]
fn secret(data: &JsonMap, problems: &mut Problems) -> Option<Option<String>> {
    // The check of the settings of all nodes covers the block's type and its other keys.
    let Some(block) = data.get("tidemill").and_then(Json::as_object) else { return Some(None) };
    match block.get("secret").filter(|value| !value.is_null()) {
        None => Some(None),
        Some(value) => match value.as_str().filter(|name| !name.is_empty()) {
            Some(name) => Some(Some(name.to_string())),
            None => problems.within("tidemill", |problems| {
                refuse("secret", "the name of a secret environment variable", value, problems)
            }),
        },
    }
}

fn refuse<T>(key: &str, wanted: &str, value: &Json, problems: &mut Problems) -> Option<T> {
    problems.within(key, |problems| {
        let given = shown(value);
        problems.error(INVALID_NODE_DATA, format!("`{key}` must be {wanted}, not {given}"));
    });
    None
}
