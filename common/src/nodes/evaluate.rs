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
/// [`Deferred`] when fuel or output size passed the limits. The work done so far is lost, and bounded by them.
pub fn evaluate(
    node: &Node,
    variables: &dyn Variables,
    limits: &EvaluationLimits,
) -> Result<NodeResult, Deferred> {
    let result = match &node.data {
        NodeData::Start(data) => Ok(data.evaluate(node, variables)),
        NodeData::End(data) => Ok(data.evaluate(variables)),
        NodeData::Answer(data) => Ok(data.evaluate(variables)),
        NodeData::IfElse(data) => Ok(data.evaluate(variables)),
        NodeData::TemplateTransform(data) => data.evaluate(variables, limits),
        NodeData::VariableAggregator(data) => Ok(data.evaluate(variables)),
        NodeData::HumanInput(data) => Ok(data.evaluate(node, variables)),
        NodeData::Llm(_) | NodeData::Unsupported(_) => {
            Ok(NodeResult::failed(crate::failure::NodeFailure::new(
                "EngineError",
                format!("node type {} is not evaluated in place", node.kind.wire()),
            )))
        }
    }?;
    let too_large = limits.output_bytes.is_some_and(|max| !fits(&result, max));
    if too_large { Err(Deferred) } else { Ok(result) }
}

/// Whether the outputs' JSON has at most so many bytes. Counting stops where it is clear.
fn fits(result: &NodeResult, bytes_max: usize) -> bool {
    let mut left = Room(bytes_max);
    result.outputs.iter().all(|(_, segment)| serde_json::to_writer(&mut left, &segment.value).is_ok())
}

/// A writer that keeps nothing and fails when more is written than it has room for.
struct Room(usize);

impl std::io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::WriteZero)?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Segment;

    #[test]
    fn outputs_are_measured_as_json_and_together() {
        let result = NodeResult::outputs(vec![
            ("a".into(), Segment::string("four")),
            ("b".into(), Segment::infer(serde_json::json!([1, 2]))),
        ]);
        assert!(fits(&result, 11));
        assert!(!fits(&result, 10));
    }
}
