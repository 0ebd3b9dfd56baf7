//! Hooks behind the end of a node that came to it in nobody's hands: an answer was given, or none came in time, or whoever
//! had the node is gone. What hooks say is filled in by workers, who have large values and know what is secret; so the
//! node's job is handed out once more, with what came of it, and the end counts when that is done.

use super::pool::Pool;
use super::records::Record;
use super::run::Ended;
use super::{Step, calls, drive, settle, timeouts};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::FramePath;
use tidemill_base::value::{Segment, Stored};
use tidemill_workflow::graph::{Node, NodeIx};
use tidemill_workflow::nodes::SOURCE_HANDLE;
use tidemill_workflow::nodes::hooks::{HOOK_ERROR, HookType};

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
    if ended.failed {
        // Nobody waits for what it has called any more.
        calls::over(cx, frame, node);
    }
    cx.update(frame, node, |state| {
        state.job = None;
        state.parked = None;
        // Under a new entry deliveries are counted anew.
        state.delivery = 0;
        state.ended = Some(Box::new(ended));
    });
    drive::make_ready(cx, frame, node);
}

/// What the record of a node shows whose hooks nobody could tell: why.
const NOT_TOLD: &str = "hooks_not_told";

/// The values that such a job carries: what its hooks mention, also of nodes inside this one, whose outputs are known by now;
/// and the secrets that the node was given, so that none of them is told.
pub(super) fn inputs(pool: &Pool<'_>, spec: &Node) -> Vec<(String, String, Stored)> {
    let wanted = spec.work.as_deref().map(|work| work.hooks.late_mentions()).unwrap_or_default();
    let mut inputs: Vec<(String, String, Stored)> = Vec::new();
    for (node, name) in wanted.iter().chain(&spec.mentions) {
        if inputs.iter().any(|(of, known, _)| of == node && known == name) {
            continue;
        }
        let Some(stored) = pool.stored(node, name) else { continue };
        if wanted.contains(&(node.clone(), name.clone())) || matches!(&*stored, Stored::Secret(_)) {
            inputs.push((node.clone(), name.clone(), stored.into_owned()));
        }
    }
    inputs
}

fn has_hooks(cx: &Step<'_>, node: NodeIx) -> bool {
    let work = cx.run.graph.node(node).work.as_deref();
    work.is_some_and(|work| work.hooks.has(HookType::After))
}

/// The end that a node had come to when its job was handed out, if it was handed out for its hooks alone.
pub(super) fn take(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> Option<Ended> {
    let attempt = cx.run.node(frame, node).filter(|state| state.ended.is_some())?.attempt;
    timeouts::over(cx, frame, node, attempt);
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
    told: Box<Record>,
) {
    ended.record.process_data.extend(told.process_data);
    settled(cx, frame, node, at, ended);
}

/// A hook failed: that is the node's failure, unless it has one of its own. Where nobody could tell them the end stands, with
/// a note in its record.
pub(super) fn failed(
    cx: &mut Step<'_>,
    (frame, node): (&FramePath, NodeIx),
    at: Timestamp,
    ended: Ended,
    mut failure: Box<Record>,
) {
    let is_of_hook = failure.error_type == HOOK_ERROR;
    match ended {
        Ended { failed: false, record } if is_of_hook => {
            (failure.inputs, failure.usage) = (record.inputs, record.usage);
            settle::failed(cx, frame, node, at, failure);
        }
        mut kept => {
            if !is_of_hook {
                let why = Stored::Inline(Segment::string(failure.error));
                kept.record.process_data.push((NOT_TOLD.into(), why));
            }
            settled(cx, frame, node, at, kept);
        }
    }
}

fn settled(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, at: Timestamp, ended: Ended) {
    match ended {
        Ended { failed: true, record } => settle::failed(cx, frame, node, at, record),
        Ended { failed: false, record } => settle::succeeded(cx, frame, node, at, record),
    }
}
