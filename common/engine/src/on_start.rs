//! The run begins: what it was given is its own now, and its root is ready.

use super::events::EventKind;
use super::run::{RunHead, RunStatus};
use super::{Step, drive, edges, end_of_run, objects, response};
use tidemill_base::ids::FramePath;

/// `head` is what the run was given, unless it has it already.
#[inline(never)]
pub(super) fn step(cx: &mut Step<'_>, head: Option<RunHead>) {
    if cx.run.status != RunStatus::Scheduled {
        return;
    }
    if let Some(head) = head {
        cx.run.head = head;
    }
    cx.out.status_from = Some(RunStatus::Scheduled);
    cx.run.status = RunStatus::Running;
    cx.run.started_at = Some(cx.at.now);
    end_of_run::set_deadline(cx);
    objects::begin(cx);
    let caller = cx.run.head.caller.as_ref().map(|caller| caller.run);
    cx.tell(EventKind::GraphRunStarted { resumed: false, caller });
    // Fixed text that nothing stands before is shown before the first node runs, as on Dify.
    response::open(cx);
    cx.close_entry();
    // Nobody was there to begin it in time.
    if !end_of_run::meets_deadline(cx) {
        return;
    }
    let root = cx.run.root();
    edges::skip_other_roots(cx, root);
    drive::make_ready(cx, &FramePath::root(), root);
    drive::drive(cx);
}
