//! The one order in which answers are told.
//!
//! A response node may stream once no undecided branch lies before it ([`tidemill_workflow::graph::ResponseNode::is_reached`]). One
//! of them streams at a time, the others wait in the order of being reached. The cursor stands in the template of the
//! one that streams: fixed text is told at once, a variable when its chunks arrive or its value is there. All of it
//! is part of the run's state, so a run that is taken over tells on where it stood, with nothing lost or repeated.

pub(super) mod nested;
pub mod streams;

use std::collections::BTreeMap;

use super::Step;
use super::events::{About, ChunkText, EventKind};
use super::frame::taken;
use super::run::NodeStatus;
use tidemill_base::ids::FramePath;
use tidemill_base::value::{SegmentType, Selector};
use tidemill_workflow::graph::{EdgeIx, Graph, Node, NodeIx, TemplatePart};
use tidemill_workflow::nodes::NodeKind;

pub use streams::Stream;
pub use tidemill_workflow::graph::stream_key;

/// Where the telling of answers stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResponseState {
    /// Indexes into [`Graph::responses`], in the order of being reached.
    pub reached: Vec<usize>,
    /// How many of them are told to the end.
    pub done: usize,
    /// The place in the template of the one that is being told.
    pub at: usize,
    /// Texts that came in pieces, by selector.
    pub streams: BTreeMap<String, Stream>,
}

impl ResponseState {
    /// Nothing reached yet.
    pub fn new(graph: &Graph) -> Self {
        let _ = graph;
        Self::default()
    }
    /// Bytes of text that wait for their turn.
    pub fn held_bytes(&self) -> usize {
        self.streams.values().map(|s| 96 + s.held.iter().map(|h| h.len() + 24).sum::<usize>()).sum()
    }
}

/// Whether any response template waits for text that this node streams.
pub(super) fn is_awaited(graph: &Graph, node: &Node) -> bool {
    graph.is_streamed(node)
}

/// Whether a template that is being told, or waits for its turn, shows what this node streams: only then is told what its
/// model thinks (Dify). That is never held back.
pub(super) fn is_reached_for(cx: &Step<'_>, frame: &FramePath, node: NodeIx) -> bool {
    if !frame.is_root() {
        return false;
    }
    let graph = &cx.run.graph;
    let id = graph.node(node).id.as_str();
    let shows = |part: &TemplatePart| match part {
        TemplatePart::Variable(selector) => {
            matches!(&selector[..], [of, name, ..] if of == id && (name == "text" || name == "reasoning_content"))
        }
        TemplatePart::Text(_) => false,
    };
    let waiting = cx.run.response.reached.iter().skip(cx.run.response.done);
    waiting.into_iter().any(|at| graph.responses[*at].template.iter().any(shows))
}

/// The run begins: response nodes that nothing blocks are reached, in the order of their ids.
pub(super) fn open(cx: &mut Step<'_>) {
    reach(cx, |_| true);
    flush(cx);
}

/// An edge was taken: whoever waited for it alone is reached.
pub(super) fn edge_taken(cx: &mut Step<'_>, edge: EdgeIx) {
    let graph = cx.run.graph.clone();
    if reach(cx, |at| graph.responses[at].blocking[edge.at()]) {
        flush(cx);
    }
}

fn reach(cx: &mut Step<'_>, concerned: impl Fn(usize) -> bool) -> bool {
    let graph = cx.run.graph.clone();
    let root = cx.run.frames.root();
    let mut new = Vec::new();
    for (at, response) in graph.responses.iter().enumerate() {
        if !concerned(at) || cx.run.response.reached.contains(&at) {
            continue;
        }
        if response.is_reached(&graph, cx.run.root(), taken(&root.edges)) {
            new.push(at);
        }
    }
    if new.is_empty() {
        return false;
    }
    cx.run.response.reached.extend(new);
    cx.out.response = true;
    true
}

/// Tells all that can be told now.
pub(super) fn flush(cx: &mut Step<'_>) {
    let graph = cx.run.graph.clone();
    while let Some(&active) = cx.run.response.reached.get(cx.run.response.done) {
        let response = &graph.responses[active];
        let last = cx.run.response.at + 1 == response.template.len();
        let passed = match response.template.get(cx.run.response.at) {
            None => {
                cx.run.response.done += 1;
                cx.run.response.at = 0;
                cx.out.response = true;
                continue;
            }
            Some(TemplatePart::Text(text)) => {
                let node = response.node;
                let about = cx.about(&FramePath::root(), node);
                let selector = vec![graph.node(node).id.as_str().to_string(), "answer".to_string()];
                tell(cx, about, selector, ChunkText::Inline(text.clone()), last);
                true
            }
            Some(TemplatePart::Variable(selector)) => tell_variable(cx, active, selector, last),
        };
        if !passed {
            return;
        }
        cx.run.response.at += 1;
        cx.out.response = true;
    }
}

/// Tells what there is of a variable; true when the cursor can go past it.
fn tell_variable(cx: &mut Step<'_>, active: usize, selector: &Selector, last: bool) -> bool {
    let graph = cx.run.graph.clone();
    let root = FramePath::root();
    let source = selector.first().and_then(|id| graph.find(id));
    if let Some(source) = source {
        if cx.run.node(&root, source).is_some_and(|n| n.status == NodeStatus::Skipped) {
            return true;
        }
        // A cursor that waits is looked at in every step: mostly its node has not made anything.
        if source != cx.run.root() && cx.run.response.streams.is_empty() && has_nothing(cx, &root, source) {
            return false;
        }
    }
    let node = source.unwrap_or(graph.responses[active].node);
    if let Some(closed) = streams::tell_held(cx, node, selector) {
        return closed;
    }
    // An answer's text is its author's; an output that is a secret is shown as outputs are.
    let is_output = graph.node(graph.responses[active].node).kind == NodeKind::End;
    let Some(chunk) = value_chunk(cx, &root, selector, is_output) else { return false };
    let about = cx.about(&root, node);
    tell(cx, about, selector.clone(), chunk, last);
    true
}

/// Whether a node has no variables at all.
fn has_nothing(cx: &Step<'_>, root: &FramePath, node: NodeIx) -> bool {
    let id = cx.run.graph.node(node).id.as_str();
    cx.run.frames.get(root).is_some_and(|frame| !frame.variables.contains_key(id))
}

/// The value of a selector as one chunk, when the pool has it.
fn value_chunk(cx: &Step<'_>, frame: &FramePath, selector: &Selector, is_output: bool) -> Option<ChunkText> {
    use tidemill_base::value::{Lookup, Variables};
    let pool = cx.run.pool(frame);
    match pool.get(selector) {
        Lookup::Missing => None,
        Lookup::Found(segment) if is_output && segment.ty == SegmentType::Secret => {
            Some(ChunkText::Inline(segment.log().into_owned()))
        }
        Lookup::Found(segment) => Some(ChunkText::Inline(segment.markdown().into_owned())),
        // Whoever tells it follows the selector into the value.
        Lookup::Blob(blob) => Some(ChunkText::Blob(blob.clone(), 0)),
    }
}

fn tell(cx: &mut Step<'_>, about: About, selector: Selector, chunk: ChunkText, last: bool) {
    cx.tell(EventKind::NodeRunStreamChunk { about, selector, chunk, last });
}
