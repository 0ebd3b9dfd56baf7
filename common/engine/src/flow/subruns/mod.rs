//! Sub-workflow runs: workflows that nodes call as tools. The worker parks the node's job with an order, the commit
//! stores the order, and a scheduler creates the run from it, on the same shard. The last commit of that run sends a
//! fact to the caller, whose job is queued again and reads the outputs.
//!
//! A job that cannot be parked, because a process of a plugin asks for the run, orders it with the fact `called` and
//! continues: its worker reads how the run ends. When this worker no longer has the job, the run is stopped.
//!
//! The id of a sub-workflow run is derived from execution, journal entry and try. So a job that is queued again finds
//! the run that it has ordered, and the next attempt of the node orders another one.

pub(crate) mod parent;

use serde_json::json;

use crate::fact::{Call, CallEnded, Timer};
use crate::flow::ready;
use crate::order::changes::{CallOrder, TimerChange};
use crate::order::events::EventKind;
use crate::state::run::{NodeStatus, OpenCall};
use crate::state::step_event::StepEvent;
use crate::step::Step;
use tidemill_base::ids::FramePath;
use tidemill_base::limits;
use tidemill_base::value::JsonMap;
use tidemill_workflow::graph::NodeIx;

/// Lets a parked job wait for the end of a sub-workflow run. Returns false when that run has ended already.
pub(crate) fn wait(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, call: Call) -> bool {
    let open = cx.run.node(frame, node).and_then(|state| state.call.as_deref());
    match open {
        Some(open) if open.run == call.run => return !open.ended,
        Some(_) => over(cx, frame, node),
        None => {}
    }
    let run = call.run;
    cx.update(frame, node, |state| state.call = Some(Box::new(OpenCall { run, ended: false })));
    order(cx, frame, node, call);
    true
}

/// Orders a sub-workflow run while the job goes on. The worker counts those that it has ordered and whose ends it has not seen,
/// and orders no more than [`limits::SIDE_CALLS_MAX`]. So that the state stays small with any worker, the oldest one is
/// stopped when there would be more.
pub(crate) fn call_beside(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, call: Call) {
    let known = cx.run.node(frame, node).map(|state| state.side_calls.as_slice()).unwrap_or_default();
    if known.contains(&call.run) {
        return;
    }
    let oldest = known.first().copied().filter(|_| known.len() >= limits::SIDE_CALLS_MAX);
    let run = call.run;
    cx.update(frame, node, |state| {
        state.side_calls.retain(|known| Some(*known) != oldest);
        state.side_calls.push(run);
    });
    if let Some(oldest) = oldest {
        cx.out.calls.get_or_insert_default().dropped.push(oldest);
    }
    order(cx, frame, node, call);
}

/// Orders a run, unless it was ordered before: then the call has no input.
fn order(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, call: Call) {
    let Call { run, app, given } = call;
    let Some(given) = given else { return };
    let id = cx.run.graph.node(node).id.clone();
    let data = JsonMap::from_iter([
        ("node_id".to_string(), json!(id)),
        ("app".to_string(), json!(app)),
        ("called_run_id".to_string(), json!(run)),
    ]);
    let about = cx.about(frame, node);
    cx.emit(EventKind::NodeStep { about, what: StepEvent::WorkflowCalled, data });
    let order = CallOrder { run, app, frame: frame.clone(), node, given };
    cx.out.calls.get_or_insert_default().ordered.push(order);
}

/// Applies the end of a sub-workflow run: the job that waits for it is queued again. A job that goes on beside it is not
/// concerned.
pub(crate) fn ended(cx: &mut Step<'_>, it: &CallEnded) {
    let Some(state) = cx.run.node(&it.frame, it.node) else { return };
    if state.side_calls.contains(&it.run) {
        return cx.update(&it.frame, it.node, |state| state.side_calls.retain(|run| *run != it.run));
    }
    if state.call.as_ref().is_none_or(|call| call.run != it.run || call.ended) {
        return;
    }
    let waits = state.status == NodeStatus::Retrying && state.parked.is_some();
    let attempt = state.attempt_due();
    cx.update(&it.frame, it.node, |state| {
        if let Some(call) = &mut state.call {
            call.ended = true;
        }
    });
    if waits {
        let timer = Timer::Retry { frame: it.frame.clone(), node: it.node, attempt };
        cx.out.timers.push(TimerChange::Clear(timer));
        ready::make_ready(cx, &it.frame, it.node);
        ready::advance(cx);
    }
}

/// Forgets the sub-workflow runs of an attempt that has ended, and stops those that still run.
pub(crate) fn over(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    leave(cx, frame, node);
    let Some(call) = cx.run.node(frame, node).and_then(|state| state.call.as_deref()) else { return };
    let (run, ended) = (call.run, call.ended);
    cx.update(frame, node, |state| state.call = None);
    if !ended {
        cx.out.calls.get_or_insert_default().dropped.push(run);
    }
}

/// Stops the runs that a job has ordered beside its work, because its worker no longer has it.
pub(crate) fn leave(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    if cx.run.node(frame, node).is_none_or(|state| state.side_calls.is_empty()) {
        return;
    }
    let mut open = Vec::new();
    cx.update(frame, node, |state| open = std::mem::take(&mut state.side_calls));
    cx.out.calls.get_or_insert_default().dropped.extend(open);
}
