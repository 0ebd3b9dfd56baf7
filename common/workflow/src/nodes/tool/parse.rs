//! Parses `data` of a `tool` node into [`ToolData`], or reports all its problems.

use serde_json::Value as Json;

use super::{Configured, Input, Parameter, ProviderKind, ToolData};
use crate::dsl::Problems;
use crate::dsl::children::missing_in_extraction;
use crate::dsl::fields::{BUILD_FAILED, Fields};
use tidemill_base::value::JsonMap;
use tidemill_base::value::pyrepr::str_of;
use tidemill_base::value::template::Template;

const NOT_TYPED: &str = "tool.parameter_without_type";
const NOT_TYPED_TEXT: &str = "a parameter without `type` and `value` is not sent to the tool, as on Dify";

pub(super) fn parse(data: &JsonMap, problems: &mut Problems) -> Option<ToolData> {
    // All parts are read before any `?`, so that all mistakes are reported at once.
    let fields = Fields::new(data, BUILD_FAILED);
    let provider_id = fields.text("provider_id", problems);
    let kind = fields.one_of("provider_type", &ProviderKind::ALL.map(ProviderKind::name), problems);
    let provider_name = fields.text("provider_name", problems);
    let tool_name = fields.text("tool_name", problems);
    let label = fields.text("tool_label", problems);
    let configurations = configurations(data, problems);
    let parameters = parameters(data, problems);
    let plugin = optional_text(&fields, "plugin_unique_identifier", problems);
    let node_version = optional_text(&fields, "tool_node_version", problems);
    let version = data.get("version").and_then(Json::as_str).unwrap_or("1");
    let declared = data.get("paramSchemas").and_then(Json::as_array);
    label?;
    Some(ToolData {
        provider_type: ProviderKind::from_name(kind?)?,
        provider_id: provider_id?.to_owned(),
        provider_name: provider_name?.to_owned(),
        tool_name: tool_name?.to_owned(),
        configurations: configurations?,
        parameters: parameters?,
        plugin_unique_identifier: plugin?.map(str::to_owned),
        is_typed: version != "1" || node_version?.is_some(),
        // The editor writes an empty list while it does not know the tool.
        declared: declared
            .filter(|list| !list.is_empty())
            .map(|list| list.iter().filter_map(Parameter::from_json).collect()),
    })
}

fn optional_text<'a>(fields: &Fields<'a>, key: &str, problems: &mut Problems) -> Option<Option<&'a str>> {
    match fields.given(key) {
        None => Some(None),
        Some(_) => fields.text(key, problems).map(Some),
    }
}

fn configurations(data: &JsonMap, problems: &mut Problems) -> Option<Vec<(String, Configured)>> {
    problems.within("tool_configurations", |problems| {
        let Some(Json::Object(map)) = data.get("tool_configurations") else {
            problems.error(BUILD_FAILED, "tool_configurations must be a dictionary");
            return None;
        };
        let mut all = Some(Vec::with_capacity(map.len()));
        for (key, value) in map {
            match value {
                Json::Null | Json::Array(_) => {
                    let message = format!("{key} must be one of: str, int, float, bool, dict");
                    problems.within(key.as_str(), |problems| problems.error(BUILD_FAILED, message));
                    all = None;
                }
                Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {
                    let input = value.as_object().and_then(|value| input(value).ok());
                    let configured = Configured { raw: value.clone(), input };
                    all.iter_mut().for_each(|all| all.push((key.clone(), configured.clone())));
                }
            }
        }
        all
    })
}

fn parameters(data: &JsonMap, problems: &mut Problems) -> Option<Vec<(String, Input)>> {
    problems.within("tool_parameters", |problems| {
        let Some(Json::Object(map)) = data.get("tool_parameters") else {
            problems.error(BUILD_FAILED, "tool_parameters must be a dictionary");
            return None;
        };
        let mut all = Some(Vec::with_capacity(map.len()));
        // An empty input counts as absent.
        for (key, value) in map {
            // As on Dify, what has no field `value` does not count, also when it is a plain value.
            let Some(given) =
                value.as_object().filter(|given| given.get("value").is_some_and(|it| !it.is_null()))
            else {
                if !value.is_null() && !value.is_object() {
                    problems.within(key.as_str(), |problems| problems.warning(NOT_TYPED, NOT_TYPED_TEXT));
                }
                continue;
            };
            if is_half_extraction(given) {
                all = None; // The graph's rules name the keys that it lacks.
                continue;
            }
            match input(given) {
                Ok(input) => all.iter_mut().for_each(|all| all.push((key.clone(), input.clone()))),
                Err(message) => {
                    problems.within(key.as_str(), |problems| problems.error(BUILD_FAILED, message));
                    all = None;
                }
            }
        }
        all
    })
}

/// True for an input that is to be extracted from a conversation and does not say how.
fn is_half_extraction(map: &JsonMap) -> bool {
    map.get("type").and_then(Json::as_str) == Some("extraction")
        && !missing_in_extraction(map.get("value")).is_empty()
}

/// Reads `{type, value}`; the error has Dify's message.
fn input(map: &JsonMap) -> Result<Input, &'static str> {
    let value = map.get("value").unwrap_or(&Json::Null);
    match map.get("type").and_then(Json::as_str) {
        Some("mixed") => match value {
            Json::String(text) => Ok(Input::Mixed(Template::parse(text))),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
                Err("value must be a string")
            }
        },
        Some("variable") => {
            let parts = value.as_array().ok_or("value must be a list")?;
            let parts: Option<Vec<String>> =
                parts.iter().map(|part| part.as_str().map(str::to_owned)).collect();
            parts.map(Input::Variable).ok_or("value must be a list of strings")
        }
        Some("constant") if !value.is_null() => {
            Ok(Input::Constant(value.clone(), Template::parse(&str_of(value))))
        }
        Some("constant") => Err("value must be one of: str, int, float, bool, dict, list"),
        Some(_) | None => Err("type must be one of: mixed, variable, constant"),
    }
}
