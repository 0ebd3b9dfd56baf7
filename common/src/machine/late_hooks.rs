//! Hooks behind the end of a node that came to it in nobody's hands: an answer was given, or none came in time, or whoever
//! had the node is gone. What hooks say is filled in by workers, who have large values and know what is secret; so the
//! node's job is handed out once more, with what came of it, and the end counts when that is done.

use super::changes::Record;
use super::run::Ended;
use super::{Step, drive, settle, timeouts};
use crate::clock::Timestamp;
use crate::graph::NodeIx;
use crate::ids::FramePath;
use crate::nodes::SOURCE_HANDLE;
use crate::nodes::hooks::HookType;

/// The node has come to its end here, well or not.
pub(super) fn end(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, mut ended: Ended) {
    if !has_hooks(cx, node) {
        let now = cx.at.now;
        return settled(cx, frame, node, now, ended);
    }
    // As it will be read: this handle is not written.
    if ended.record.handle == SOURCE_HANDLE {
        ended.record.handle.clear();
    }
    let attempt = cx.run.node(frame, node).map_or(1, |state| state.attempt);
    timeouts::over(cx, frame, node, attempt);
    cx.update(frame, node, |state| {
        state.job = None;
        state.parked = None;
        // Under a new entry deliveries are counted anew.
        state.delivery = 0;
        state.ended = Some(Box::new(ended));
    });
    drive::make_ready(cx, frame, node);
}

fn has_hooks(cx: &Step<'_>, node: NodeIx) -> bool {
    let work = cx.run.graph.node(node).work.as_deref();
    work.is_some_and(|work| work.hooks.has(HookType::After))
}

/// The end that a node had come to when its job was handed out, if it was handed out for its hooks alone.
pub(super) fn take(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> Option<Ended> {
    cx.run.node(frame, node)?.ended.as_ref()?;
    let mut ended = None;
    cx.update(frame, node, |state| ended = state.ended.take());
    ended.map(|ended| *ended)
}

/// The hooks were told.
pub(super) fn told(
    cx: &mut Step<'_>,
    (frame, node): (&FramePath, NodeIx),
    at: Timestamp,
    mut ended: Ended,
    told: Record,
) {
    ended.record.process_data.extend(told.process_data);
    settled(cx, frame, node, at, ended);
}

/// A hook failed, or nobody could tell it: that is the node's failure, unless it has one of its own.
pub(super) fn failed(
    cx: &mut Step<'_>,
    (frame, node): (&FramePath, NodeIx),
    at: Timestamp,
    ended: Ended,
    failure: Record,
) {
    let record = match ended {
        Ended { failed: true, record } => record,
        Ended { failed: false, record } => Record { inputs: record.inputs, usage: record.usage, ..failure },
    };
    settle::failed(cx, frame, node, at, record);
}

fn settled(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, at: Timestamp, ended: Ended) {
    match ended {
        Ended { failed: true, record } => settle::failed(cx, frame, node, at, record),
        Ended { failed: false, record } => settle::succeeded(cx, frame, node, at, record),
    }
}
