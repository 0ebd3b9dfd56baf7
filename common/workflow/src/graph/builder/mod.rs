//! Builds a graph from a document: reads every node, checks every rule, and returns the graph when there is
//! no error.

use std::collections::HashSet;

use crate::dsl::{self, Diagnostic, Document, ParseOptions, Problems, SealError, SealingKey};
use crate::graph::containers::Parent;
use crate::graph::draft::Draft;
use crate::graph::{
    Edge, EdgeIx, Graph, GraphHash, Node, NodeIx, Quoted, RetryConfig, body, children, names, response,
    secrets_of, validate,
};
use crate::nodes::hooks::Hooks;
use crate::nodes::llm::turns::CONTEXT;
use crate::nodes::pause::as_form::REJECT;
use crate::nodes::work::{Child, ChildKind, FedInput, INPUTS, Work};
use crate::nodes::{NodeData, NodeKind, mentions_of};
use tidemill_base::value::template::mention;

/// Builds the graph of a document and reports all problems. There is a graph exactly when no problem is an
/// error. Problems have the paths of the file, but no lines.
///
/// Secrets must be open ([`Document::open`]) so that the graph has their values; `hash` is that of the stored
/// text.
pub fn build(document: &Document, hash: GraphHash) -> (Option<Graph>, Vec<Diagnostic>) {
    let mut problems = Problems::new();
    let graph = problems.within(document.graph_path, |problems| {
        let inside = children::of(document);
        let draft = Draft::new(document, &inside, problems);
        validate::check(&draft, problems);
        if problems.has_errors() { None } else { freeze(draft, hash) }
    });
    (graph, problems.into_vec())
}

/// The result of an import, as far as the file could be read.
#[derive(Debug)]
pub struct Imported {
    /// The document; `None` when the file has no graph.
    pub document: Option<Document>,
    /// The graph; `None` when there is an error. Its hash is that of the document with open secrets, until
    /// [`Imported::seal`].
    pub graph: Option<Graph>,
    /// All problems, with lines.
    pub diagnostics: Vec<Diagnostic>,
}

impl Imported {
    /// True when the workflow can be run.
    pub fn is_usable(&self) -> bool {
        self.graph.is_some()
    }
    /// Returns the text to store, with secrets sealed, and gives its hash to the graph. `None` when there is
    /// no document.
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

/// Reads a workflow file, builds its graph and sets the line of every problem.
pub fn import(text: &[u8]) -> Imported {
    import_within(text, &ParseOptions::default())
}

/// As [`import`], with other limits.
pub fn import_within(text: &[u8], limits: &ParseOptions) -> Imported {
    let (document, mut diagnostics, lines) = dsl::parse_with_lines(text, limits);
    let mut graph = None;
    if let Some(document) = &document {
        let (built, found) = build(document, document.hash());
        diagnostics.extend(found);
        diagnostics.extend(too_many_children(document, limits.children_max));
        graph = built;
    }
    lines.fill_in(&mut diagnostics);
    if diagnostics.iter().any(Diagnostic::is_error) {
        graph = None;
    }
    Imported { document, graph, diagnostics: dsl::merge_same_warnings(diagnostics) }
}

/// Reports nodes with more child nodes than the limit allows. Only files are checked: a stored document was
/// within the limit at its import.
fn too_many_children(document: &Document, max: usize) -> Vec<Diagnostic> {
    let mut problems = Problems::new();
    for node in &document.nodes {
        let count = node.data.get(children::FIELD).and_then(|list| list.as_array()).map_or(0, Vec::len);
        if count > max {
            let path = format!("nodes[{}].data.{}", node.place, children::FIELD);
            let message = format!(
                "node {:?} has {count} nodes inside it; the limit children_max allows {max}",
                node.id
            );
            problems.within(document.graph_path, |problems| {
                problems.within(path, |problems| problems.error("children.too_many", message));
            });
        }
    }
    problems.into_vec()
}

/// Builds the graph of a draft that passed all rules. Returns `None` only if a rule is missing.
fn freeze(draft: Draft<'_>, hash: GraphHash) -> Option<Graph> {
    let document = draft.document;
    let root = NodeIx(u32::try_from(*draft.roots().first()?).ok()?);
    let loops: Vec<Option<NodeIx>> = (0..draft.nodes.len()).map(|at| loop_around(&draft, at)).collect();
    let mut nodes = Vec::with_capacity(draft.nodes.len());
    let mut inside = Vec::with_capacity(draft.nodes.len());
    let mut hooks = Vec::with_capacity(draft.nodes.len());
    let rejectable: Vec<bool> = draft.nodes.iter().map(|node| node.wrapper.may_be_rejected).collect();
    for ((node, parent), loop_id) in draft.nodes.into_iter().zip(&draft.parents).zip(loops) {
        let parent = match parent {
            Parent::None => None,
            Parent::In(at) => Some(NodeIx(u32::try_from(*at).ok()?)),
            Parent::NotAContainer(_) | Parent::Unknown(_) => return None,
        };
        let data = node.data?;
        let mentions = deduplicated(mentions_of(&node.source.id, &data));
        let child = match node.child {
            None => None,
            Some(child) => Some(Box::new(Child {
                of: NodeIx(u32::try_from(child.of).ok()?),
                local: child.local.clone(),
                kind: match &child.extraction {
                    Some(extraction) => ChildKind::Extraction(Box::new(extraction.clone())),
                    None if child.is_slot => ChildKind::Slot,
                    None => ChildKind::Virtual,
                },
            })),
        };
        let (mut settings, mut work) = (node.wrapper.settings, None);
        // A child runs inside the job of its parent, where no person can be asked.
        if let Some(confirm) = node.wrapper.confirm.filter(|_| child.is_none()) {
            settings.on_worker = true;
            work = Some(Box::new(Work { confirm: Some(confirm), ..Work::default() }));
        }
        if matches!(&data, NodeData::UserInteraction(asks) if asks.by_model.is_some()) {
            // The model is called within the job.
            settings.on_worker = true;
            work.get_or_insert_with(Box::default);
        }
        nodes.push(Node {
            id: node.source.id.as_str().into(),
            kind: node.kind?,
            title: node.wrapper.title,
            version: node.wrapper.version,
            data,
            error_strategy: node.wrapper.error_strategy,
            retry: node.wrapper.retry,
            settings,
            chooses: false,
            ins: Vec::new(),
            outs: Vec::new(),
            parent,
            loop_id,
            mentions,
            work,
            gives_context: node.source.data.get("emit_context") == Some(&true.into()),
            children: Vec::new(),
            child,
            quoted: Quoted::default(),
        });
        inside.push((node.wrapper.child_retry, children::fed_inputs(&node.source.data)));
        hooks.push(node.wrapper.hooks);
    }
    for at in names::give(&mut nodes, document) {
        let mut mentions = mentions_of(nodes[at].id.as_str(), &nodes[at].data);
        // Containers and hooks of the node mention variables, too.
        mentions.append(&mut nodes[at].mentions);
        nodes[at].mentions = deduplicated(mentions);
    }
    for node in &mut nodes {
        node.quoted = Quoted::of(&node.id, &node.title);
    }
    mark_contexts(&mut nodes);
    add_hooks(&mut nodes, hooks);
    add_children(&mut nodes, inside);
    let mut edges = Vec::with_capacity(draft.edges.len());
    for edge in draft.edges {
        let (from, to) = (edge.from?, edge.to?);
        let at = EdgeIx(u32::try_from(edges.len()).ok()?);
        nodes[from].outs.push(at);
        nodes[to].ins.push(at);
        nodes[from].chooses |= is_chosen(&nodes[from], rejectable[from], &edge.source.handle);
        edges.push(Edge {
            id: format!("edge_{}", edge.source.number),
            source: NodeIx(u32::try_from(from).ok()?),
            target: NodeIx(u32::try_from(to).ok()?),
            handle: edge.source.handle.clone(),
        });
    }
    let (responses, streamed) = response::responses(&nodes, &edges);
    let index = nodes.iter().enumerate().map(|(at, node)| (node.id.clone(), NodeIx(at as u32))).collect();
    let bodies = body::bodies(&nodes, &index)?;
    Some(Graph {
        hidden: secrets_of(&document.environment),
        hash,
        name: document.name.clone(),
        mode: document.mode,
        // An export always has a version, if only an assumed one.
        is_bare: document.version.is_empty(),
        nodes,
        edges,
        root,
        environment: document.environment.clone(),
        conversation: document.conversation.clone(),
        features: document.features.clone(),
        front: document.front.clone(),
        responses,
        streamed,
        index,
        bodies,
    })
}

/// Marks the nodes whose conversation is read by some node.
fn mark_contexts(nodes: &mut [Node]) {
    let mut read: HashSet<(String, String)> = HashSet::new();
    for node in &*nodes {
        read.extend(node.mentions.iter().filter(|(_, name)| name.ends_with(CONTEXT)).cloned());
        if let NodeData::Iteration(data) = &node.data {
            let mut output = Vec::new();
            mention(&data.output, &mut output);
            read.extend(output);
        }
    }
    for node in nodes {
        let name = match &node.data {
            NodeData::ParameterExtractor(data) => data.context_name(),
            _ => CONTEXT,
        };
        node.gives_context |= read.contains(&(node.id.to_string(), name.to_string()));
    }
}

/// True when a node may leave by this handle instead of `source`, although its type is not a branch.
fn is_chosen(node: &Node, may_be_rejected: bool, handle: &str) -> bool {
    match &node.data {
        NodeData::UserInteraction(data) => data.chooses(handle),
        NodeData::Step(data) if data.chooses(handle) => true,
        _ => may_be_rejected && handle == REJECT && !node.is_branch(),
    }
}

/// Adds hooks to nodes, and the variables that the hooks mention. A worker runs the hooks, so the node must
/// run on a worker.
fn add_hooks(nodes: &mut [Node], hooks: Vec<Hooks>) {
    for (node, hooks) in nodes.iter_mut().zip(hooks).filter(|(_, hooks)| !hooks.is_empty()) {
        let mut mentions = std::mem::take(&mut node.mentions);
        hooks.mentions(&mut mentions);
        node.mentions = deduplicated(mentions);
        node.settings.on_worker = true;
        node.work.get_or_insert_with(|| Box::new(Work::default())).hooks = hooks;
    }
}

/// Adds the children to their parents, and the variables that the children mention: the parent's job carries
/// their values.
fn add_children(nodes: &mut [Node], inside: Vec<(RetryConfig, Vec<FedInput>)>) {
    let parents: HashSet<usize> =
        nodes.iter().filter_map(|node| Some(node.child.as_ref()?.of.at())).collect();
    for (at, (child_retry, inputs)) in inside.into_iter().enumerate() {
        if inputs.is_empty() && !parents.contains(&at) {
            continue;
        }
        for input in &inputs {
            mention(&input.selector, &mut nodes[at].mentions);
        }
        let work = nodes[at].work.get_or_insert_with(Box::default);
        (work.child_retry, work.inputs) = (child_retry, inputs);
        // The children run on a worker, so the parent does, too.
        nodes[at].settings.on_worker = true;
    }
    let inner: Vec<(NodeIx, NodeIx)> = nodes
        .iter()
        .enumerate()
        .filter_map(|(at, node)| Some((node.child.as_ref()?.of, NodeIx(u32::try_from(at).ok()?))))
        .collect();
    for (of, child) in &inner {
        let mentions = nodes[child.at()].mentions.clone();
        let parent = &mut nodes[of.at()];
        parent.children.push(*child);
        parent.mentions.extend(mentions);
    }
    for at in 0..nodes.len() {
        let Node { children, work, .. } = &nodes[at];
        if work.is_none() {
            continue;
        }
        // The outputs of children exist only inside the job, so the job must not ask for them.
        let made: HashSet<String> = children.iter().map(|ix| nodes[ix.at()].id.to_string()).collect();
        let parent = &mut nodes[at];
        let mentions = std::mem::take(&mut parent.mentions);
        parent.mentions =
            deduplicated(mentions).into_iter().filter(|(of, _)| of != INPUTS && !made.contains(of)).collect();
    }
}

/// Returns the nearest loop around a node, also through iterations. As on Dify, `data.loop_id` is ignored and
/// the containers are walked upwards.
fn loop_around(draft: &Draft<'_>, at: usize) -> Option<NodeIx> {
    let mut inner = at;
    // A node cannot be nested deeper than there are nodes.
    for _ in 0..draft.nodes.len() {
        let Parent::In(outer) = draft.parents[inner] else { return None };
        if draft.nodes[outer].kind == Some(NodeKind::Loop) {
            return u32::try_from(outer).ok().map(NodeIx);
        }
        inner = outer;
    }
    None
}

/// Removes duplicates and keeps the first occurrence of each.
fn deduplicated(mentions: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut seen = HashSet::with_capacity(mentions.len());
    mentions.into_iter().filter(|mention| seen.insert(mention.clone())).collect()
}

#[cfg(test)]
mod children_tests;
#[cfg(test)]
mod extraction_tests;
#[cfg(test)]
mod foreign_tests;
#[cfg(test)]
mod tests;
