//! Begins a run: takes over what was submitted, and makes the start node ready.

use crate::flow::values::messages;
use crate::flow::{clock, edges, ready, response, time_limit, warnings};
use crate::order::events::EventKind;
use crate::state::run::{RunHead, RunStatus};
use crate::step::Step;
use tidemill_base::ids::FramePath;

/// `head` is `None` when the run was created with its head.
#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>, head: Option<RunHead>) {
    if cx.run.status != RunStatus::Scheduled {
        return;
    }
    if let Some(head) = head {
        cx.run.head = head;
    }
    cx.set_run_status(RunStatus::Running);
    clock::begin(cx);
    time_limit::set(cx);
    messages::begin(cx);
    let caller = cx.run.head.caller.as_ref().map(|caller| caller.run);
    cx.emit(EventKind::GraphRunStarted { resumed: false, caller });
    warnings::begin(cx);
    // Fixed text at the beginning of an answer is sent before the first node runs, as on Dify.
    response::open(cx);
    cx.close_entry();
    // The run has waited so long that its deadline has passed before it began.
    if !time_limit::meets_deadline(cx) {
        return;
    }
    let root = cx.run.root();
    edges::skip_other_roots(cx, root);
    ready::make_ready(cx, &FramePath::root(), root);
    ready::advance(cx);
}
