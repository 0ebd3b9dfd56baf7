//! Puts a pause command into effect: nothing new begins, and queued jobs are taken back.

use crate::fact::PauseCommand;
use crate::flow::{ready, timeouts};
use crate::state::run::NodeStatus;
use crate::step::Step;
use tidemill_base::ids::FramePath;
use tidemill_workflow::graph::NodeIx;

/// Puts the command into effect, and takes queued jobs back.
pub(crate) fn hold(cx: &mut Step<'_>, it: PauseCommand) {
    cx.run.control.pausing.push(it.reason);
    cx.out.control = true;
    for (frame, node) in queued(cx) {
        take_back(cx, &frame, node);
    }
}

fn queued(cx: &Step<'_>) -> Vec<(FramePath, NodeIx)> {
    let of_frame = |(path, frame): (&FramePath, &crate::state::run::Frame)| {
        let waits = |(at, node): (usize, &crate::state::run::NodeState)| {
            (node.status == NodeStatus::Queued)
                .then(|| (path.clone(), NodeIx(u32::try_from(at).unwrap_or(u32::MAX))))
        };
        frame.nodes.iter().enumerate().filter_map(waits).collect::<Vec<_>>()
    };
    cx.run.frames.iter().flat_map(of_frame).collect()
}

/// Makes the node ready again, as if its job had never existed.
fn take_back(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    timeouts::take_back(cx, frame, node);
    let attempt = cx.run.node(frame, node).map_or(1, |n| n.attempt);
    timeouts::over(cx, frame, node, attempt);
    cx.update(frame, node, |state| {
        state.job = None;
        if !state.is_between() {
            state.attempt = state.attempt.saturating_sub(1);
        }
    });
    ready::make_ready(cx, frame, node);
}
