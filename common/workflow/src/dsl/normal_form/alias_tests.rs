//! Tests of every alternative spelling of Tidemill's extensions: each is rewritten to the canonical form, and
//! the canonical form stays unchanged.

use serde_json::{Value as Json, json};

use crate::dsl::{Document, ParseOptions, parse};

/// The nodes after rewriting. Problems that the checks report do not matter here.
fn canonical_nodes(nodes: &Json) -> (Json, String) {
    let graph = json!({"nodes": nodes, "edges": []});
    // In a bare graph, tools without a provider are completed as well.
    let text =
        json!({"kind": "app", "version": "0.6.0", "app": {"mode": "workflow"}, "workflow": {"graph": graph}});
    let text = text.to_string();
    let (document, problems) = parse(text.as_bytes(), &ParseOptions::default());
    let document: Document = document.unwrap_or_else(|| panic!("{problems:?} in {text}"));
    let nodes = document.nodes.iter().map(|node| json!({"id": node.id, "data": node.data})).collect();
    (nodes, document.canonical())
}

/// Asserts that the alternative spelling becomes the canonical form, and that the canonical form stays
/// unchanged.
fn becomes(name: &str, other: Json, one_form: Json) {
    let (once, _) = canonical_nodes(&other);
    assert_eq!(once, one_form, "{name}");
    let (twice, canonical) = canonical_nodes(&once);
    assert_eq!(twice, once, "{name}: an export is read as it is");
    let stored = Document::from_stored(&canonical).expect("an export is whole");
    assert_eq!(stored.canonical(), canonical, "{name}");
}

fn node(data: Json) -> Json {
    json!([{"id": "n", "data": data}])
}

#[test]
fn xc_09_types_of_other_programs() {
    for (other, ours) in [
        ("CONTEXT_PROCESSOR", "context-processor"),
        ("USER_INTERACTION", "user-interaction"),
        ("LLM", "llm"),
        ("Empty", "empty"),
        ("EMPTY", "empty"),
        ("Summary", "summary"),
        ("SUMMARY", "summary"),
        ("Facts", "facts"),
        ("FACTS", "facts"),
        ("Slot", "slot"),
        ("SLOT", "slot"),
        ("API", "api"),
        ("SQL", "sql"),
        ("Choice", "choice"),
        ("CHOICE", "choice"),
    ] {
        becomes(other, node(json!({"type": other, "title": "T"})), node(json!({"type": ours, "title": "T"})));
        let foreign = json!([{"id": "n", "type": other, "name": "T", "config": {"a": 1}}]);
        becomes(other, foreign, node(json!({"type": ours, "title": "T", "a": 1})));
        let inside = |name: &str| json!({"type": "tool", "virtual_nodes": [{"id": "c", "type": name, "data": {"title": "C"}}]});
        becomes(other, node(inside(other)), node(inside(ours)));
    }
}

/// The extraction that a tool's parameter becomes, with a child of this id.
fn extracted(local: &str, more: Json) -> Json {
    let mut child = json!({
        "id": local, "kind": "extraction", "type": "llm", "source": ["a", "context"], "prompt": "Which?",
    });
    if let (Some(child), Json::Object(more)) = (child.as_object_mut(), more) {
        child.extend(more);
    }
    json!([{"id": "a", "data": {"type": "llm"}}, {"id": "t", "data": {
        "type": "tool", "tool_parameters": {"q": {"type": "variable", "value": [format!("t_{local}"), "text"]}},
        "virtual_nodes": [child],
    }}])
}

fn tool(parameter: Json) -> Json {
    json!([{"id": "a", "data": {"type": "llm"}}, {"id": "t", "data": {"type": "tool", "tool_parameters": {"q": parameter}}}])
}

#[test]
fn xc_09_spellings_of_nodes_inside_others() {
    let value = json!({"source_node_id": "a", "source_variable": "context", "extraction_prompt": "Which?"});
    let camel = json!({"sourceNodeId": "a", "sourceVariable": "context", "extractionPrompt": "Which?", "profileId": "p", "defaultValue": "x"});
    let config = json!({"extractor_node_id": "t_ext_q", "output_selector": ["text"]});
    let written = "{{@a.context@}}Which?";
    let one_form = extracted("ext_1", json!({}));
    for (name, parameter, expected) in [
        ("extraction", json!({"type": "extraction", "value": value}), one_form.clone()),
        (
            "camel case",
            json!({"type": "extraction", "value": camel}),
            extracted("ext_1", json!({"profile_id": "p", "default_value": "x"})),
        ),
        ("VE-05", json!("@a.context | Which?"), one_form.clone()),
        (
            "VE-05 as a constant",
            json!({"type": "constant", "value": "@a.context | Which?"}),
            one_form.clone(),
        ),
        ("VE-C4", json!({"type": "mixed", "value": written}), one_form.clone()),
        (
            "VE-C4 nested_node",
            json!({"type": "nested_node", "value": written, "nested_node_config": config}),
            extracted("ext_q", json!({})),
        ),
        (
            "VE-C4 mention",
            json!({"type": "mention", "value": written, "mention_config": config}),
            extracted("ext_q", json!({})),
        ),
    ] {
        let (once, _) = canonical_nodes(&tool(parameter.clone()));
        // A null strategy stays where it was written.
        let without = |mut nodes: Json| {
            if let Some(parameter) = nodes[1]["data"]["tool_parameters"]["q"].as_object_mut() {
                parameter.remove("null_strategy");
            }
            nodes
        };
        assert_eq!(without(once.clone()), expected, "{name}");
        becomes(name, tool(parameter), once);
    }
    let inputs = json!([{"id": "a", "data": {"type": "llm"}}, {"id": "t", "data": {
        "type": "tool", "inputs": [{"name": "q", "type": "extraction", "value": value}],
    }}]);
    let (once, _) = canonical_nodes(&inputs);
    assert_eq!(once[1]["data"]["tool_parameters"], one_form[1]["data"]["tool_parameters"]);
    becomes("VE-C4 inputs", inputs, once);

    // VE-C1: a child by its dotted id, in selectors and templates; inside its parent by its local id.
    let names = |dotted: bool| {
        let id = if dotted { "t.c" } else { "t_c" };
        let own = if dotted { "c" } else { "t_c" };
        json!([
            {"id": "t", "data": {
                "type": "template-transform", "template": "x", "variables": [{"variable": "v", "value_selector": [own, "text"]}],
                "virtual_nodes": [{"id": "c", "type": "template-transform", "data": {"template": "y", "variables": []}}],
            }},
            {"id": "e", "data": {"type": "answer", "answer": format!("{{{{#{id}.text#}}}}")}},
            {"id": "f", "data": {"type": "end", "outputs": [{"variable": "v", "value_selector": [id, "text"]}]}},
        ])
    };
    becomes("VE-C1", names(true), names(false));
    // VE-C5
    let retry = |config: Json| node(json!({"type": "tool", "retry_config": config}));
    becomes("VE-C5", retry(json!({"retry_interval_seconds": 1.5})), retry(json!({"retry_interval": 1500})));
    let both = json!({"retry_interval": 7, "retry_interval_seconds": 2});
    becomes("VE-C5 both", retry(both), retry(json!({"retry_interval": 7})));
}

#[test]
fn xc_09_spellings_of_questions_and_lists_of_messages() {
    let asks = |more: Json| {
        let mut data = json!({"type": "user-interaction"});
        data.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("an object"));
        node(data)
    };
    for (name, other, ours) in [
        (
            "CX-C2 old",
            json!({"userInteractionType": "ask_for_approval", "showMessage": "Go?", "userInput": true}),
            json!({"interaction_type": "ask_for_approval", "show_message": "Go?", "user_input": true}),
        ),
        (
            "CX-C2 new, CX-C8",
            json!({"operationType": "UPDATE_VARIABLES", "prompt": "?", "timeout": 5, "variables": [
                {"variableName": "a", "expression": "{{input}}", "scope": "subgraph"}]}),
            json!({"interaction_type": "ask_for_input", "show_message": "?", "timeout_ms": 5, "on_answer": {
                "update_variables": [{"name": "a", "expression": "{{input}}", "scope": "local"}]}}),
        ),
        (
            "CX-C2 message",
            json!({"operationType": "ADD_MESSAGE", "message": {"role": "user", "contentTemplate": "Q: {{input}}"}}),
            json!({"interaction_type": "ask_for_input", "on_answer": {"add_message": {"role": "user", "content": "Q: {{input}}"}}}),
        ),
    ] {
        becomes(name, asks(other), asks(ours));
    }
    let changes = |data: Json| {
        let mut data = data;
        data["type"] = "context-processor".into();
        canonical_nodes(&node(data)).0
    };
    for (name, other, ours) in [
        (
            "CX-C3",
            json!({"operationConfig": {"operation": "TRUNCATE", "strategy": {"type": "KEEP_LAST", "count": 2}}}),
            json!({"operation": "truncate", "truncate": {"keep_last": 2}}),
        ),
        (
            "CX-C3 keys",
            json!({"operation": "filter", "filter": {"contentContains": ["a"], "contentExcludes": ["b"]}}),
            json!({"operation": "filter", "filter": {"content_contains": ["a"], "content_excludes": ["b"]}}),
        ),
        (
            "CX-C3 batches",
            json!({"operationConfig": {"operation": "BATCH_MANAGEMENT", "batchOperation": "ROLLBACK_TO_BATCH", "targetBatch": 1}}),
            json!({"operation": "rollback", "rollback": {"target_batch": 1}}),
        ),
    ] {
        let once = changes(other.clone());
        assert_eq!(once, changes(ours), "{name}");
        let mut other = other;
        other["type"] = "context-processor".into();
        becomes(name, node(other), once);
    }
}

#[test]
fn xc_09_spellings_of_models_by_profile() {
    let camel = json!({"profileId": "p", "prompt": "x", "maxToolCallsPerRequest": 4, "onToolError": "fail", "parallelToolCalls": true});
    let ours = json!({"profile_id": "p", "prompt": "x", "max_tool_calls_per_request": 4, "on_tool_error": "fail", "parallel_tool_calls": true});
    let llm = |data: &Json| {
        let mut data = data.clone();
        data["type"] = "llm".into();
        node(data)
    };
    becomes("LP-01", llm(&camel), llm(&ours));
    // Also in a node inside another node.
    let inside = |data: &Json| {
        node(json!({"type": "tool", "virtual_nodes": [{"id": "c", "type": "llm", "data": data}]}))
    };
    becomes("LP-01 inside", inside(&camel), inside(&ours));
}
