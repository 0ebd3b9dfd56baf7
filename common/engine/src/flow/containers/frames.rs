//! Opens and closes frames.

use crate::flow::containers::{iteration, loop_};
use crate::flow::ready;
use crate::state::record::Record;
use crate::state::run::{Frame, Responder};
use crate::state::totals::{Sums, Tally};
use crate::step::Step;
use tidemill_base::ids::FramePath;
use tidemill_base::value::Stored;
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::NodeKind;

/// Opens a frame of a container with these variables, and makes its start node ready.
pub(super) fn open(cx: &mut Step<'_>, path: &FramePath, container: NodeIx, own: Vec<(String, Stored)>) {
    let graph = cx.run.graph.clone();
    let mut frame = Frame::new(&graph);
    frame.opened_at = cx.at.now;
    let id = &graph.node(container).id;
    for (name, value) in own {
        frame.set(id, &name, value);
        cx.out.variables.insert((path.clone(), id.clone(), name));
    }
    cx.run.frames.insert(path.clone(), frame);
    cx.out.frames.insert(path.clone());
    cx.out.opened.insert(path.clone());
    ready::make_ready(cx, path, graph.body(container).start);
}

/// Closes a frame that has nothing left to do, and continues its container. Called when a node of the frame has ended.
pub(crate) fn settled(cx: &mut Step<'_>, path: &FramePath) {
    let is_done = cx.run.frames.get(path).is_some_and(|frame| frame.open == 0);
    if path.is_root() || !is_done || cx.run.status.is_over() {
        return;
    }
    let Some((id, index)) = path.last() else { return };
    let Some(container) = cx.run.graph.find(&id) else { return };
    let parent = path.parent();
    if cx.run.graph.node(container).kind == NodeKind::Iteration {
        iteration::item_closes(cx, path, &parent, container, index);
    } else {
        loop_::round_closes(cx, path, &parent, container, index);
    }
}

/// Removes a frame. Its counters are added to its container, and its outputs pass to the frame around it if they count.
pub(super) fn close_frame(
    cx: &mut Step<'_>,
    path: &FramePath,
    container: NodeIx,
    outputs_count: bool,
) -> Option<Frame> {
    let failures_count = cx.run.failures_count(path);
    let frame = cx.run.frames.remove(path)?;
    let parent = path.parent();
    let graph = cx.run.graph.clone();
    for (at, state) in frame.nodes.iter().enumerate() {
        let node = NodeIx(u32::try_from(at).unwrap_or(u32::MAX));
        if state.status != crate::state::run::NodeStatus::Unknown {
            cx.out.nodes.insert((path.clone(), node));
        }
        cx.run.sums = cx.run.sums.minus(Sums::of_node(state, failures_count));
    }
    for (node, values) in &frame.variables {
        cx.out.variables.extend(values.iter().map(|(name, _)| (path.clone(), node.clone(), name.clone())));
    }
    cx.out
        .variables
        .extend(frame.hidden.iter().map(|(node, name)| (path.clone(), node.clone(), name.clone())));
    cx.out.frames.insert(path.clone());
    let mut tally = frame.tally();
    if !failures_count {
        tally.failures = frame.nodes.iter().fold(Tally::default(), |sum, n| sum.plus(&n.inside)).failures;
    }
    cx.update(&parent, container, |state| state.inside = state.inside.plus(&tally));
    pass_outputs(cx, &parent, &frame.responded, outputs_count);
    debug_assert!(graph.nodes.len() == frame.nodes.len());
    Some(frame)
}

/// Passes the response nodes of a closed frame to the frame around it, or drops their outputs.
fn pass_outputs(cx: &mut Step<'_>, parent: &FramePath, responded: &[Responder], count: bool) {
    if responded.is_empty() {
        return;
    }
    if count {
        if let Some(frame) = cx.frame_mut(parent) {
            frame.responded.extend_from_slice(responded);
        }
        cx.out.response |= parent.is_root();
        return;
    }
    for responder in responded {
        if let Responder::Nested(key) = responder {
            cx.run.nested.remove(key);
            cx.out.nested.insert(key.clone());
        }
    }
}

/// Makes a record that has only a failure.
pub(super) fn failure(error: String, error_type: &str) -> Record {
    Record { error, error_type: error_type.to_string(), ..Record::default() }
}
