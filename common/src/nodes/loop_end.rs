//! Ends a loop: the round in which it runs is the last. It does nothing itself; the machine looks at which loop it
//! names.

use crate::ids::NodeId;
use crate::value::JsonMap;

/// Configuration of `loop-end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopEndData {
    /// The loop that it ends, which may lie further out than its own container. Without one it ends nothing.
    pub loop_id: Option<NodeId>,
}

impl LoopEndData {
    /// Reads `data` of the node. There is nothing that could be wrong with it.
    pub fn parse(data: &JsonMap) -> Self {
        let loop_id = data.get("loop_id").and_then(serde_json::Value::as_str).filter(|id| !id.is_empty());
        Self { loop_id: loop_id.map(NodeId::from) }
    }
}
