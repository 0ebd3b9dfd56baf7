//! Commands that are given with the run itself: each acts when its node has ended for the first time, in whatever frame,
//! in the very step that applies the result, so that no race decides where a run stops.

use std::sync::Arc;

use tidemill_base::value::Stored;

/// A command that waits for a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Breakpoint {
    /// The id of the node, which the graph has.
    pub after: String,
    /// What happens then.
    pub command: BreakpointCommand,
}

/// What a breakpoint does.
#[derive(Debug, Clone, PartialEq)]
pub enum BreakpointCommand {
    /// The run ends.
    Stop {
        /// Why.
        reason: Arc<str>,
    },
    /// No further job is handed out; the run waits for somebody to resume it.
    Pause {
        /// Why.
        reason: Arc<str>,
    },
    /// Variables of the root frame are written: node, name, value.
    Update {
        /// Which, in this order.
        updates: Vec<(String, String, Stored)>,
    },
}
