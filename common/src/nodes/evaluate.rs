//! One door to every pure node: the scheduler's step and the workers call the same code.

use super::{NodeData, NodeResult};
use crate::graph::Node;
use crate::value::Variables;

/// What a Jinja template does with a name it does not know (switch `template_undefined`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UndefinedNames {
    /// Empty text, as on Dify's service.
    #[default]
    Empty,
    /// An error, as bare graphon does.
    Strict,
}

/// How much a pure node may do where it is evaluated, and the switches that change what it does.
#[derive(Debug, Clone)]
pub struct EvaluationLimits {
    /// Unknown names in Jinja templates.
    pub undefined: UndefinedNames,
    /// Longest output of a template, in characters (`TEMPLATE_TRANSFORM_MAX_LENGTH`).
    pub template_chars_max: usize,
    /// Jinja's fuel; above it the node is deferred. None: no limit.
    pub fuel: Option<u64>,
    /// Bytes of output above which the node is deferred. None: no limit.
    pub output_bytes: Option<usize>,
}

/// The node needs more than the limits allow here; a worker runs it instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deferred;

/// Evaluates a pure node. A failure of the node is part of its result.
///
/// # Errors
/// [`Deferred`] when fuel or output size passed the limits.
pub fn evaluate(
    node: &Node,
    variables: &dyn Variables,
    limits: &EvaluationLimits,
) -> Result<NodeResult, Deferred> {
    match &node.data {
        NodeData::Start(data) => Ok(data.evaluate(node, variables)),
        NodeData::End(data) => Ok(data.evaluate(variables)),
        NodeData::Answer(data) => Ok(data.evaluate(variables)),
        NodeData::IfElse(data) => Ok(data.evaluate(variables)),
        NodeData::TemplateTransform(data) => data.evaluate(variables, limits),
        NodeData::VariableAggregator(data) => Ok(data.evaluate(variables)),
        NodeData::Llm(_) | NodeData::Unsupported(_) => {
            Ok(NodeResult::failed(crate::failure::NodeFailure::new(
                "EngineError",
                format!("node type {} is not evaluated in place", node.kind.wire()),
            )))
        }
    }
}
