//! Parses the configuration of a step.

use serde_json::Value as Json;

use super::api::is_timeout;
use super::{Filling, Param, STEP_FORMS, StepData};
use crate::dsl::Problems;
use crate::nodes::NodeKind;
use crate::nodes::fields::{INVALID_NODE_DATA, flag, mapping, text};
use crate::slots::Schema;
use tidemill_base::language::Language;
use tidemill_base::value::JsonMap;

pub(super) fn parse(kind: NodeKind, data: &JsonMap, problems: &mut Problems) -> Option<StepData> {
    let form = STEP_FORMS.iter().find(|form| form.kind == kind)?;
    let given = |key: &str| data.get(key).filter(|value| !value.is_null());
    let before = problems.error_count();
    let node = given("node").and_then(|value| problems.within("node", |p| text(value, p)));
    let params = parameters(data, form.keys, problems);
    let truth = |key: &str, problems: &mut Problems| {
        given(key).and_then(|value| problems.within(key, |problems| flag(value, problems)))
    };
    let enable_filling = truth("enable_filling", problems);
    let to_user = truth("to_user", problems);
    let strict_output = truth("strict_output", problems).unwrap_or(false);
    let overrides = |key: &str, problems: &mut Problems| {
        let map = given(key).and_then(|value| problems.within(key, |p| mapping(value, p).cloned()));
        map.unwrap_or_default()
    };
    let override_input = overrides("override_input", problems);
    let override_output = overrides("override_output", problems);
    let language = given("language").and_then(|value| language(value, problems));
    let filling = filling(data, problems).unwrap_or_default();
    if kind == NodeKind::Llm {
        check_llm(&params, problems);
    }
    if kind == NodeKind::Slot {
        check_slot(&params, data, problems);
    }
    if kind == NodeKind::Api {
        check_api(&params, problems);
    }
    if kind == NodeKind::Call && node.as_ref().is_none_or(String::is_empty) {
        problems.error(INVALID_NODE_DATA, "a call node needs `node`: a library node or a Call, by its id");
    }
    (problems.error_count() == before).then(|| StepData {
        node: node.filter(|id| !id.is_empty()),
        call: form.call,
        params,
        enable_filling,
        to_user,
        override_input,
        override_output,
        strict_output,
        language,
        filling,
    })
}

/// Reads `params`, preceded by the type's own keys in `data`.
fn parameters(data: &JsonMap, keys: &[&str], problems: &mut Problems) -> Vec<(String, Param)> {
    let nothing = JsonMap::new();
    let given = match data.get("params").filter(|value| !value.is_null()) {
        Some(value) => problems.within("params", |p| mapping(value, p)).unwrap_or(&nothing),
        None => &nothing,
    };
    let flat = keys.iter().filter(|key| !given.contains_key(**key));
    let flat: Vec<(&str, &Json)> =
        flat.filter_map(|key| Some((*key, data.get(*key).filter(|value| !value.is_null())?))).collect();
    let mut params = Vec::new();
    for (name, value) in flat {
        let param = problems.within(name, |problems| Param::parse(value, problems));
        params.extend(param.map(|param| (name.to_owned(), param)));
    }
    problems.within("params", |problems| {
        for (name, value) in given {
            let param = problems.within(name.as_str(), |problems| Param::parse(value, problems));
            params.extend(param.map(|param| (name.clone(), param)));
        }
    });
    params
}

pub(super) fn filling(data: &JsonMap, problems: &mut Problems) -> Option<Filling> {
    let before = problems.error_count();
    let given = |key: &str| data.get(key).filter(|value| !value.is_null());
    let words = |key: &str, problems: &mut Problems| {
        given(key).and_then(|value| problems.within(key, |problems| text(value, problems)))
    };
    let profile_id = words("profile_id", problems).filter(|id| !id.is_empty());
    let question = words("question", problems);
    let input_schema = given("input_schema").cloned();
    if let Some(schema) = &input_schema {
        problems.within("input_schema", |problems| {
            if let Err(error) = Schema::new(schema.clone()) {
                problems.error(INVALID_NODE_DATA, error.to_string());
            }
        });
    }
    (problems.error_count() == before).then_some(Filling { profile_id, question, input_schema })
}

fn language(value: &Json, problems: &mut Problems) -> Option<Language> {
    let found = value.as_str().and_then(Language::from_name);
    if found.is_none() {
        problems.within("language", |problems| {
            problems.error(INVALID_NODE_DATA, "the language must be zh or en");
        });
    }
    found
}

/// The value of a constant parameter.
fn constant<'a>(params: &'a [(String, Param)], name: &str) -> Option<&'a Json> {
    params.iter().find(|(known, _)| known == name).and_then(|(_, param)| match param {
        Param::Constant(value) | Param::Mixed(value) => Some(value),
        Param::Variable(_) => None,
    })
}

fn check_llm(params: &[(String, Param)], problems: &mut Problems) {
    let size = constant(params, "step_history_size");
    if size.is_some_and(|size| !size.as_u64().is_some_and(|size| (1..=10).contains(&size))) {
        problems.within("step_history_size", |problems| {
            problems.error(INVALID_NODE_DATA, "step_history_size must be a whole number from 1 to 10");
        });
    }
    let temperature = constant(params, "temperature");
    if temperature.is_some_and(|value| !value.as_f64().is_some_and(|value| (0.0..=2.0).contains(&value))) {
        problems.within("temperature", |problems| {
            problems.error(INVALID_NODE_DATA, "temperature must be a number from 0 to 2");
        });
    }
}

fn check_api(params: &[(String, Param)], problems: &mut Problems) {
    if constant(params, "timeout").is_some_and(|timeout| !is_timeout(timeout)) {
        problems.within("timeout", |problems| {
            problems.error(INVALID_NODE_DATA, "timeout must be a number of seconds, more than 30");
        });
    }
}

fn check_slot(params: &[(String, Param)], data: &JsonMap, problems: &mut Problems) {
    let has_target = data.get("target_node").is_some_and(|id| !id.is_null());
    match constant(params, "schema") {
        Some(schema) => problems.within("schema", |problems| {
            if let Err(error) = Schema::new(schema.clone()) {
                problems.error(INVALID_NODE_DATA, error.to_string());
            }
        }),
        None if has_target || params.iter().any(|(name, _)| name == "schema") => {}
        None => problems.error(INVALID_NODE_DATA, "a slot node needs `schema`, or `target_node`"),
    }
    let on_missing = constant(params, "on_missing");
    if on_missing.is_some_and(|word| !matches!(word.as_str(), Some("output" | "pause"))) {
        problems.within("on_missing", |problems| {
            problems.error(INVALID_NODE_DATA, "on_missing must be output or pause");
        });
    }
}
