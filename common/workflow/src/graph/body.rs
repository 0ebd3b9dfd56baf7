//! The bodies of containers: the data that the engine needs before it opens a frame.

use std::collections::{HashMap, HashSet};

use super::{Index, Node, NodeIx};
use crate::nodes::NodeData;
use tidemill_base::value::template::mention;

/// The body of an iteration or loop.
#[derive(Debug, Clone)]
pub struct Body {
    /// The node where every item or round begins. A child that no edge reaches from here never runs.
    pub start: NodeIx,
    /// The children in file order, without those inside nested containers.
    pub nodes: Vec<NodeIx>,
    /// The variables that the nodes of the body mention, at any depth, and those that its iterations (the
    /// container itself included) read as the output of an item. A frame can need no others.
    pub mentions: HashSet<(String, String)>,
}

/// Builds the bodies of all containers. Returns `None` only if a rule about start nodes is missing.
pub(super) fn bodies(nodes: &[Node], index: &Index) -> Option<HashMap<NodeIx, Body>> {
    let mut bodies = HashMap::new();
    for (at, node) in places(nodes) {
        if let Some(start) = node.data.body_start() {
            let start = *index.get(start)?;
            bodies.insert(at, Body { start, nodes: Vec::new(), mentions: HashSet::new() });
        }
    }
    for (at, node) in places(nodes) {
        if let Some(parent) = node.parent {
            bodies.get_mut(&parent)?.nodes.push(at);
            add_to_all(&mut bodies, nodes, parent, &node.mentions)?;
        }
        if let NodeData::Iteration(data) = &node.data {
            let mut output = Vec::new();
            mention(&data.output, &mut output);
            add_to_all(&mut bodies, nodes, at, &output)?;
        }
    }
    Some(bodies)
}

fn places(nodes: &[Node]) -> impl Iterator<Item = (NodeIx, &Node)> {
    nodes.iter().enumerate().map(|(at, node)| (NodeIx(at as u32), node))
}

/// Adds mentions to the body of a container and of all containers around it. The depth is bounded by
/// [`tidemill_base::limits::CONTAINER_DEPTH_MAX`].
fn add_to_all(
    bodies: &mut HashMap<NodeIx, Body>,
    nodes: &[Node],
    container: NodeIx,
    mentions: &[(String, String)],
) -> Option<()> {
    let mut next = Some(container);
    while let Some(at) = next {
        bodies.get_mut(&at)?.mentions.extend(mentions.iter().cloned());
        next = nodes[at.at()].parent;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use crate::graph::{Graph, NodeIx, import};

    const NESTED: &str = "\
nodes:
- {id: s, data: {type: start, variables: []}}
- {id: lp, data: {type: loop, start_node_id: lps, loop_count: 2, logical_operator: and, break_conditions: [
    {variable_selector: [s, stop], comparison_operator: is, value: x}]}}
- {id: lps, parentId: lp, data: {type: loop-start, loop_id: lp}}
- {id: it, parentId: lp, data: {type: iteration, start_node_id: its, loop_id: lp, iterator_selector: [s, l, deep], output_selector: [t, output, k]}}
- {id: its, data: {type: iteration-start}}
- {id: t, parentId: it, data: {type: answer, answer: '{{#it.item#}}', loop_id: lp}}
- {id: x, parentId: it, data: {type: loop-end, loop_id: it}}
edges:
- {source: s, target: lp}
- {source: lps, target: it}
- {source: its, target: t}
";

    fn nested() -> Graph {
        let imported = import(NESTED.as_bytes());
        imported.graph.unwrap_or_else(|| panic!("{:#?}", imported.diagnostics))
    }

    fn body(graph: &Graph, container: &str) -> (String, Vec<String>, Vec<String>) {
        let id = |at: NodeIx| graph.node(at).id.as_str().to_owned();
        let body = graph.body(graph.find(container).unwrap());
        let mut mentions: Vec<_> =
            body.mentions.iter().map(|(node, name)| format!("{node}.{name}")).collect();
        mentions.sort_unstable();
        (id(body.start), body.nodes.iter().map(|&at| id(at)).collect(), mentions)
    }

    #[test]
    fn a_body_has_its_children_and_the_mentions_at_any_depth() {
        let graph = nested();
        let own = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let of_it = ("its".to_owned(), own(&["its", "t", "x"]), own(&["it.item", "t.output"]));
        assert_eq!(body(&graph, "it"), of_it);
        let of_lp = ("lps".to_owned(), own(&["lps", "it"]), own(&["it.item", "s.l", "t.output"]));
        assert_eq!(body(&graph, "lp"), of_lp);
    }

    #[test]
    fn nodes_know_the_loop_around_them_at_any_depth_even_if_they_name_another() {
        let graph = nested();
        let lp = graph.find("lp");
        for (node, loop_id) in
            [("s", None), ("lp", None), ("lps", lp), ("it", lp), ("its", lp), ("t", lp), ("x", lp)]
        {
            assert_eq!(graph.node(graph.find(node).unwrap()).loop_id, loop_id, "{node}");
        }
    }
}
