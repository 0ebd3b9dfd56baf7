//! Parses `data` of a `parameter-extractor` node, or reports all its problems.

use serde_json::Value as Json;

use super::{Parameter, ParameterExtractorData, ParameterType};
use crate::dsl::Problems;
use crate::nodes::llm::blocks::{INVALID, memory, model, optional_text, present, selector, vision};
use tidemill_base::value::JsonMap;

/// Names of the node's own outputs. Dify does not check `__usage`.
const RESERVED: [&str; 2] = ["__reason", "__is_success"];

pub(super) fn parse(data: &JsonMap, problems: &mut Problems) -> Option<ParameterExtractorData> {
    // All parts are read before any `?`, so that all mistakes are reported at once.
    let query = selector(data.get("query"));
    if query.is_none() {
        problems.within("query", |p| p.error(INVALID, "query must be a list of texts"));
    }
    let model = problems.within("model", |p| model(present(data, "model"), p));
    let parameters = problems.within("parameters", |p| parameters(data.get("parameters"), p));
    let instruction = optional_text(data, "instruction", problems);
    let memory = problems.within("memory", |p| memory(present(data, "memory"), p));
    let by_tool = problems.within("reasoning_mode", |p| by_tool(data.get("reasoning_mode"), p));
    let vision = problems.within("vision", |p| vision(present(data, "vision"), p));
    let (vision, detail) = vision?;
    Some(ParameterExtractorData {
        query: query?,
        model: model?,
        parameters: parameters?,
        instruction: instruction?,
        memory: memory?,
        by_tool: by_tool?,
        vision,
        detail,
    })
}

fn by_tool(value: Option<&Json>, problems: &mut Problems) -> Option<bool> {
    match value {
        Some(Json::Null) => Some(true),
        Some(Json::String(mode)) if mode.is_empty() || mode == "function_call" => Some(true),
        Some(Json::String(mode)) if mode == "prompt" => Some(false),
        _ => {
            problems.error(INVALID, "reasoning_mode must be function_call or prompt");
            None
        }
    }
}

fn parameters(value: Option<&Json>, problems: &mut Problems) -> Option<Vec<Parameter>> {
    let Some(items) = value.and_then(Json::as_array) else {
        problems.error(INVALID, "parameters must be a list");
        return None;
    };
    let read = |(at, item): (usize, &Json)| problems.within(format!("[{at}]"), |p| parameter(item, p));
    // Collected first, so that all parameters are checked.
    items.iter().enumerate().map(read).collect::<Vec<_>>().into_iter().collect()
}

fn parameter(item: &Json, problems: &mut Problems) -> Option<Parameter> {
    let Some(map) = item.as_object() else {
        problems.error(INVALID, "a parameter must be a mapping with name, type, description and required");
        return None;
    };
    let name = problems.within("name", |p| match map.get("name").and_then(Json::as_str) {
        None | Some("") => {
            p.error(INVALID, "Parameter name is required");
            None
        }
        Some(name) if RESERVED.contains(&name) => {
            p.error(INVALID, "Invalid parameter name, __reason and __is_success are reserved");
            None
        }
        Some(name) => Some(name.to_owned()),
    });
    let ty = problems.within("type", |p| {
        let word = map.get("type").and_then(Json::as_str).unwrap_or_default();
        let ty = ParameterType::from_name(word);
        if ty.is_none() {
            // Dify's message, including its spelling.
            p.error(INVALID, format!("type {word} is not allowd to use in Parameter Extractor node."));
        }
        ty
    });
    let options = problems.within("options", |p| match present(map, "options") {
        None => Some(None),
        Some(options) => {
            let options = options.as_array().and_then(|options| {
                options.iter().map(|option| option.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
            });
            if options.is_none() {
                p.error(INVALID, "options must be a list of texts");
            }
            options.map(Some)
        }
    });
    let description = map.get("description").and_then(Json::as_str).map(str::to_owned);
    if description.is_none() {
        problems.within("description", |p| p.error(INVALID, "description must be text"));
    }
    let required = map.get("required").and_then(Json::as_bool);
    if required.is_none() {
        problems.within("required", |p| p.error(INVALID, "required must be true or false"));
    }
    Some(Parameter {
        name: name?,
        ty: ty?,
        options: options?,
        description: description?,
        required: required?,
    })
}
