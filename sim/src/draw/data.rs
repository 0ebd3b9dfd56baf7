//! The `data` of each node type, as in a workflow file.

use serde_json::{Value as Json, json};

/// A selector: node and name.
pub(super) type VariableName = (String, String);

fn selector((node, name): &VariableName) -> Json {
    json!([node, name])
}

pub(super) fn start() -> Json {
    json!({"type": "start", "variables": []})
}

/// A model call. The script decides its answer. Its prompt refers to a value, so that the job carries one.
pub(super) fn llm(reads: &VariableName) -> Json {
    let (node, name) = reads;
    json!({"type": "llm", "prompt_template": [{"role": "user", "text": format!("{{{{#{node}.{name}#}}}}")}],
        "model": {"provider": "p", "name": "m", "mode": "chat", "completion_params": {}},
        "context": {"enabled": false, "variable_selector": []}})
}

/// Joins values; a missing or null one shows as a dash. [`crate::reference`] evaluates exactly the conditional
/// expressions that this writes around the names.
pub(super) fn template(reads: &[VariableName], on_worker: bool) -> Json {
    let names = ["a", "b", "c"];
    let variables: Vec<Json> = reads
        .iter()
        .zip(names)
        .map(|(place, name)| json!({"variable": name, "value_selector": selector(place)}))
        .collect();
    let text: Vec<String> =
        names.iter().take(reads.len()).map(|name| format!("{{{{ {name} if {name} else '-' }}}}")).collect();
    let mut data = json!({"type": "template-transform", "template": text.join("|"), "variables": variables});
    if on_worker {
        data["tidemill"] = json!({"runs_on": "worker"});
    }
    data
}

pub(super) fn if_else(reads: &VariableName, operator: &str) -> Json {
    json!({"type": "if-else", "cases": [{"case_id": "true", "logical_operator": "and", "conditions":
        [{"comparison_operator": operator, "variable_selector": selector(reads), "value": "+"}]}]})
}

pub(super) fn aggregator(reads: &[VariableName]) -> Json {
    let variables: Vec<Json> = reads.iter().map(selector).collect();
    json!({"type": "variable-aggregator", "output_type": "string", "variables": variables})
}

/// An End node. Its output names begin with its id, so that no two Ends write the same key and their order does not
/// matter.
pub(super) fn end(id: &str, reads: &[VariableName]) -> Json {
    let output = |(at, place): (usize, &VariableName)| json!({"variable": format!("{id}_{at}"), "value_selector": selector(place)});
    json!({"type": "end", "outputs": reads.iter().enumerate().map(output).collect::<Vec<_>>()})
}

pub(super) fn answer(reads: &[VariableName]) -> Json {
    let text: String = reads.iter().map(|(node, name)| format!("says {{{{#{node}.{name}#}}}};")).collect();
    json!({"type": "answer", "answer": text, "variables": []})
}

pub(super) fn iteration(id: &str, output: &VariableName, window: u64, errors: &str) -> Json {
    json!({"type": "iteration", "start_node_id": format!("{id}start"), "iterator_selector": ["s", "items"],
        "output_selector": selector(output), "is_parallel": window > 1, "parallel_nums": window,
        "error_handle_mode": errors, "flatten_output": true})
}

pub(super) fn loop_(id: &str, rounds: u64, conditions: &[Json]) -> Json {
    json!({"type": "loop", "start_node_id": format!("{id}start"), "loop_count": rounds, "logical_operator": "or",
        "break_conditions": conditions, "loop_variables":
        [{"label": "n", "var_type": "number", "value_type": "constant", "value": 0}]})
}

/// Adds one to the loop's counter.
pub(super) fn count_up(of_loop: &str) -> Json {
    json!({"type": "assigner", "version": "2", "items": [{"variable_selector": [of_loop, "n"],
        "input_type": "constant", "operation": "+=", "value": 1}]})
}

pub(super) fn form(reads: &VariableName) -> Json {
    let (node, name) = reads;
    let input = json!({"type": "paragraph", "output_variable_name": "comment",
        "default": {"type": "constant", "selector": [], "value": ""}});
    let action = |id: &str| json!({"id": id, "title": id.to_uppercase(), "button_style": "default"});
    json!({"type": "human-input", "delivery_methods": [], "inputs": [input],
        "form_content": format!("{{{{#{node}.{name}#}}}}: {{{{#$output.comment#}}}}"),
        "user_actions": [action("approve"), action("reject")], "timeout": 1, "timeout_unit": "hour"})
}

pub(super) fn bare(kind: &str) -> Json {
    json!({ "type": kind })
}
