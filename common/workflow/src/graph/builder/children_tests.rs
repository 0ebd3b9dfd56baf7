//! Tests of nodes inside other nodes.

use crate::graph::{ChildKind, Graph, import};

fn workflow(parent: &str, more: &str) -> String {
    format!(
        "nodes:\n- {{id: s, data: {{type: start, variables: []}}}}\n- {{id: t, data: {{{parent}}}}}\n{more}edges:\n- {{source: s, target: t}}\n"
    )
}

const TEXT: &str = "type: template-transform, template: '{{ x }}', variables: [{variable: x, value_selector: [ext_2, output]}]";
const CHILDREN: &str = "virtual_nodes: [{id: ext_1, type: template-transform, data: {template: '{{ a }}', variables: [{variable: a, value_selector: [s, q]}]}}, \
    {id: ext_2, type: template-transform, data: {template: '{{ b }}', variables: [{variable: b, value_selector: [t.ext_1, output]}]}}]";

fn built(parent: &str, more: &str) -> Graph {
    let imported = import(workflow(parent, more).as_bytes());
    imported.graph.unwrap_or_else(|| panic!("{:#?}", imported.diagnostics))
}

/// The codes and messages of all problems.
fn wrong(parent: &str, more: &str) -> String {
    let imported = import(workflow(parent, more).as_bytes());
    assert!(imported.graph.is_none());
    imported.diagnostics.iter().map(|it| format!("{} {}\n", it.code, it.message)).collect()
}

#[test]
fn ve_a16_children_are_ordinary_nodes_after_all_others() {
    let graph = built(&format!("{TEXT}, {CHILDREN}"), "- {id: e, data: {type: end, outputs: []}}\n");
    let ids: Vec<&str> = graph.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["s", "t", "e", "t_ext_1", "t_ext_2"]);
    let parent = graph.node(graph.find("t").unwrap());
    let children: Vec<&str> = parent.children.iter().map(|ix| graph.node(*ix).id.as_str()).collect();
    assert_eq!(children, ["t_ext_1", "t_ext_2"]);
    // The job carries the variables that the children read, but not their outputs.
    assert_eq!(parent.mentions, [("s".to_string(), "q".to_string())]);
    assert!(parent.work.is_some() && parent.settings.on_worker);
    let second = graph.node(parent.children[1]);
    assert_eq!(second.mentions, [("t_ext_1".to_string(), "output".to_string())]);
    let child = second.child.as_ref().unwrap();
    assert_eq!(
        (child.local.as_str(), &child.kind, second.title.as_str()),
        ("ext_2", &ChildKind::Virtual, "Virtual: ext_2")
    );
    assert!(second.ins.is_empty() && second.outs.is_empty());
    let start = graph.node(graph.find("s").unwrap());
    assert!(start.work.is_none() && start.children.is_empty() && start.child.is_none());
}

#[test]
fn ve_a18_a_node_is_not_inside_another_because_of_its_name() {
    let graph = built(
        "type: template-transform, template: x, variables: []",
        "- {id: next_ext_step, data: {type: end, outputs: []}}\n",
    );
    assert!(graph.node(graph.find("next_ext_step").unwrap()).child.is_none());
}

#[test]
fn ve_a19_a_child_with_the_id_of_another_node_is_refused() {
    let text = wrong(&format!("{TEXT}, {CHILDREN}"), "- {id: t_ext_1, data: {type: end, outputs: []}}\n");
    assert!(text.contains("graph.duplicate_node_id DuplicateNodeId") && text.contains("t_ext_1"), "{text}");
}

#[test]
fn ve_a20_children_of_other_types_and_unknown_ones_are_refused() {
    for (child, expected) in [
        ("{id: a, type: loop, data: {}}", "a node of type loop cannot run inside another"),
        ("{id: a, type: foo, data: {}}", "of the unknown type \"foo\""),
        ("{id: a, type: human-input, data: {}}", "a node of type human-input cannot run inside another"),
        ("{id: a, type: start, data: {variables: []}}", "a node of type start cannot run inside another"),
        ("{id: a, type: agent, data: {}}", "a node of type agent cannot run inside another"),
        ("{type: code, data: {}}", "needs a text `id`"),
        ("5", "must be a mapping"),
        (
            "{id: a, type: template-transform, data: {template: x, variables: [], virtual_nodes: [{id: b}]}}",
            "NestedVirtualNode",
        ),
    ] {
        let text = wrong(&format!("{TEXT}, virtual_nodes: [{child}]"), "");
        assert!(text.contains(expected), "{child}: {text}");
    }
}

#[test]
fn ve_09_an_unknown_child_is_named() {
    let text = wrong(
        &format!(
            "{TEXT}, virtual_nodes: [{{id: ext_1, type: template-transform, data: {{template: x, variables: []}}}}]"
        ),
        "",
    );
    assert!(text.contains("VariableNotFoundError") && text.contains("ext_2"), "{text}");
}

#[test]
fn only_nodes_with_their_own_job_have_children() {
    for parent in ["type: end, outputs: []", "type: answer, answer: x"] {
        let text = wrong(
            &format!(
                "{parent}, virtual_nodes: [{{id: a, type: template-transform, data: {{template: x, variables: []}}}}]"
            ),
            "",
        );
        assert!(text.contains("cannot have nodes inside it"), "{text}");
    }
}

#[test]
fn xc_11_more_children_than_the_limit_allows_are_refused_and_the_limit_is_named() {
    let child =
        |n: usize| format!("{{id: c{n}, type: template-transform, data: {{template: x, variables: []}}}}");
    let list: Vec<String> = (0..17).map(child).collect();
    let text = wrong(
        &format!(
            "type: template-transform, template: x, variables: [], virtual_nodes: [{}]",
            list.join(", ")
        ),
        "",
    );
    assert!(text.contains("children_max") && text.contains("16"), "{text}");
    built(
        &format!(
            "type: template-transform, template: x, variables: [], virtual_nodes: [{}]",
            list[..16].join(", ")
        ),
        "",
    );
}

#[test]
fn no_edge_leads_to_a_child() {
    let text = workflow(&format!("{TEXT}, {CHILDREN}"), "") + "- {source: t, target: t_ext_1}\n";
    let imported = import(text.as_bytes());
    let codes: Vec<&str> = imported.diagnostics.iter().map(|it| it.code).collect();
    assert_eq!(codes, ["graph.edge_unknown_node"]);
}
