//! Fires breakpoints: each takes effect in the step in which its node first ends.

use super::breakpoint::BreakpointCommand;
use super::fact::{PauseCommand, UpdateVariables};
use super::{Step, end_of_run, on_pause, on_update};
use tidemill_workflow::graph::NodeIx;

/// Fires the breakpoints of a node that has ended.
pub(super) fn ended(cx: &mut Step<'_>, node: NodeIx) {
    if cx.run.head.commands.is_empty() {
        return;
    }
    let id = cx.run.graph.node(node).id.clone();
    let due: Vec<(usize, BreakpointCommand)> = cx
        .run
        .head
        .commands
        .iter()
        .enumerate()
        .filter(|(at, breakpoint)| breakpoint.after == id.as_str() && !cx.run.control.fired.contains(at))
        .map(|(at, breakpoint)| (at, breakpoint.command.clone()))
        .collect();
    for (at, command) in due {
        // A stop has ended the run: no event may follow its last one.
        if cx.run.status.is_over() {
            return;
        }
        cx.run.control.fired.insert(at);
        cx.out.control = true;
        match command {
            BreakpointCommand::Stop { reason } => end_of_run::abort(cx, &reason),
            BreakpointCommand::Pause { reason } => {
                on_pause::hold(cx, PauseCommand { reason });
            }
            BreakpointCommand::Update { updates } => {
                on_update::step(cx, UpdateVariables { updates, key: None });
            }
        }
    }
}
