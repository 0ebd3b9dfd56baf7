//! Rewrites steps as other programs write them: keys in camel case, in `data`, in `params` and in the
//! branches of a choice; and the branches of a choice under `params`, which are tested from the last to the
//! first.

use serde_json::Value as Json;

use super::node_type;
use crate::kinds::{STEP_FORMS, is_llm_step};
use tidemill_base::value::JsonMap;

/// Keys that any node may have: alternative and canonical spelling.
const OF_ANY: [(&str, &str); 6] = [
    ("enableFilling", "enable_filling"),
    ("toUser", "to_user"),
    ("overrideInput", "override_input"),
    ("overrideOutput", "override_output"),
    ("strictOutput", "strict_output"),
    ("requireConfirm", "require_confirm"),
];
/// Further keys of a step.
const OF_STEP: [(&str, &str); 6] = [
    ("inputSchema", "input_schema"),
    ("profileId", "profile_id"),
    ("retryConfig", "retry_config"),
    ("errorStrategy", "error_strategy"),
    ("defaultValue", "default_value"),
    ("virtualNodes", "virtual_nodes"),
];
/// Parameters of the calls of steps, by type; in `data` or in `params`.
const OF_CALLS: [(&str, &str, &str); 18] = [
    ("llm", "systemPrompt", "system_prompt"),
    ("llm", "userPrompt", "user_prompt"),
    ("llm", "enableContext", "enable_context"),
    ("llm", "stepHistorySize", "step_history_size"),
    ("llm", "profileId", "profile_id"),
    ("summary", "profileId", "profile_id"),
    ("facts", "profileId", "profile_id"),
    ("slot", "currentSchema", "schema"),
    ("slot", "current_schema", "schema"),
    ("slot", "onMissing", "on_missing"),
    ("slot", "targetNode", "target_node"),
    ("slot", "profileId", "profile_id"),
    ("api", "contentType", "content_type"),
    ("api", "acceptText", "accept_text"),
    ("api", "serviceId", "service_id"),
    ("sql", "tableNameList", "table_name_list"),
    ("sql", "readOnly", "read_only"),
    ("sql", "rowsMax", "rows_max"),
];
const OF_RETRY: [(&str, &str); 4] = [
    ("maxRetries", "max_retries"),
    ("retryInterval", "retry_interval"),
    ("retryIntervalSeconds", "retry_interval_seconds"),
    ("retryEnabled", "retry_enabled"),
];
const OF_BRANCH: [(&str, &str); 2] = [("branchId", "branch_id"), ("isDefault", "is_default")];
const OF_OPERAND: [(&str, &str); 2] = [("stepId", "step_id"), ("variableSelector", "variable_selector")];
/// The keys that mark an `llm` node as a step.
const LLM_MARKS: [&str; 4] = ["systemPrompt", "userPrompt", "enableContext", "stepHistorySize"];

pub(super) fn rewrite(data: &mut JsonMap) {
    let ty = data.get("type").and_then(Json::as_str).unwrap_or_default().to_owned();
    of_type(&ty, data);
    for child in data.get_mut("virtual_nodes").and_then(Json::as_array_mut).into_iter().flatten() {
        let Some(child) = child.as_object_mut() else { continue };
        let ty = child.get("type").and_then(Json::as_str).unwrap_or_default();
        let ty = node_type::canonical(ty).unwrap_or(ty).to_owned();
        if let Some(data) = child.get_mut("data").and_then(Json::as_object_mut) {
            of_type(&ty, data);
        }
    }
}

fn of_type(ty: &str, data: &mut JsonMap) {
    rename(data, &OF_ANY);
    if ty == "choice" {
        of_choice(data);
    }
    if !is_step(ty, data) {
        return;
    }
    rename(data, &OF_STEP);
    let own: Vec<(&str, &str)> =
        OF_CALLS.iter().filter(|(of, ..)| *of == ty).map(|(_, theirs, ours)| (*theirs, *ours)).collect();
    rename(data, &own);
    if let Some(params) = data.get_mut("params").and_then(Json::as_object_mut) {
        rename(params, &own);
    }
    if let Some(config) = data.get_mut("retry_config").and_then(Json::as_object_mut) {
        rename(config, &OF_RETRY);
    }
}

/// True for a step in either spelling. Dify's form of `llm` is not one.
fn is_step(ty: &str, data: &JsonMap) -> bool {
    if ty != "llm" {
        return ty == "choice" || STEP_FORMS.iter().any(|form| form.kind.wire() == ty);
    }
    let params = data.get("params").and_then(Json::as_object);
    let has = |key: &&str| data.contains_key(*key) || params.is_some_and(|params| params.contains_key(*key));
    LLM_MARKS.iter().any(has) || is_llm_step(data)
}

fn of_choice(data: &mut JsonMap) {
    let theirs = data.get_mut("params").and_then(Json::as_object_mut);
    let theirs = theirs.and_then(|params| match params.get("choices") {
        Some(Json::Array(_)) => params.shift_remove("choices"),
        _ => None,
    });
    if let Some(Json::Array(mut branches)) = theirs
        && data.get("choices").is_none_or(Json::is_null)
    {
        branches.reverse();
        data.insert("choices".into(), Json::Array(branches));
    }
    if data.get("params").and_then(Json::as_object).is_some_and(JsonMap::is_empty) {
        data.shift_remove("params");
    }
    for branch in data.get_mut("choices").and_then(Json::as_array_mut).into_iter().flatten() {
        let Some(branch) = branch.as_object_mut() else { continue };
        rename(branch, &OF_BRANCH);
        for condition in branch.get_mut("conditions").and_then(Json::as_array_mut).into_iter().flatten() {
            for side in ["left", "right"] {
                if let Some(operand) = condition.get_mut(side).and_then(Json::as_object_mut) {
                    rename(operand, &OF_OPERAND);
                }
            }
        }
    }
}

/// Renames keys to the canonical ones. A canonical key that exists already wins.
fn rename(map: &mut JsonMap, names: &[(&str, &str)]) {
    for (theirs, ours) in names {
        if let Some(value) = map.shift_remove(*theirs) {
            map.entry(*ours).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Migrations, apply};
    use super::*;
    use serde_json::json;

    /// The data of a node after rewriting, asserted to stay unchanged by a second rewriting.
    fn read(data: Json) -> Json {
        let graph = json!({"nodes": [{"id": "n", "data": data}], "edges": []});
        let mut graph = graph.as_object().unwrap().clone();
        apply(&mut graph, Migrations::On);
        let once = graph.clone();
        apply(&mut graph, Migrations::On);
        assert_eq!(graph, once, "what was read is a fixed point");
        graph["nodes"][0]["data"].clone()
    }

    fn with(ty: &str, key: &str) -> Json {
        let mut data = json!({"type": ty});
        data[key] = json!({"its": "value"});
        data
    }

    #[test]
    fn xc_09_every_other_spelling_of_a_step_is_read_as_ours() {
        let types = STEP_FORMS.iter().map(|form| form.kind.wire()).chain(["choice"]);
        for ty in types {
            // `llm` is a step when it has a key that only steps have.
            let step = |mut data: Json| {
                if ty == "llm" {
                    data["user_prompt"] = json!("x");
                }
                read(data)
            };
            for (theirs, ours) in OF_ANY.iter().chain(&OF_STEP) {
                assert_eq!(step(with(ty, theirs)), step(with(ty, ours)), "{ty}: {theirs}");
                assert!(step(with(ty, theirs)).get(*ours).is_some(), "{ty}: {theirs}");
            }
            for (theirs, ours) in OF_RETRY {
                let data = |key: &str| {
                    with(ty, "retry_config").as_object().cloned().map(|mut data| {
                        data.insert("retry_config".into(), json!({key: 2}));
                        Json::Object(data)
                    })
                };
                assert_eq!(step(data(theirs).unwrap()), step(data(ours).unwrap()), "{ty}: {theirs}");
            }
        }
        for (ty, theirs, ours) in OF_CALLS {
            for spelled in [ty.to_owned(), ty.to_uppercase()] {
                let form = |key: &str| {
                    let mut data = with(&spelled, key);
                    if ty == "llm" && !LLM_MARKS.contains(&theirs) {
                        data["user_prompt"] = json!("x");
                    }
                    data
                };
                assert_eq!(read(form(theirs)), read(form(ours)), "{ty}: {theirs}");
                let inner = |key: &str| {
                    let mut data = json!({"type": spelled, "params": {key: 1}});
                    if ty == "llm" && !LLM_MARKS.contains(&theirs) {
                        data["user_prompt"] = json!("x");
                    }
                    data
                };
                assert_eq!(read(inner(theirs))["params"], json!({ours: 1}), "{ty}: params.{theirs}");
            }
        }
        // The canonical key wins when both exist, and Dify's form is left unchanged.
        assert_eq!(read(json!({"type": "api", "toUser": true, "to_user": false}))["to_user"], json!(false));
        for dify in [
            json!({"type": "llm", "model": {}, "profileIds": 1, "retryConfig": {}}),
            json!({"type": "tool", "inputSchema": {}, "profileId": "x", "params": {"contentType": 1}}),
            json!({"type": "call", "params": {"systemPrompt": 1, "contentType": 2}}),
        ] {
            assert_eq!(read(dify.clone()), dify);
        }
    }

    #[test]
    fn xc_09_branches_of_the_original_format_are_reversed() {
        let condition = |id: &str, selector: &str| json!([{"left": {id: "s", "name": "x"}, "operate": "number_equal", "right": {selector: ["a", "b"]}}]);
        let theirs = json!({"type": "CHOICE", "title": "C", "params": {"choices": [
            {"branchId": "d", "isDefault": true},
            {"branchId": "one", "conditions": condition("stepId", "variableSelector")},
            {"branch_id": "two", "conditions": condition("step_id", "variable_selector")},
        ]}});
        let ours = json!({"type": "choice", "title": "C", "choices": [
            {"branch_id": "two", "conditions": condition("step_id", "variable_selector")},
            {"branch_id": "one", "conditions": condition("step_id", "variable_selector")},
            {"branch_id": "d", "is_default": true},
        ]});
        assert_eq!(read(theirs), ours);
        assert_eq!(read(ours.clone()), ours);
    }

    #[test]
    fn xc_09_a_child_is_spelled_as_any_step() {
        let child = |ty: &str, key: &str| json!({"type": "tool", "virtual_nodes": [{"id": "c", "type": ty, "data": {key: "x"}}]});
        assert_eq!(read(child("API", "contentType")), read(child("api", "content_type")));
        assert_eq!(read(child("tool", "contentType")), child("tool", "contentType"));
    }
}
