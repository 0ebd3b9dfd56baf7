//! Applies a resume command: pause commands are lifted, and nodes that wait for variables check again.

use crate::flow::pauses;
use crate::flow::values::records;
use crate::flow::{edges, end_of_run, hooks, ready};
use crate::state::pause::PauseStatus;
use crate::state::run::{PendingEnd, RunStatus};
use crate::step::{Step, step_limits};
use tidemill_workflow::nodes::{PauseKind, evaluate};

#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>) {
    if !cx.run.control.pausing.is_empty() {
        cx.run.control.pausing.clear();
        cx.out.control = true;
        // If a form still waits, the run pauses again at once and emits that.
        end_of_run::resume(cx);
    }
    check_waiting(cx);
    if cx.run.status == RunStatus::Running {
        ready::advance(cx);
    }
}

fn check_waiting(cx: &mut Step<'_>) {
    let simple = cx.run.pauses.values().filter(|pause| pause.request.kind == PauseKind::Simple);
    let simple: Vec<_> = simple.map(|pause| (pause.id.clone(), pause.frame.clone(), pause.node)).collect();
    let graph = cx.run.graph.clone();
    for (id, frame, node) in simple {
        let limits = step_limits(&cx.run.head.options);
        let Ok(result) = evaluate(graph.node(node), &cx.run.pool(&frame), &limits) else { continue };
        if result.pause.is_some() {
            continue;
        }
        // The end of an earlier node may have ended the run, and closed this pause.
        if pauses::close_pause(cx, &id, PauseStatus::Answered).is_none() {
            continue;
        }
        end_of_run::resume(cx);
        let began = edges::started(cx, &frame, node);
        cx.emit(began);
        let failed = result.failure.is_some();
        let (record, _) = records::of(cx, &frame, node, result);
        hooks::end_node(cx, &frame, node, PendingEnd { failed, record: record.into() });
    }
}
