//! A model call: its configuration. The call itself is in the worker.

use crate::dsl::Problems;
use crate::value::JsonMap;

/// Configuration of `llm`.
#[derive(Debug, Clone)]
pub struct LlmData {}

impl LlmData {
    /// Reads `data` of the node; reports what is wrong and returns nothing when it cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        let _ = (data, problems);
        Some(Self {})
    }
    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        let _ = into;
    }
}
