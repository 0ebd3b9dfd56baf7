//! Text from values.

use super::NodeResult;
use crate::dsl::Problems;
use crate::value::{JsonMap, Variables};

/// Configuration of `template-transform`.
#[derive(Debug, Clone)]
pub struct TemplateTransformData {}

impl TemplateTransformData {
    /// Reads `data` of the node; reports what is wrong and returns nothing when it cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let _ = (data, problems);
        Some(Self {})
    }
    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        let _ = into;
    }
    /// Runs the node.
    pub fn evaluate(
        &self,
        variables: &dyn Variables,
        limits: &super::EvaluationLimits,
    ) -> Result<NodeResult, super::Deferred> {
        let _ = (variables, limits);
        Ok(NodeResult::default())
    }
}
