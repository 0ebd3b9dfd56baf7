//! What a bare graph may leave out. Dify's editor always writes these parts, so in an export their absence is a mistake
//! and stays one. Design documents and other programs write graphs without them.

mod start_node;
#[cfg(test)]
mod tests;

use super::editor::container_start;
use super::{Form, Part, defaults};

/// The rules, in the order of their application.
pub(super) const FORMS: &[Form] = &[
    // an iteration or loop without `start_node_id`, whatever the setting for migrations says
    Form { name: "container-start", rewrite: container_start::rewrite, part: Part::Graph },
    // `mode` of a model
    Form { name: "model-mode", rewrite: defaults::model, part: Part::NodeData },
    // `context` of an llm node
    Form { name: "llm-context", rewrite: defaults::context, part: Part::NodeData },
    // the provider of a tool
    Form { name: "tool-provider", rewrite: defaults::tool_of_bare_graph, part: Part::NodeData },
    // a graph that begins at the only node without an edge to it
    Form { name: "start-node", rewrite: start_node::rewrite, part: Part::Graph },
];
