//! Breakpoints: commands that are submitted with a run. Each takes effect when its node has ended for the first time,
//! in any frame, in the step that applies the end. So no race decides where a run stops.

use std::sync::Arc;

use tidemill_base::value::Stored;

/// A command that waits for a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Breakpoint {
    /// The id of a node of the graph.
    pub after: String,
    /// The command that takes effect then.
    pub command: BreakpointCommand,
}

/// The command of a breakpoint.
#[derive(Debug, Clone, PartialEq)]
pub enum BreakpointCommand {
    /// Stop the run.
    Stop { reason: Arc<str> },
    /// Pause the run: nothing new begins until a resume command.
    Pause { reason: Arc<str> },
    /// Write variables of the root frame.
    Update {
        /// (node, name, value), in this order.
        updates: Vec<(String, String, Stored)>,
    },
}
