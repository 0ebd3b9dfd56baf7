//! Runs the hooks after the end of a node that ended while no worker held its job: a pause was answered or expired, or
//! the worker was lost. Only workers can fill in the texts of hooks, because they load large values and know the
//! secrets. So the node gets one more job, for its hooks only, and the end counts when that job is done.

use crate::flow::{ready, settle, subruns, timeouts};
use crate::state::pool::Pool;
use crate::state::record::Record;
use crate::state::run::PendingEnd;
use crate::step::Step;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::FramePath;
use tidemill_base::value::{Segment, Stored};
use tidemill_workflow::graph::{Node, NodeIx};
use tidemill_workflow::nodes::SOURCE_HANDLE;
use tidemill_workflow::nodes::hooks::{HOOK_ERROR, HookType};

/// Ends a node in a step: at once if it has no hooks after its end, otherwise after a job that runs them.
pub(crate) fn end_node(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, mut ended: PendingEnd) {
    if !has_hooks(cx, node) {
        let now = cx.at.now;
        return apply(cx, frame, node, now, ended);
    }
    // The default handle is not stored, so clear it: the state must equal what a new owner loads.
    if ended.record.handle == SOURCE_HANDLE {
        ended.record.handle.clear();
    }
    let attempt = cx.run.node(frame, node).map_or(1, |state| state.attempt);
    timeouts::over(cx, frame, node, attempt);
    if ended.failed {
        // The node no longer waits for the sub-workflow run that it has called.
        subruns::over(cx, frame, node);
    }
    cx.update(frame, node, |state| {
        state.job = None;
        state.parked = None;
        // Under a new entry, deliveries are counted from the beginning.
        state.delivery = 0;
        state.ended = Some(Box::new(ended));
    });
    ready::make_ready(cx, frame, node);
}

/// The field of a record that says why the hooks of the node did not run.
const NOT_RUN: &str = "hooks_not_told";

/// Collects the values for a job of hooks: the variables that the hooks mention, also those of child nodes, whose
/// outputs exist by now; and the secrets that the node mentions, so that the worker can mask them.
pub(crate) fn inputs(pool: &Pool<'_>, spec: &Node) -> Vec<(String, String, Stored)> {
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

/// Takes the stored end out of a node's state, if its job was for hooks only.
pub(crate) fn take(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) -> Option<PendingEnd> {
    let attempt = cx.run.node(frame, node).filter(|state| state.ended.is_some())?.attempt;
    timeouts::attempt_over(cx, frame, node, attempt, true);
    let mut ended = None;
    cx.update(frame, node, |state| ended = state.ended.take());
    ended.map(|ended| *ended)
}

/// Applies the end of a node after its hooks have run.
pub(crate) fn hook_ended(
    cx: &mut Step<'_>,
    (frame, node): (&FramePath, NodeIx),
    at: Timestamp,
    mut ended: PendingEnd,
    hooks: Box<Record>,
) {
    ended.record.process_data.extend(hooks.process_data);
    apply(cx, frame, node, at, ended);
}

/// Applies the end of a node after the job of its hooks has failed. A failed hook fails the node, unless the node has
/// failed itself. If the hooks could not run at all, the end stays as it was, and its record has a note.
pub(crate) fn failed(
    cx: &mut Step<'_>,
    (frame, node): (&FramePath, NodeIx),
    at: Timestamp,
    ended: PendingEnd,
    mut failure: Box<Record>,
) {
    let is_of_hook = failure.error_type == HOOK_ERROR;
    match ended {
        PendingEnd { failed: false, record } if is_of_hook => {
            (failure.inputs, failure.usage) = (record.inputs, record.usage);
            settle::failed(cx, frame, node, at, failure);
        }
        mut ended => {
            if !is_of_hook {
                let reason = Stored::Inline(Segment::string(failure.error));
                ended.record.process_data.push((NOT_RUN.into(), reason));
            }
            apply(cx, frame, node, at, ended);
        }
    }
}

fn apply(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, at: Timestamp, ended: PendingEnd) {
    match ended {
        PendingEnd { failed: true, record } => settle::failed(cx, frame, node, at, record),
        PendingEnd { failed: false, record } => settle::succeeded(cx, frame, node, at, record),
    }
}
