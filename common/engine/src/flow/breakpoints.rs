//! Fires breakpoints: each takes effect in the step in which its node first ends.

use crate::fact::{PauseCommand, UpdateVariables};
use crate::flow::values::variables;
use crate::flow::{end_of_run, hold};
use crate::state::options::breakpoint::BreakpointCommand;
use crate::step::Step;
use tidemill_workflow::graph::NodeIx;

/// Fires the breakpoints of a node that has ended.
pub(crate) fn ended(cx: &mut Step<'_>, node: NodeIx) {
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
                hold::hold(cx, PauseCommand { reason });
            }
            BreakpointCommand::Update { updates } => {
                variables::update(cx, UpdateVariables { updates, key: None });
            }
        }
    }
}
