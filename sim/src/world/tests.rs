//! Stories of handwritten documents, for cases that drawn ones reach too rarely.

use serde_json::Value as Json;

use super::*;
use crate::script::{FormFate, Script};

/// A form beside an iteration whose items take at least one round each. The run waits for the form alone only after all
/// items.
fn a_form_beside_many_items(items: usize) -> Json {
    let node = |id: &str, mut data: Json| {
        data["title"] = id.into();
        json!({"id": id, "data": data})
    };
    let child = |id: &str, mut data: Json| {
        data["iteration_id"] = "n2".into();
        let mut child = node(id, data);
        child["parentId"] = "n2".into();
        child
    };
    let edge = |source: &str, handle: &str, target: &str| {
        let id = format!("{source}-{handle}-{target}");
        json!({"id": id, "source": source, "sourceHandle": handle, "target": target})
    };
    let action = |id: &str| json!({"id": id, "title": id, "button_style": "default"});
    let form = json!({"type": "human-input", "delivery_methods": [], "form_content": "?", "inputs": [{"type": "paragraph",
        "output_variable_name": "comment", "default": {"type": "constant", "selector": [], "value": ""}}],
        "user_actions": [action("approve"), action("reject")], "timeout": 1, "timeout_unit": "hour"});
    let llm = json!({"type": "llm", "prompt_template": [{"role": "user", "text": "{{#n2.item#}}"}],
        "model": {"provider": "p", "name": "m", "mode": "chat", "completion_params": {}},
        "context": {"enabled": false, "variable_selector": []}});
    let iteration = json!({"type": "iteration", "start_node_id": "n2start", "iterator_selector": ["s", "items"],
        "output_selector": ["n2b0", "text"], "is_parallel": false, "parallel_nums": 1,
        "error_handle_mode": "terminated", "flatten_output": true});
    let end =
        json!({"type": "end", "outputs": [{"variable": "comment", "value_selector": ["n1", "comment"]}]});
    let nodes = [
        node("s", json!({"type": "start", "variables": []})),
        node("n1", form),
        child("n2start", json!({"type": "iteration-start"})),
        child("n2b0", llm),
        node("n2", iteration),
        node("n3", end),
    ];
    let edges = [
        edge("s", "source", "n1"),
        edge("s", "source", "n2"),
        edge("n2start", "source", "n2b0"),
        edge("n1", "approve", "n3"),
        edge("n2", "source", "n3"),
    ];
    let list: Vec<String> = (0..items).map(|at| format!("item {at}")).collect();
    json!({"document": {"nodes": nodes, "edges": edges}, "inputs": {"items": list}})
}

#[test]
fn a_form_is_answered_as_scripted_even_if_its_run_works_for_long() {
    for seed in 0..8 {
        let mut world = World::new(seed, Settings::default());
        world.to_come = 0;
        // The work takes more rounds than the time of the form.
        let mut drawn = a_form_beside_many_items(200);
        let script = Script::new(seed, 0);
        let is_answered = script.form("", "n1") != FormFate::Expires;
        let (document, inputs) = (drawn["document"].take(), drawn["inputs"].take());
        world.create(0, Plan { document, inputs, script, inline_bytes_max: 8192 });
        world.come_to_rest();
        let Shared { watch, tally, .. } = world.shared;
        assert_eq!(watch.violation, None, "seed {seed}");
        let happened = |what: &str| tally.contains_key(what);
        assert_eq!(happened("forms answered"), is_answered, "seed {seed}");
        assert_eq!(happened("event node_run_human_input_form_timeout"), !is_answered, "seed {seed}");
    }
}
