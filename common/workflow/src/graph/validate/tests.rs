//! Tests of the rules: for each rule, a file that breaks it, with the expected codes and lines.

use crate::graph::import;

/// The codes, lines and messages of all problems of a bare graph.
fn problems_of(text: &str) -> Vec<(&'static str, Option<u32>, String)> {
    let found = import(text.as_bytes()).diagnostics;
    found.into_iter().map(|p| (p.code, p.line, p.message)).collect()
}

fn end(id: &str) -> String {
    format!("- {{id: {id}, data: {{type: end, outputs: []}}}}\n")
}

fn text_node(id: &str, more: &str) -> String {
    format!("- {{id: {id}, {more} data: {{type: template-transform, template: x, variables: []}}}}\n")
}

const START: &str = "- {id: s, data: {type: start, variables: []}}\n";
const ITERATION: &str = "- {id: it, data: {type: iteration, start_node_id: its, iterator_selector: [s, l], output_selector: [t, o]}}\n- {id: its, parentId: it, data: {type: iteration-start}}\n";

const GATE: &str =
    "- {id: g, data: {type: if-else, cases: [{case_id: 'true', logical_operator: and, conditions: []}]}}\n";

/// `nodes` begin on line 2; the line of the first edge follows from them.
fn graph(nodes: &[&str], edges: &[&str]) -> String {
    let edges: String = edges.iter().map(|edge| format!("- {{{edge}}}\n")).collect();
    let edges = if edges.is_empty() { "[]".to_owned() } else { format!("\n{edges}") };
    format!("nodes:\n{}edges: {edges}", nodes.concat())
}

#[test]
fn each_rule_reports_its_code_at_its_line() {
    let (t, u) = (text_node("t", ""), text_node("u", ""));
    let (e, lost, in_u) = (end("e"), text_node("x", "parentId: gone,"), text_node("x", "parentId: u,"));
    let unknown = "- {id: q, data: {type: quantum-node}}\n";
    let (own_start, in_it) =
        ("- {id: s2, parentId: it, data: {type: start, variables: []}}\n", text_node("t", "parentId: it,"));
    let ring_a = "- {id: a, parentId: b, data: {type: loop, start_node_id: as, loop_count: 1, logical_operator: and, break_conditions: []}}\n";
    let ring_b = "- {id: b, parentId: a, data: {type: loop, start_node_id: bs, loop_count: 1, logical_operator: and, break_conditions: []}}\n";
    for (text, code, line, part) in [
        (graph(&[START, &e, &e], &[]), "graph.duplicate_node_id", 4, "Duplicate node id"),
        (graph(&[START, unknown], &[]), "plan.unsupported", 3, "quantum-node"),
        (
            graph(&[START, "- {id: s2, data: {type: start, variables: []}}\n"], &[]),
            "graph.root_ambiguous",
            3,
            "start node",
        ),
        (graph(&[&e], &[]), "graph.root_ambiguous", 0, "no start node"),
        (graph(&[ITERATION, own_start], &[]), "graph.root_ambiguous", 0, "no start node"),
        ("nodes: []\nedges: []\n".into(), "graph.root_ambiguous", 0, "exactly one start node"),
        (
            graph(&[START, &e], &["source: s, target: nowhere"]),
            "graph.edge_unknown_node",
            5,
            "unknown node \"nowhere\"",
        ),
        (graph(&[START, &e], &["source: nowhere, target: e"]), "graph.edge_unknown_node", 5, "as its source"),
        (
            graph(&[START, &t, &e], &["id: x, source: s, target: t", "id: x, source: t, target: e"]),
            "graph.duplicate_edge_id",
            7,
            "Duplicate edge id",
        ),
        (graph(&[START, &lost], &[]), "graph.build_failed", 3, "unknown or cyclic containers"),
        (graph(&[START, &u, &in_u], &[]), "graph.build_failed", 4, "not a container"),
        (graph(&[START, ring_a, ring_b], &[]), "graph.build_failed", 3, "unknown or cyclic containers"),
        (
            graph(
                &[
                    START,
                    "- {id: it, data: {type: iteration, start_node_id: nope, iterator_selector: [s, l], output_selector: [t, o]}}\n",
                ],
                &[],
            ),
            "graph.build_failed",
            3,
            "does not exist",
        ),
        (
            graph(
                &[
                    START,
                    "- {id: it, data: {type: iteration, start_node_id: s, iterator_selector: [s, l], output_selector: [t, o]}}\n",
                ],
                &[],
            ),
            "graph.build_failed",
            3,
            "must be of type iteration-start",
        ),
        (
            graph(&[START, ITERATION, &in_it, &e], &["source: t, target: e"]),
            "graph.build_failed",
            8,
            "crosses the border of container \"it\"",
        ),
        (
            graph(
                &[START, &t, &u],
                &["source: s, target: t", "source: t, target: u", "source: u, target: t"],
            ),
            "graph.validation_failed",
            8,
            "cycle: t → u → t",
        ),
        (graph(&[START, &t], &["source: t, target: t"]), "graph.validation_failed", 5, "cycle: t → t"),
        (
            graph(
                &[START, &t, &u, &e],
                &["source: s, target: e", "source: t, target: u", "source: u, target: t"],
            ),
            "graph.validation_failed",
            9,
            "cycle",
        ),
        (
            graph(&[START, &t, &e], &["source: s, target: e", "source: t, target: e"]),
            "graph.unreachable_node",
            3,
            "never runs",
        ),
        (
            graph(
                &[START, &t, &e],
                &["source: s, target: t", "source: t, target: e, sourceHandle: fail-branch"],
            ),
            "graph.unknown_handle",
            7,
            "error_strategy",
        ),
        (
            graph(&[START, GATE, &e], &["source: s, target: g", "source: g, target: e, sourceHandle: other"]),
            "graph.unknown_handle",
            7,
            "no case \"other\"",
        ),
        (
            graph(&[START, "- {id: q, data: {type: template_transform}}\n"], &[]),
            "plan.unsupported",
            3,
            "template_transform",
        ),
    ] {
        let found = problems_of(&text);
        let line = (line > 0).then_some(line);
        let fits = |p: &(&str, Option<u32>, String)| p.0 == code && p.1 == line && p.2.contains(part);
        assert!(found.iter().any(fits), "{code} {line:?} {part}\n{text}{found:#?}");
    }
}

#[test]
fn a_graph_that_keeps_the_rules_has_no_problems() {
    let (t, e) = (text_node("t", ""), end("e"));
    assert_eq!(problems_of(&graph(&[START, &t, &e], &["source: s, target: t", "source: t, target: e"])), []);
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = graph(
        &[
            START,
            START,
            "- {id: q, data: {type: llmm}}\n",
            &text_node("x", "parentId: gone,"),
            "- {id: i, data: {type: if-else, cases: 5}}\n",
        ],
        &["source: s, target: nowhere", "source: q, target: i", "source: i, target: q"],
    );
    let imported = import(text.as_bytes());
    let codes: Vec<_> = imported.diagnostics.iter().map(|p| p.code).collect();
    for code in [
        "graph.duplicate_node_id",
        "graph.root_ambiguous",
        "plan.unsupported",
        "graph.edge_unknown_node",
        "graph.build_failed",
        "graph.validation_failed",
    ] {
        assert!(codes.contains(&code), "{code} in {codes:?}");
    }
    assert!(imported.graph.is_none() && imported.document.is_some());
    let unknown = imported.diagnostics.iter().find(|p| p.message.contains("llmm")).unwrap();
    assert_eq!(unknown.hint.as_deref(), Some("did you mean \"llm\"?"));
    assert_eq!(unknown.path, "nodes[2].data.type");
}

#[test]
fn configurations_are_checked_with_the_graph() {
    let wrong = ITERATION.replace("output_selector", "parallel_nums: 0, output_selector");
    let found = problems_of(&graph(&[START, &wrong], &[]));
    let fits =
        |p: &&(&str, Option<u32>, String)| p.0 == "graph.build_failed" && p.2.contains("parallel_nums");
    assert!(found.iter().any(|p| fits(&p)), "{found:?}");
    let condition = "- {id: g, data: {type: if-else, cases: [{case_id: 'true', logical_operator: and, conditions: [{comparison_operator: resembles, variable_selector: [s, a], value: x}]}]}}\n";
    let found = problems_of(&graph(&[START, condition], &[]));
    assert!(
        found.iter().any(|p| p.0 == "graph.build_failed" && p.2.contains("comparison_operator")),
        "{found:?}"
    );
    let default = "- {id: h, data: {type: answer, answer: x, error_strategy: default-value, default_value: [{key: h, type: object, value: '[1]'}]}}\n";
    let found = problems_of(&graph(&[START, default], &[]));
    assert_eq!(found.iter().map(|p| p.0).collect::<Vec<_>>(), ["graph.build_failed"], "{found:?}");
}

/// `depth` nested loops, each with its start node.
fn nested(depth: usize) -> String {
    let loops: String = (0..depth)
        .map(|at| {
            let parent = at.checked_sub(1).map_or(String::new(), |outer| format!("parentId: l{outer}, "));
            format!(
                "- {{id: l{at}, {parent}data: {{type: loop, start_node_id: l{at}s, loop_count: 1, logical_operator: and, break_conditions: []}}}}\n- {{id: l{at}s, parentId: l{at}, data: {{type: loop-start}}}}\n"
            )
        })
        .collect();
    let edges = (1..depth).map(|at| format!("source: l{}s, target: l{at}", at - 1));
    let edges: Vec<_> = std::iter::once("source: s, target: l0".to_owned()).chain(edges).collect();
    graph(&[START, &loops], &edges.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn containers_may_be_nested_to_the_limit_and_the_first_beyond_it_is_named() {
    use tidemill_base::limits::CONTAINER_DEPTH_MAX as MAX;
    assert_eq!(problems_of(&nested(MAX)), []);
    let found = problems_of(&nested(MAX + 3));
    let [(code, line, message)] = found.as_slice() else { panic!("{found:?}") };
    // Two lines per loop, after the line of the start node.
    assert_eq!((*code, *line), ("graph.build_failed", u32::try_from(3 + 2 * MAX).ok()));
    assert!(message.contains("\"l16\"") && message.contains("container_depth_max"), "{message}");
}

fn trigger(id: &str, data: &str) -> String {
    format!(r#"{{"id": "{id}", "data": {{{data}}}}}"#)
}

#[test]
fn several_triggers_may_begin_a_workflow_within_the_rules_of_dify() {
    let hook = |id: &str| trigger(id, r#""type": "trigger-webhook""#);
    let plan =
        |id: &str| trigger(id, r#""type": "trigger-schedule", "mode": "cron", "cron_expression": "@daily""#);
    let start = trigger("s", r#""type": "start", "variables": []"#);
    let found = |nodes: &[String]| {
        let text = format!(r#"{{"nodes": [{}], "edges": []}}"#, nodes.join(","));
        let problems = crate::graph::import(text.as_bytes()).diagnostics;
        problems.into_iter().map(|p| (p.code, p.path)).collect::<Vec<_>>()
    };
    assert_eq!(found(&[hook("a"), plan("b"), hook("c")]), []);
    assert_eq!(found(&[plan("a"), plan("b")]), [("graph.schedule_unused", "nodes[1].data.type".to_string())]);
    assert_eq!(found(&[start, hook("a")]), [("graph.root_ambiguous", "nodes[1].data.type".to_string())]);
    let six: Vec<String> = (0..6).map(|n| hook(&format!("h{n}"))).collect();
    assert_eq!(found(&six), [("graph.root_ambiguous", "nodes[5].data.type".to_string())]);
}

#[test]
fn the_secret_of_a_webhook_is_a_secret_of_the_workflow() {
    let found = |variables: &str| {
        let text = format!(
            r#"{{"kind": "app", "app": {{"mode": "workflow", "name": "x"}}, "workflow": {{
                "environment_variables": [{variables}], "graph": {{"edges": [], "nodes":
                [{{"id": "h", "data": {{"type": "trigger-webhook", "tidemill": {{"secret": "KEY"}}}}}}]}}}}}}"#
        );
        let problems = crate::graph::import(text.as_bytes()).diagnostics;
        problems.into_iter().filter(|p| p.is_error()).map(|p| p.message).collect::<Vec<_>>()
    };
    let variable =
        |ty: &str, value: &str| format!(r#"{{"name": "KEY", "value_type": "{ty}", "value": "{value}"}}"#);
    assert_eq!(found(&variable("secret", "hunter2")), [""; 0]);
    for (variables, said) in [
        (String::new(), "is not an environment variable"),
        (variable("string", "hunter2"), "is not a secret"),
        (variable("secret", ""), "is empty"),
    ] {
        let messages = found(&variables);
        assert!(matches!(messages.as_slice(), [one] if one.contains(said)), "{messages:?}");
    }
}

#[test]
fn replacing_a_conversation_variable_in_parallel_items_is_warned_about_and_operations_are_not() {
    let parallel = ITERATION.replace("output_selector", "is_parallel: true, output_selector");
    let loop_inside = "- {id: lp, parentId: it, data: {type: loop, start_node_id: lps, loop_count: 1, logical_operator: and, break_conditions: []}}\n- {id: lps, parentId: lp, data: {type: loop-start}}\n";
    let item = |target: &str, operation: &str| {
        format!(
            "{{variable_selector: [{target}], input_type: variable, operation: {operation}, value: [s, x]}}"
        )
    };
    let one = |parent: &str, items: &str| {
        format!("- {{id: w, parentId: {parent}, data: {{type: assigner, version: '2', items: [{items}]}}}}\n")
    };
    let old = |mode: &str| {
        format!(
            "- {{id: w, parentId: it, data: {{type: assigner, assigned_variable_selector: [conversation, c], write_mode: {mode}, input_variable_selector: [s, x]}}}}\n"
        )
    };
    let (set, append) = (item("conversation, c", "over-write"), item("conversation, c", "append"));
    for (iteration, more, warned) in [
        (parallel.as_str(), one("it", &format!("{append}, {set}")), true),
        (parallel.as_str(), one("it", &item("conversation, c", "clear")), true),
        (parallel.as_str(), format!("{loop_inside}{}", one("lp", &set)), true),
        (parallel.as_str(), old("over-write"), true),
        (parallel.as_str(), old("clear"), true),
        (parallel.as_str(), old("append"), false),
        (parallel.as_str(), one("it", &append), false),
        (parallel.as_str(), one("it", &item("lp, c", "over-write")), false),
        (ITERATION, one("it", &set), false),
    ] {
        let text = graph(&[START, iteration, &more], &[]);
        let lines =
            text.lines().position(|line| line.contains("id: w")).and_then(|at| u32::try_from(at + 1).ok());
        let found: Vec<_> =
            problems_of(&text).into_iter().filter(|it| it.0 == "conversation.last_write_wins").collect();
        assert_eq!(
            found.iter().map(|it| it.1).collect::<Vec<_>>(),
            if warned { vec![lines] } else { vec![] },
            "{text}"
        );
        assert!(found.iter().all(|it| it.2.contains("\"it\"") && it.2.contains("\"c\"")), "{found:?}");
    }
}
