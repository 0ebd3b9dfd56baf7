//! The order in which answers are streamed.
//!
//! A response node is reached when no undecided branch is before it
//! ([`tidemill_workflow::graph::ResponseNode::is_reached`]). One reached node streams at a time; the others wait in the
//! order in which they were reached. A cursor points into the template of the node that streams: fixed text is sent at
//! once, a variable when its chunks arrive or its value exists. All of this is in the run's state, so after a take-over
//! the stream continues with nothing lost or repeated.

pub(crate) mod live;
pub(crate) mod nested;
pub(crate) mod streams;

use crate::order::events::{About, ChunkText, EventKind, ShownIn};
use crate::state::frame::taken;
use crate::state::run::NodeStatus;
use crate::step::Step;
use tidemill_base::ids::FramePath;
use tidemill_base::value::{SegmentType, Selector};
use tidemill_workflow::graph::{EdgeIx, Graph, Node, NodeIx, TemplatePart};
use tidemill_workflow::nodes::NodeKind;

/// True when a response template shows text that this node streams.
pub(crate) fn is_awaited(graph: &Graph, node: &Node) -> bool {
    graph.is_streamed(node)
}

/// True when a reached template that is not complete shows what this node streams. Only then is the reasoning of its
/// model sent, as on Dify. Reasoning is never held back.
pub(crate) fn is_reached_for(cx: &Step<'_>, frame: &FramePath, node: NodeIx) -> bool {
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

/// Reaches the response nodes that nothing blocks when the run begins.
pub(crate) fn open(cx: &mut Step<'_>) {
    reach(cx, |_| true);
    flush(cx);
}

/// Reaches the response nodes that waited only for this edge, which was taken.
pub(crate) fn edge_taken(cx: &mut Step<'_>, edge: EdgeIx) {
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

/// Emits all text that can be sent now.
pub(crate) fn flush(cx: &mut Step<'_>) {
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
                emit_chunk(cx, about, selector, ChunkText::Inline(text.clone()), last);
                true
            }
            Some(TemplatePart::Variable(selector)) => emit_variable(cx, active, selector, last),
        };
        if !passed {
            return;
        }
        cx.run.response.at += 1;
        cx.out.response = true;
    }
}

/// Emits the known text of a variable. Returns true when the cursor can move on.
fn emit_variable(cx: &mut Step<'_>, active: usize, selector: &Selector, last: bool) -> bool {
    let graph = cx.run.graph.clone();
    let root = FramePath::root();
    let source = selector.first().and_then(|id| graph.find(id));
    if let Some(source) = source {
        if cx.run.node(&root, source).is_some_and(|n| n.status == NodeStatus::Skipped) {
            return true;
        }
        // Each step checks a waiting cursor, and mostly its node has no output yet. This test is cheap.
        if source != cx.run.root() && cx.run.response.streams.is_empty() && has_nothing(cx, &root, source) {
            return false;
        }
    }
    let node = source.unwrap_or(graph.responses[active].node);
    if let Some(closed) = streams::emit_held(cx, node, selector) {
        return closed;
    }
    // The author of an answer may show a secret; a secret in the run's outputs is masked, as outputs are.
    let is_output = graph.node(graph.responses[active].node).kind == NodeKind::End;
    let Some(chunk) = value_chunk(cx, &root, selector, is_output) else { return false };
    let about = cx.about(&root, node);
    emit_chunk(cx, about, selector.clone(), chunk, last);
    true
}

/// True when a node has no variables.
fn has_nothing(cx: &Step<'_>, root: &FramePath, node: NodeIx) -> bool {
    let id = cx.run.graph.node(node).id.as_str();
    cx.run.frames.get(root).is_some_and(|frame| !frame.variables.contains_key(id))
}

/// Returns the value of a selector as one chunk, if it exists.
fn value_chunk(cx: &Step<'_>, frame: &FramePath, selector: &Selector, is_output: bool) -> Option<ChunkText> {
    use tidemill_base::value::{Lookup, Variables};
    let pool = cx.run.pool(frame);
    match pool.get(selector) {
        Lookup::Missing => None,
        Lookup::Found(segment) if is_output && segment.ty == SegmentType::Secret => {
            Some(ChunkText::Inline(segment.log().into_owned()))
        }
        Lookup::Found(segment) => Some(ChunkText::Inline(segment.markdown().into_owned())),
        // The selector is followed into the blob when the event is sent.
        Lookup::Blob(blob) => Some(ChunkText::Blob(blob.clone(), 0)),
    }
}

fn emit_chunk(cx: &mut Step<'_>, about: About, selector: Selector, chunk: ChunkText, last: bool) {
    cx.emit(EventKind::NodeRunStreamChunk { about, selector, chunk, last, shown: ShownIn::Answer });
}
