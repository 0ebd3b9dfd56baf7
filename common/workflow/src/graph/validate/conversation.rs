//! Writes to conversation variables inside parallel iterations. Operations of all items count (`append`, `+=` and so on).
//! A write that replaces the value is legal, but only that of the item that ends last stays.

use super::Report;
use crate::graph::containers::Parent;
use crate::graph::draft::Draft;
use crate::nodes::NodeData;
use tidemill_base::limits::CONTAINER_DEPTH_MAX;

/// A write of which only the last one stays.
pub(super) const LAST_WRITE_WINS: &str = "conversation.last_write_wins";

const CONVERSATION: &str = "conversation";

/// Warns about assigners in a parallel iteration that replace a conversation variable.
pub(super) fn items_do_not_replace(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, node) in draft.nodes.iter().enumerate() {
        let Some(NodeData::Assigner(assigner)) = &node.data else { continue };
        let Some(iteration) = parallel_around(draft, at) else { continue };
        let around = &draft.nodes[iteration].source.id;
        for (place, target, operation) in assigner.replacing() {
            let [CONVERSATION, name] = target.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
                continue;
            };
            let message = format!(
                "{operation} replaces the conversation variable {name:?} in each item of the parallel iteration \
                 {around:?}: only the write of the item that ends last stays"
            );
            let hint = "append, extend, += and the like of all items count; or write after the iteration, from its output";
            report.node_warning(draft, at, &format!("data.{place}"), message, hint);
        }
    }
}

/// The innermost iteration around a node whose items run in parallel.
fn parallel_around(draft: &Draft<'_>, at: usize) -> Option<usize> {
    let mut around = draft.parents[at];
    for _ in 0..=CONTAINER_DEPTH_MAX {
        let Parent::In(container) = around else { return None };
        match &draft.nodes[container].data {
            Some(NodeData::Iteration(data)) if data.window > 1 => return Some(container),
            _ => around = draft.parents[container],
        }
    }
    None
}
