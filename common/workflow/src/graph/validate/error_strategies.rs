//! Error strategies that cannot do what their author expects. They are legal, so an author finds out only when a node
//! fails in production.

use std::collections::{HashMap, HashSet};

use super::Report;
use crate::graph::containers::Parent;
use crate::graph::draft::Draft;
use crate::nodes::node::ErrorStrategy;
use crate::nodes::{ExecutionType, NodeKind, mentions_of};
use tidemill_base::limits::CONTAINER_DEPTH_MAX;

/// A strategy that changes nothing.
pub(super) const NO_EFFECT: &str = "error_strategy.no_effect";
/// Default values without one that another node reads.
pub(super) const MISSING_DEFAULT: &str = "error_strategy.missing_default";

/// The outputs that every failed node with a strategy has.
const ALWAYS: [&str; 2] = ["error_message", "error_type"];

/// Warns about strategies on nodes that never fail, and about default values on a branch: they name no handle, so the
/// run fails all the same, as on Dify.
pub(super) fn can_work(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, node) in draft.nodes.iter().enumerate() {
        let (Some(kind), Some(strategy)) = (node.kind, &node.wrapper.error_strategy) else { continue };
        let (id, name) = (&node.source.id, kind.wire());
        let (message, hint) = if never_fails(kind) {
            let message =
                format!("node {id:?} is of type {name}, which never fails: `error_strategy` has no effect");
            (message, "remove `error_strategy`")
        } else if kind.spec().execution == ExecutionType::Branch
            && matches!(strategy, ErrorStrategy::DefaultValue(_))
        {
            let message = format!(
                "node {id:?} is of type {name}: default values choose no branch, so the run fails when the node fails"
            );
            (message, "use `error_strategy: fail-branch` and an edge with the handle fail-branch")
        } else {
            continue;
        };
        report.node_warning(draft, at, "data.error_strategy", message, hint);
    }
}

/// True for types without any work that could fail.
fn never_fails(kind: NodeKind) -> bool {
    matches!(
        kind,
        NodeKind::VariableAggregator | NodeKind::IterationStart | NodeKind::LoopStart | NodeKind::LoopEnd
    )
}

/// Warns about default values that lack an output which another node reads.
pub(super) fn defaults_have_what_is_read(draft: &Draft<'_>, report: &mut Report<'_>) {
    let mut defaults: HashMap<&str, (usize, HashSet<&str>)> = HashMap::new();
    for (at, node) in draft.nodes.iter().enumerate() {
        let is_branch = node.kind.is_some_and(|kind| kind.spec().execution == ExecutionType::Branch);
        if let (false, Some(ErrorStrategy::DefaultValue(values))) = (is_branch, &node.wrapper.error_strategy)
        {
            let names = values.iter().map(|(name, _)| name.as_str()).chain(ALWAYS).collect();
            defaults.insert(node.source.id.as_str(), (at, names));
        }
    }
    if defaults.is_empty() {
        return;
    }
    let mut missing: HashMap<usize, Vec<(String, &str)>> = HashMap::new();
    for (reader_at, reader) in draft.nodes.iter().enumerate() {
        let Some(data) = &reader.data else { continue };
        for (of, name) in mentions_of(&reader.source.id, data) {
            let Some((at, names)) = defaults.get(of.as_str()) else { continue };
            let known = missing.entry(*at).or_default();
            let is_new = !known.iter().any(|(seen, _)| *seen == name);
            let is_own = of == reader.source.id || is_inside(draft, reader_at, *at);
            if !is_own && is_new && !names.contains(name.as_str()) {
                known.push((name, reader.source.id.as_str()));
            }
        }
    }
    for at in 0..draft.nodes.len() {
        let Some([(first, reader), ..]) = missing.get(&at).map(Vec::as_slice) else { continue };
        let names: Vec<String> = missing[&at].iter().map(|(name, _)| format!("`{name}`")).collect();
        let message = format!(
            "node {:?} continues with default values, but has none for {}; node {reader:?} reads `{first}`",
            draft.nodes[at].source.id,
            names.join(", "),
        );
        let hint = "add it to `default_value`: after a failure the variable does not exist";
        report.node_warning(draft, at, "data.error_strategy", message, hint);
    }
}

/// True for a node in the body of this container. There the container's item or variables exist.
fn is_inside(draft: &Draft<'_>, node: usize, container: usize) -> bool {
    let outer = |at: &usize| match draft.parents[*at] {
        Parent::In(parent) => Some(parent),
        Parent::None | Parent::NotAContainer(_) | Parent::Unknown(_) => None,
    };
    std::iter::successors(Some(node), outer).skip(1).take(CONTAINER_DEPTH_MAX).any(|at| at == container)
}

#[cfg(test)]
mod tests {
    use crate::graph::import;

    fn found(nodes: &str) -> Vec<(&'static str, Option<u32>, String)> {
        let text = format!("nodes:\n- {{id: s, data: {{type: start, variables: []}}}}\n{nodes}");
        let problems = import(text.as_bytes()).diagnostics;
        problems
            .into_iter()
            .filter(|problem| problem.code.starts_with("error_strategy."))
            .map(|problem| (problem.code, problem.line, problem.message))
            .collect()
    }

    const READER: &str = "- {id: e, data: {type: end, outputs: [{variable: a, value_selector: [t, output]}, \
                          {variable: b, value_selector: [t, error_message]}]}}\nedges:\n- {source: s, target: t}\n\
                          - {source: t, target: e}\n";

    #[test]
    fn a_strategy_that_cannot_work_is_reported_with_its_line() {
        for (node, code, part) in [
            ("type: if-else, cases: [], error_strategy: default-value", super::NO_EFFECT, "choose no branch"),
            (
                "type: variable-aggregator, output_type: string, variables: [], error_strategy: fail-branch",
                super::NO_EFFECT,
                "never fails",
            ),
            (
                "type: template-transform, template: x, variables: [], error_strategy: default-value",
                super::MISSING_DEFAULT,
                "none for `output`; node \"e\" reads",
            ),
        ] {
            let problems = found(&format!("- {{id: t, data: {{{node}}}}}\n{READER}"));
            let [(found, line, message)] = problems.as_slice() else { panic!("{node}: {problems:?}") };
            assert_eq!((*found, *line), (code, Some(3)), "{node}");
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_strategy_that_works_is_not_reported() {
        for node in [
            "type: if-else, cases: [], error_strategy: fail-branch",
            "type: template-transform, template: x, variables: [], error_strategy: fail-branch",
            "type: template-transform, template: x, variables: [], error_strategy: default-value, default_value: [{key: output, type: string, value: y}]",
            "type: code, code: x, code_language: python3, variables: [], outputs: {}",
        ] {
            assert_eq!(found(&format!("- {{id: t, data: {{{node}}}}}\n{READER}")), [], "{node}");
        }
        // Nothing reads the outputs: such a node may fail unnoticed.
        let unread = "- {id: t, data: {type: template-transform, template: x, variables: [], error_strategy: default-value}}\nedges: [{source: s, target: t}]\n";
        assert_eq!(found(unread), []);
        let item = "- {id: it, data: {type: iteration, start_node_id: its, iterator_selector: [s, l], output_selector: [t, output], error_strategy: default-value}}\n\
                    - {id: its, parentId: it, data: {type: iteration-start}}\n\
                    - {id: t, parentId: it, data: {type: template-transform, template: x, variables: [{variable: x, value_selector: [it, item]}]}}\n\
                    edges: [{source: s, target: it}, {source: its, target: t}]\n";
        assert_eq!(found(item), [], "the item exists inside the iteration");
    }
}
