//! Evaluates any pure node. The scheduler's step and the workers both call this code.

use super::{NodeData, NodeResult, Phase};
use crate::nodes::node::Node;
use tidemill_base::failure::{EngineErrorType, NodeFailure};
use tidemill_base::value::Variables;

pub use tidemill_base::value::jinja::UndefinedNames;

/// Limits for a pure node at the place of evaluation, and switches that change its behaviour.
#[derive(Debug, Clone)]
pub struct EvaluationLimits {
    /// Unknown names in Jinja templates.
    pub undefined: UndefinedNames,
    /// Whether a missing file of a webhook is the mapping of all files, as on Dify.
    pub missing_file_is_all: bool,
    /// Longest output of a template, in characters (`TEMPLATE_TRANSFORM_MAX_LENGTH`).
    pub template_chars_max: usize,
    /// Fuel for Jinja; a node that needs more is deferred. `None`: no limit.
    pub fuel: Option<u64>,
    /// Bytes of output above which the node is deferred. `None`: no limit.
    pub output_bytes: Option<usize>,
}

/// The node needs more than the limits allow here, so a worker must run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deferred;

/// Evaluates a pure node. A failure of the node is part of its result.
///
/// # Errors
/// [`Deferred`] when fuel or output size exceeds the limits. The partial work is lost; the limits bound it.
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
        NodeData::Assigner(data) => Ok(data.evaluate(variables)),
        NodeData::ListOperator(data) => Ok(data.evaluate(variables)),
        NodeData::HumanInput(data) => Ok(data.evaluate(node, variables)),
        NodeData::UserInteraction(data) => Ok(data.evaluate(variables)),
        NodeData::Datasource(data) => Ok(data.evaluate(variables)),
        NodeData::ContextProcessor(data) => Ok(data.evaluate(variables)),
        NodeData::TriggerWebhook(data) => {
            Ok(data.evaluate(node.id.as_str(), variables, limits.missing_file_is_all))
        }
        NodeData::TriggerSchedule(data) => Ok(data.evaluate(node.id.as_str(), variables)),
        NodeData::TriggerPlugin(data) => Ok(data.evaluate(node.id.as_str(), variables)),
        NodeData::Choice(data) => Ok(data.evaluate(variables)),
        NodeData::IterationStart | NodeData::LoopStart | NodeData::LoopEnd => Ok(NodeResult::default()),
        NodeData::Llm(_)
        | NodeData::ProfileLlm(_)
        | NodeData::QuestionClassifier(_)
        | NodeData::ParameterExtractor(_)
        | NodeData::HttpRequest(_)
        | NodeData::Tool(_)
        | NodeData::Agent(_)
        | NodeData::Code(_)
        | NodeData::DocumentExtractor(_)
        | NodeData::Iteration(_)
        | NodeData::Loop(_)
        | NodeData::KnowledgeIndex(_)
        | NodeData::Moderation(_)
        | NodeData::Speech(_)
        | NodeData::Step(_)
        | NodeData::KnowledgeRetrieval(_) => {
            Ok(misplaced(format!("node type {} is not evaluated in place", node.kind.wire())))
        }
    }?;
    let too_large = limits.output_bytes.is_some_and(|max| !fits(&result, max));
    if too_large { Err(Deferred) } else { Ok(result) }
}

/// Evaluates one phase of a container; see [`Phase`]. The body between two phases runs elsewhere.
///
/// An iteration opens with its list as the output `items`. It collects pages of outcomes, stored under its id as `#0`,
/// `#1` and so on ([`super::iteration::Outcome`]). A loop opens with its variables as outputs. On opening and after
/// each round the handle says whether the loop breaks ([`super::loop_::BREAK_HANDLE`]). A failure is part of the
/// result. Other nodes, and phases that the container does not have, fail with `EngineError`.
pub fn evaluate_phase(node: &Node, phase: Phase, variables: &dyn Variables) -> NodeResult {
    let id = node.id.as_str();
    let result = if let NodeData::Iteration(data) = &node.data {
        match phase {
            Phase::Open => Some(data.open(variables)),
            Phase::Check => None,
            Phase::Collect => Some(data.collect_pages(id, variables)),
        }
    } else if let NodeData::Loop(data) = &node.data {
        match phase {
            Phase::Open => Some(data.open(id, variables)),
            Phase::Check => Some(data.check(variables)),
            Phase::Collect => None,
        }
    } else {
        None
    };
    result.unwrap_or_else(|| misplaced(format!("node type {} has no phase {phase:?}", node.kind.wire())))
}

fn misplaced(message: String) -> NodeResult {
    NodeResult::failed(NodeFailure::new(EngineErrorType::Engine.name(), message))
}

/// True when the JSON of outputs and updates has at most `bytes_max` bytes. Stops counting once it has more.
fn fits(result: &NodeResult, bytes_max: usize) -> bool {
    let mut left = BoundedWriter(bytes_max);
    let outputs = result.outputs.iter().map(|(_, segment)| segment);
    let updates = result.updates.iter().map(|update| &update.value);
    outputs.chain(updates).all(|segment| serde_json::to_writer(&mut left, &segment.value).is_ok())
}

/// A writer that discards its input and fails when that exceeds the remaining bytes.
struct BoundedWriter(usize);

impl std::io::Write for BoundedWriter {
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
    use tidemill_base::value::Segment;

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
