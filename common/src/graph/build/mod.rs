//! Document to graph: read every node, run every rule, and, when nothing is wrong, freeze the result.

use std::collections::HashSet;

use super::containers::Parent;
use super::draft::Draft;
use super::{Edge, EdgeIx, Graph, GraphHash, Node, NodeIx, body, names, response, validate};
use crate::dsl::{self, Diagnostic, Document, ParseLimits, Problems, SealError, SealingKey};
use crate::nodes::{NodeKind, mentions_of};

/// Builds the graph of a document and says everything that is wrong with it. There is a graph exactly when no problem
/// is an error. Paths are those of the file; lines are not known here.
///
/// Secrets must be open ([`Document::open`]) for the graph to hold their values; `hash` is that of the stored text.
pub fn build(document: &Document, hash: GraphHash) -> (Option<Graph>, Vec<Diagnostic>) {
    let mut problems = Problems::new();
    let graph = problems.within(document.graph_path, |problems| {
        let draft = Draft::new(document, problems);
        validate::check(&draft, problems);
        if problems.has_errors() { None } else { freeze(draft, hash) }
    });
    (graph, problems.into_vec())
}

/// A file read as far as it goes.
#[derive(Debug)]
pub struct Imported {
    /// What was read; none when no graph could be found in the file.
    pub document: Option<Document>,
    /// The graph; none when anything is wrong. Its hash is that of the document with its secrets open, until
    /// [`Imported::seal`].
    pub graph: Option<Graph>,
    /// Everything that was found, with lines.
    pub diagnostics: Vec<Diagnostic>,
}

impl Imported {
    /// True when the workflow can be run.
    pub fn is_usable(&self) -> bool {
        self.graph.is_some()
    }
    /// The text to store, secrets sealed; the graph takes its hash. None when there is no document.
    ///
    /// # Errors
    /// [`SealError::NoKey`] when there are secrets and no key.
    pub fn seal(&mut self, key: Option<&SealingKey>) -> Result<Option<String>, SealError> {
        let Some(document) = &self.document else { return Ok(None) };
        let mut sealed = document.clone();
        sealed.seal(key)?;
        let text = sealed.canonical();
        if let Some(graph) = &mut self.graph {
            graph.hash = dsl::hash_of(&text);
        }
        Ok(Some(text))
    }
}

/// Reads a workflow file, builds its graph and gives every problem its line.
pub fn import(text: &[u8]) -> Imported {
    import_within(text, &ParseLimits::default())
}

/// As [`import`], with limits of one's own.
pub fn import_within(text: &[u8], limits: &ParseLimits) -> Imported {
    let (document, mut diagnostics, lines) = dsl::parse_with_lines(text, limits);
    let mut graph = None;
    if let Some(document) = &document {
        let (built, found) = build(document, document.hash());
        diagnostics.extend(found);
        graph = built;
    }
    lines.fill_in(&mut diagnostics);
    if diagnostics.iter().any(Diagnostic::is_error) {
        graph = None;
    }
    Imported { document, graph, diagnostics }
}

/// The graph of a draft that no rule has complained of; none would mean that a rule is missing.
fn freeze(draft: Draft<'_>, hash: GraphHash) -> Option<Graph> {
    let document = draft.document;
    let root = NodeIx(u32::try_from(*draft.roots().first()?).ok()?);
    let loops: Vec<Option<NodeIx>> = (0..draft.nodes.len()).map(|at| loop_around(&draft, at)).collect();
    let mut nodes = Vec::with_capacity(draft.nodes.len());
    for ((node, parent), loop_id) in draft.nodes.into_iter().zip(&draft.parents).zip(loops) {
        let parent = match parent {
            Parent::None => None,
            Parent::In(at) => Some(NodeIx(u32::try_from(*at).ok()?)),
            Parent::NotAContainer(_) | Parent::Unknown(_) => return None,
        };
        let data = node.data?;
        let mentions = each_once(mentions_of(&node.source.id, &data));
        nodes.push(Node {
            id: node.source.id.as_str().into(),
            kind: node.kind?,
            title: node.wrapper.title,
            version: node.wrapper.version,
            data,
            error_strategy: node.wrapper.error_strategy,
            retry: node.wrapper.retry,
            settings: node.wrapper.settings,
            ins: Vec::new(),
            outs: Vec::new(),
            parent,
            loop_id,
            mentions,
        });
    }
    let mut edges = Vec::with_capacity(draft.edges.len());
    for edge in draft.edges {
        let (from, to) = (edge.from?, edge.to?);
        let at = EdgeIx(u32::try_from(edges.len()).ok()?);
        nodes[from].outs.push(at);
        nodes[to].ins.push(at);
        edges.push(Edge {
            id: format!("edge_{}", edge.source.number),
            source: NodeIx(u32::try_from(from).ok()?),
            target: NodeIx(u32::try_from(to).ok()?),
            handle: edge.source.handle.clone(),
        });
    }
    for at in names::give(&mut nodes, document) {
        nodes[at].mentions = each_once(mentions_of(nodes[at].id.as_str(), &nodes[at].data));
    }
    let (responses, streamed) = response::responses(&nodes, &edges);
    let index = nodes.iter().enumerate().map(|(at, node)| (node.id.clone(), NodeIx(at as u32))).collect();
    let bodies = body::bodies(&nodes, &index)?;
    Some(Graph {
        hash,
        name: document.name.clone(),
        mode: document.mode,
        nodes,
        edges,
        root,
        environment: document.environment.clone(),
        conversation: document.conversation.clone(),
        features: document.features.clone(),
        responses,
        streamed,
        index,
        bodies,
    })
}

/// The nearest loop around a node, through iterations; what `data.loop_id` says does not count (Dify: the owners are
/// walked).
fn loop_around(draft: &Draft<'_>, at: usize) -> Option<NodeIx> {
    let mut inner = at;
    // Nobody lies deeper than there are nodes.
    for _ in 0..draft.nodes.len() {
        let Parent::In(outer) = draft.parents[inner] else { return None };
        if draft.nodes[outer].kind == Some(NodeKind::Loop) {
            return u32::try_from(outer).ok().map(NodeIx);
        }
        inner = outer;
    }
    None
}

/// The same list, each entry at its first place only.
fn each_once(mentions: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut seen = HashSet::with_capacity(mentions.len());
    mentions.into_iter().filter(|mention| seen.insert(mention.clone())).collect()
}

#[cfg(test)]
mod tests;
