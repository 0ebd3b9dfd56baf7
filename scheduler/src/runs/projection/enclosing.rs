//! The containers around a node, as Dify shows them: the innermost iteration and the innermost loop. Both follow from
//! the path of the frame: `it#3/lp#0` is round 0 of loop `lp` within item 3 of iteration `it`.

use serde_json::{Value as Json, json};
use tidemill_common::graph::Graph;
use tidemill_common::nodes::NodeKind;
use tidemill_common::value::JsonMap;
use tidemill_common::wire::event::EventRecord;

use crate::runs::projection::text;

/// A container around a node, and the index of its item or round.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Around {
    node: String,
    index: u64,
}

/// The containers around a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EnclosingContainers {
    iteration: Option<Around>,
    within_loop: Option<Around>,
}

impl EnclosingContainers {
    /// The containers around the node that an event is about.
    pub(super) fn of(record: &EventRecord, graph: &Graph) -> Self {
        let mut containers = Self::default();
        for part in text(record, "frame").split('/') {
            let Some((node, index)) = part.rsplit_once('#') else { continue };
            let Some(kind) = graph.find(node).map(|ix| graph.node(ix).kind) else { continue };
            let around = Around { node: node.to_string(), index: index.parse().unwrap_or(0) };
            // Later parts of the path are inner containers.
            if kind == NodeKind::Iteration {
                containers.iteration = Some(around);
            } else if kind == NodeKind::Loop {
                containers.within_loop = Some(around);
            }
        }
        containers
    }

    pub(super) fn iteration_id(&self) -> Json {
        self.iteration.as_ref().map_or(Json::Null, |around| around.node.as_str().into())
    }

    pub(super) fn loop_id(&self) -> Json {
        self.within_loop.as_ref().map_or(Json::Null, |around| around.node.as_str().into())
    }

    /// Adds them to a node's metadata. Returns null when both are empty.
    pub(super) fn added_to(&self, metadata: Json) -> Json {
        let mut map = match metadata {
            Json::Object(map) => map,
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => JsonMap::new(),
        };
        for (around, id, index) in [
            (&self.iteration, "iteration_id", "iteration_index"),
            (&self.within_loop, "loop_id", "loop_index"),
        ] {
            if let Some(around) = around {
                map.insert(id.into(), json!(around.node));
                map.insert(index.into(), json!(around.index));
            }
        }
        if map.is_empty() { Json::Null } else { Json::Object(map) }
    }
}
