//! Response nodes (Answer and End): the text that each of them streams, and the edges that must be decided
//! before it may stream.
//!
//! Dify enumerates all simple paths from the root, and a response node is reached when one path has no
//! undecided blocking edge left. That is exponential in the number of branches. One search gives the same
//! answer: the node is reached when the root reaches it over edges that do not block or were taken.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use super::{Edge, EdgeIx, Graph, Node, NodeIx, TemplatePart};
use crate::nodes::{ExecutionType, NodeData};
use tidemill_base::value::Selector;

/// An Answer or End node of the root graph.
#[derive(Debug, Clone)]
pub struct ResponseNode {
    pub node: NodeIx,
    /// The text that it streams, in order.
    pub template: Vec<TemplatePart>,
    /// One entry per edge of the graph: true when the edge must be taken before text after it may be shown.
    /// Shared between response nodes with equal entries, which are nearly always all of them.
    pub blocking: Arc<[bool]>,
}

impl ResponseNode {
    /// True when `root`, the start of the run, reaches the node over edges that do not block or are in
    /// `taken`.
    pub fn is_reached(&self, graph: &Graph, root: NodeIx, taken: impl Fn(EdgeIx) -> bool) -> bool {
        let mut seen = vec![false; graph.nodes.len()];
        let mut open = vec![root];
        seen[root.at()] = true;
        while let Some(at) = open.pop() {
            if at == self.node {
                return true;
            }
            for &out in &graph.node(at).outs {
                let target = graph.edge(out).target;
                if !seen[target.at()] && (!self.blocking[out.at()] || taken(out)) {
                    seen[target.at()] = true;
                    open.push(target);
                }
            }
        }
        false
    }
}

/// Returns the template that a response node streams; empty for other nodes.
pub fn template_of(node: &Node) -> Vec<TemplatePart> {
    if let NodeData::End(data) = &node.data {
        data.response_template()
    } else if let NodeData::Answer(data) = &node.data {
        data.response_template()
    } else {
        Vec::new()
    }
}

/// Returns the response nodes of the root graph, sorted by id, and the selectors that their templates
/// mention.
pub(super) fn responses(nodes: &[Node], edges: &[Edge]) -> (Vec<ResponseNode>, HashSet<String>) {
    let always: Arc<[bool]> = edges.iter().map(|edge| always_blocks(&nodes[edge.source.at()])).collect();
    let writers = writers(nodes);
    let mut responses = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        if node.kind.spec().execution != ExecutionType::Response || node.parent.is_some() {
            continue;
        }
        let template = template_of(node);
        let blocking = with_writers(&always, &template, &writers, nodes);
        responses.push(ResponseNode { node: NodeIx(at as u32), template, blocking });
    }
    responses.sort_by(|a, b| nodes[a.node.at()].id.cmp(&nodes[b.node.at()].id));
    let streamed = responses.iter().flat_map(|response| selectors(&response.template));
    let streamed = streamed.filter(|selector| selector.len() >= 2).map(|selector| stream_key(selector));
    let streamed = streamed.collect();
    (responses, streamed)
}

/// Returns the key of a selector among the streamed texts. Dots within a part are escaped, so that a text of
/// node `a` cannot be taken for one of node `a.b`.
pub fn stream_key(selector: &[String]) -> String {
    let parts: Vec<_> = selector.iter().map(|part| escaped(part)).collect();
    parts.join(".")
}

/// Returns the common prefix of the keys of a node's texts.
pub fn stream_prefix(node: &str) -> String {
    format!("{}.", escaped(node))
}

/// Returns a test for the keys of a node's texts.
pub(super) fn keys_of(node: &str) -> impl Fn(&str) -> bool {
    let part = escaped(node);
    move |key| key.strip_prefix(&*part).is_some_and(|rest| rest.starts_with('.'))
}

fn escaped(part: &str) -> Cow<'_, str> {
    if part.bytes().any(|byte| matches!(byte, b'%' | b'.')) {
        part.replace('%', "%25").replace('.', "%2E").into()
    } else {
        part.into()
    }
}

fn selectors(template: &[TemplatePart]) -> impl Iterator<Item = &Selector> {
    template.iter().filter_map(|part| match part {
        TemplatePart::Variable(selector) => Some(selector),
        TemplatePart::Text(_) => None,
    })
}

/// True when the edges of a node always block: those of branches, containers and response nodes.
fn always_blocks(source: &Node) -> bool {
    let by_type = match source.kind.spec().execution {
        ExecutionType::Branch | ExecutionType::Container | ExecutionType::Response => true,
        ExecutionType::Root | ExecutionType::Executable => false,
    };
    by_type || source.is_branch()
}

/// Returns the assigners with the variables that they write.
fn writers(nodes: &[Node]) -> Vec<(usize, HashSet<&Selector>)> {
    let all = nodes.iter().enumerate().map(|(at, node)| (at, written_by(node)));
    all.filter(|(_, written)| !written.is_empty()).collect()
}

fn written_by(node: &Node) -> HashSet<&Selector> {
    let NodeData::Assigner(data) = &node.data else { return HashSet::new() };
    data.targets().collect()
}

/// Returns the blocking edges of one template: those that always block, and those after a node that writes a
/// variable of the template.
fn with_writers(
    always: &Arc<[bool]>,
    template: &[TemplatePart],
    writers: &[(usize, HashSet<&Selector>)],
    nodes: &[Node],
) -> Arc<[bool]> {
    let shown: HashSet<&Selector> = selectors(template).collect();
    let mut more = writers
        .iter()
        .filter(|(_, written)| !written.is_disjoint(&shown))
        .flat_map(|(at, _)| &nodes[*at].outs)
        .filter(|out| !always[out.at()])
        .peekable();
    if more.peek().is_none() {
        return always.clone();
    }
    let mut blocking = always.to_vec();
    for out in more {
        blocking[out.at()] = true;
    }
    blocking.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl::Problems;
    use crate::graph::{RetryConfig, import};
    use crate::nodes::NodeKind;
    use crate::nodes::assigner::AssignerData;
    use serde_json::{Value as Json, json};

    fn assigner(id: &str, data: Json, out: u32) -> Node {
        let data = data.as_object().expect("a mapping");
        Node {
            id: id.into(),
            kind: NodeKind::Assigner,
            title: String::new(),
            version: "1".into(),
            data: NodeData::Assigner(AssignerData::parse(data, &mut Problems::new()).expect("usable data")),
            error_strategy: None,
            retry: RetryConfig::default(),
            settings: crate::graph::NodeSettings::default(),
            chooses: false,
            ins: Vec::new(),
            outs: vec![EdgeIx(out)],
            parent: None,
            loop_id: None,
            mentions: Vec::new(),
            gives_context: false,
            work: None,
            children: Vec::new(),
            child: None,
            quoted: Default::default(),
        }
    }

    #[test]
    fn an_assigner_blocks_only_templates_with_a_variable_that_it_writes() {
        let nodes = [
            assigner(
                "v1",
                json!({"assigned_variable_selector": ["conversation", "a"], "write_mode": "clear", "input_variable_selector": []}),
                0,
            ),
            assigner(
                "v2",
                json!({"items": [
                    {"variable_selector": ["conversation", "b"], "input_type": "variable", "operation": "clear"},
                    {"variable_selector": ["n", "x"], "input_type": "variable", "operation": "append", "value": ["conversation", "c"]},
                ]}),
                1,
            ),
        ];
        let always: Arc<[bool]> = vec![false, false].into();
        for (name, blocking) in [("a", [true, false]), ("b", [false, true]), ("c", [false, false])] {
            let template = [TemplatePart::Variable(vec!["conversation".into(), name.into()])];
            assert_eq!(&*with_writers(&always, &template, &writers(&nodes), &nodes), blocking, "{name}");
        }
    }

    #[test]
    fn a_response_node_is_reached_once_the_edges_that_block_it_are_taken() {
        let text = "\
nodes:
- {id: s, data: {type: start, variables: []}}
- {id: a, data: {type: answer, answer: x}}
- {id: b, data: {type: answer, answer: y}}
edges: [{source: s, target: a}, {source: a, target: b}]
";
        let graph = import(text.as_bytes()).graph.unwrap();
        let reached = |at: usize, taken: &[u32]| {
            graph.responses[at].is_reached(&graph, graph.root, |edge| taken.contains(&edge.0))
        };
        assert!(reached(0, &[]) && !reached(1, &[0]) && reached(1, &[1]));
    }
}
