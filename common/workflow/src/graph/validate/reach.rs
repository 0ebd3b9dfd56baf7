//! Nodes that no run reaches. They are legal, but a node that waits for one of them never runs. A file that was edited for
//! a long time has many of them, for one reason, so all of them are one warning.

use std::collections::HashSet;

use super::{Report, listed};
use crate::graph::draft::Draft;
use crate::graph::wrapper::owner;
use crate::nodes::ExecutionType;

/// Warns once about all nodes that no run reaches.
pub(super) fn every_node_can_be_reached(draft: &Draft<'_>, report: &mut Report<'_>) {
    if report.problems.has_errors() || !draft.document.refused.is_empty() {
        return; // A node may be unreachable because of an error that is already reported.
    }
    let reached = reached(draft);
    let others: Vec<usize> = (0..draft.document.nodes.len()).filter(|at| !reached.contains(at)).collect();
    let Some(&first) = others.first() else { return };
    let names: Vec<&str> = others.iter().map(|&at| draft.nodes[at].source.id.as_str()).collect();
    let (which, them) = match names.as_slice() {
        [name] => (format!("no run reaches node {name:?}"), "it"),
        names => (format!("no run reaches {} nodes: {}", names.len(), listed(names)), "them"),
    };
    let message = match never_run(draft, &reached).as_slice() {
        [] => which,
        [waits] => format!("{which}, so node {waits:?}, which waits for {them}, never runs"),
        all => format!("{which}, so {} nodes, which wait for {them}, never run: {}", all.len(), listed(all)),
    };
    let code = report.code;
    draft.at_node(first, report.problems, |problems| problems.warning(code, message));
}

/// The nodes that a run can reach.
fn reached(draft: &Draft<'_>) -> HashSet<usize> {
    let mut open: Vec<usize> = draft.roots();
    let mut reached: HashSet<usize> = open.iter().copied().collect();
    while let Some(at) = open.pop() {
        let inner = match draft.nodes[at].kind.map(|kind| kind.spec().execution) {
            Some(ExecutionType::Container) => owner(&draft.nodes[at].source.data, "start_node_id"),
            Some(_) | None => None,
        };
        let inner = inner.and_then(|start| draft.index.get(start).copied());
        let next = draft.outs[at].iter().filter_map(|&edge| draft.edges[edge].to).chain(inner);
        open.extend(next.filter(|next| reached.insert(*next)));
    }
    reached
}

/// The nodes that can be reached, but wait for one that cannot.
fn never_run<'d>(draft: &Draft<'d>, reached: &HashSet<usize>) -> Vec<&'d str> {
    let mut seen = HashSet::new();
    let waiting = draft.edges.iter().filter_map(|edge| {
        let (from, to) = (edge.from?, edge.to?);
        let waits = !reached.contains(&from) && reached.contains(&to) && seen.insert(to);
        waits.then_some(edge.source.target.as_str())
    });
    waiting.collect()
}

#[cfg(test)]
mod tests {
    use crate::graph::import;

    /// The warnings about a start node and these nodes and edges.
    fn found(nodes: &[&str], edges: &[(&str, &str)]) -> Vec<(Option<u32>, String)> {
        let nodes: String = nodes
            .iter()
            .map(|id| {
                format!("- {{id: {id}, data: {{type: template-transform, template: x, variables: []}}}}\n")
            })
            .collect();
        let edges: String =
            edges.iter().map(|(from, to)| format!("- {{source: {from}, target: {to}}}\n")).collect();
        let text =
            format!("nodes:\n- {{id: s, data: {{type: start, variables: []}}}}\n{nodes}edges:\n{edges}");
        let problems = import(text.as_bytes()).diagnostics.into_iter();
        let about = problems.filter(|problem| problem.code == "graph.unreachable_node");
        about.map(|problem| (problem.line, problem.message)).collect()
    }

    #[test]
    fn all_nodes_that_no_run_reaches_are_one_warning_at_the_first_of_them() {
        let one = |message: &str| vec![(Some(3), message.to_owned())];
        for (nodes, edges, expected) in [
            (&["a"][..], &[("s", "a")][..], vec![]),
            (&["a"], &[], one("no run reaches node \"a\"")),
            (&["a", "b"], &[], one("no run reaches 2 nodes: \"a\", \"b\"")),
            (
                &["a", "b", "c", "d", "e", "f", "g"],
                &[],
                one("no run reaches 7 nodes: \"a\", \"b\", \"c\", \"d\", \"e\" and 2 more"),
            ),
            (
                &["a", "b"],
                &[("s", "b"), ("a", "b")],
                one("no run reaches node \"a\", so node \"b\", which waits for it, never runs"),
            ),
            (
                &["a", "b", "c"],
                &[("s", "b"), ("a", "b"), ("s", "c"), ("a", "c")],
                one("no run reaches node \"a\", so 2 nodes, which wait for it, never run: \"b\", \"c\""),
            ),
            (
                &["a", "b", "c"],
                &[("s", "c"), ("a", "c"), ("b", "c")],
                one("no run reaches 2 nodes: \"a\", \"b\", so node \"c\", which waits for them, never runs"),
            ),
        ] {
            assert_eq!(found(nodes, edges), expected, "{nodes:?} {edges:?}");
        }
    }
}
