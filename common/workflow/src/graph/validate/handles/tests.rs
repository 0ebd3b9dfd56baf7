//! Each node type with its handles, and with one that it does not have.

use crate::graph::import;

const MODEL: &str = "model: {provider: p, name: m, mode: chat, completion_params: {}}";

/// Message and hint of the warnings about the handles of node `n`, with these edges from it. The first edge is on line 6.
fn found(node: &str, handles: &[&str]) -> Vec<(Option<u32>, String, String)> {
    let edges: String = handles
        .iter()
        .map(|handle| format!("- {{source: n, target: e, sourceHandle: '{handle}'}}\n"))
        .collect();
    let text = format!(
        "nodes:\n- {{id: s, data: {{type: start, variables: []}}}}\n- {{id: n, data: {{{node}}}}}\n\
         - {{id: e, data: {{type: end, outputs: []}}}}\nedges:\n{edges}- {{source: s, target: n}}\n"
    );
    let problems = import(text.as_bytes()).diagnostics;
    assert!(problems.iter().all(|problem| !problem.is_error()), "{text}{problems:#?}");
    let about = problems.into_iter().filter(|problem| problem.code == "graph.unknown_handle");
    about.map(|problem| (problem.line, problem.message, problem.hint.unwrap_or_default())).collect()
}

/// Node, its handles, a handle that it does not have, the message about that, and the hint.
fn table() -> Vec<(String, Vec<&'static str>, &'static str, &'static str, &'static str)> {
    let case = "{case_id: a, logical_operator: and, conditions: []}";
    let classes = "classes: [{id: '1', name: A}, {id: '2', name: B}], query_variable_selector: [s, q]";
    let form = "type: human-input, form_content: x, inputs: [], timeout: 1, timeout_unit: hour";
    let buttons = "user_actions: [{id: go, title: Go}, {id: stop, title: Stop}]";
    let text = "type: template-transform, template: x, variables: []";
    let question = "type: user-interaction, show_message: '?'";
    let options = "options: [{id: x, label: X}, {id: y, label: Y}]";
    vec![
        (format!("type: if-else, cases: [{case}]"), vec!["a", "false"], "b", "no case \"b\"", "a, false"),
        (format!("type: if-else, cases: [{case}]"), vec!["a"], "source", "no case \"source\"", "a, false"),
        (
            format!("type: if-else, cases: [{case}]"),
            vec![],
            "fail-branch",
            "no `error_strategy: fail-branch`, so this edge is never taken",
            "a, false",
        ),
        (
            format!("type: if-else, cases: [{case}], error_strategy: fail-branch"),
            vec!["a", "false", "fail-branch"],
            "success-branch",
            "no case \"success-branch\"",
            "a, false, fail-branch",
        ),
        (
            format!("type: question-classifier, {MODEL}, {classes}"),
            vec!["1", "2"],
            "nine",
            "no class \"nine\"",
            "1, 2",
        ),
        (
            format!("{form}, {buttons}"),
            vec!["go", "stop", "__timeout"],
            "accept",
            "no button \"accept\"",
            "go, stop, __timeout",
        ),
        (
            format!("{form}, user_actions: []"),
            vec!["source", "__timeout"],
            "go",
            "no button \"go\"",
            "source, __timeout",
        ),
        (
            format!("{text}, error_strategy: fail-branch"),
            vec!["source", "success-branch", "fail-branch"],
            "failed",
            "no handle \"failed\"",
            "source, fail-branch",
        ),
        (
            text.to_owned(),
            vec!["source", "success-branch", "anything"],
            "fail-branch",
            "so this edge is not its fail branch",
            "source",
        ),
        (
            format!("{question}, interaction_type: ask_for_approval"),
            vec!["approved", "rejected", "source"],
            "accept",
            "no handle \"accept\"",
            "source, approved, rejected",
        ),
        (
            format!("{question}, interaction_type: ask_for_selection, {options}"),
            vec!["x", "y"],
            "z",
            "no handle \"z\"",
            "source, x, y, rejected",
        ),
    ]
}

#[test]
fn edges_with_a_handle_of_their_node_are_not_reported() {
    for (node, handles, ..) in table() {
        assert_eq!(found(&node, &handles), [], "{node}");
    }
    let pause = "type: human-input, required_variables: [s.q]";
    assert_eq!(found(pause, &["anything"]), [], "a variable names the handle of a simple pause");
}

#[test]
fn an_edge_with_another_handle_is_reported_once_with_its_line_and_the_handles_that_exist() {
    for (node, handles, wrong, message, hint) in table() {
        let all: Vec<&str> = handles.iter().copied().chain([wrong, wrong]).collect();
        let problems = found(&node, &all);
        let [(line, said, hinted)] = problems.as_slice() else { panic!("{node}: {problems:#?}") };
        assert_eq!(*line, u32::try_from(6 + handles.len()).ok(), "{node}");
        assert!(said.contains(message), "{node}: {said}");
        assert_eq!(*hinted, format!("its handles: {hint}"), "{node}");
    }
}

#[test]
fn a_question_without_edges_of_its_own_is_followed_by_all() {
    let problems =
        found("type: user-interaction, interaction_type: ask_for_input, show_message: '?'", &["accept"]);
    let [(_, message, _)] = problems.as_slice() else { panic!("{problems:#?}") };
    assert!(message.contains("taken after every answer"), "{message}");
}

#[test]
fn all_wrong_handles_of_a_node_are_one_warning_at_the_first_of_their_edges() {
    let gate = "type: if-else, cases: [{case_id: a, logical_operator: and, conditions: []}]";
    let hint = "its handles: a, false".to_owned();
    let expected = r#"node "n" never leaves by "b", "fail-branch"; these edges are never taken"#;
    let problems = found(gate, &["a", "b", "fail-branch", "b"]);
    assert_eq!(problems, [(Some(7), expected.to_owned(), hint.clone())]);
    let problems = found(gate, &["1", "2", "3", "4", "5", "6", "7"]);
    let expected =
        r#"node "n" never leaves by "1", "2", "3", "4", "5" and 2 more; these edges are never taken"#;
    assert_eq!(problems, [(Some(6), expected.to_owned(), hint)]);
    let question = "type: user-interaction, interaction_type: ask_for_input, show_message: '?'";
    let problems = found(question, &["x", "y"]);
    let [(_, message, _)] = problems.as_slice() else { panic!("{problems:#?}") };
    assert_eq!(message, r#"node "n" never leaves by "x", "y"; these edges are taken after every answer"#);
}
