//! Sub-workflow runs: workflows that nodes call as tools. The worker parks the node's job with an order, the commit
//! stores the order, and a scheduler creates the run from it, on the same shard. The last commit of that run sends a
//! fact to the caller, whose job is queued again and reads the outputs.
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
    let Call { run, app, given } = call;
    cx.update(frame, node, |state| state.call = Some(Box::new(OpenCall { run, ended: false })));
    // Without an input, the run was ordered before.
    let Some(given) = given else { return true };
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
    true
}

/// Applies the end of a sub-workflow run: the job that waits for it is queued again.
pub(crate) fn ended(cx: &mut Step<'_>, it: &CallEnded) {
    let Some(state) = cx.run.node(&it.frame, it.node) else { return };
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

/// Forgets the sub-workflow run of an attempt that has ended, and stops it if it still runs.
pub(crate) fn over(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    let Some(call) = cx.run.node(frame, node).and_then(|state| state.call.as_deref()) else { return };
    let (run, ended) = (call.run, call.ended);
    cx.update(frame, node, |state| state.call = None);
    if !ended {
        cx.out.calls.get_or_insert_default().dropped.push(run);
    }
}
