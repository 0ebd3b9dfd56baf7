//! The usage of a model call: its tokens, and their cost.

use tidemill_base::value::JsonMap;

/// Tokens and prices of model calls. Prices are decimal texts, in Dify's format.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub total_tokens: u64,
    /// Price of prompt and completion.
    pub total_price: String,
    /// The whole usage object, shown as `outputs.usage`.
    pub record: JsonMap,
    pub currency: String,
}

impl Usage {
    /// Reads the counters from a usage object and keeps the object.
    pub fn from_record(record: JsonMap) -> Self {
        let count = |key: &str| record.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0);
        let text = |key: &str, default: &str| {
            record.get(key).and_then(serde_json::Value::as_str).unwrap_or(default).to_string()
        };
        Self {
            prompt_tokens: count("prompt_tokens"),
            completion_tokens: count("completion_tokens"),
            total_tokens: count("total_tokens"),
            total_price: text("total_price", "0.0"),
            currency: text("currency", "USD"),
            record,
        }
    }
}

impl Usage {
    /// True when something was spent, failed tries included.
    pub fn is_any(&self) -> bool {
        self.total_tokens > 0 || self.record.contains_key(WASTED)
    }
}

/// The key in a usage object for what a sub-workflow run spent on unusable replies: `total_tokens`, `total_price`,
/// `currency`. The other counters exclude it.
pub const WASTED: &str = "wasted";

/// A paid reply that the node could not use. It counts against budgets and is in the ledger, but not in the run's
/// totals: Dify's totals exclude it too.
#[derive(Debug, Clone, PartialEq)]
pub struct Wasted {
    /// The provider, as the workflow names it.
    pub provider: String,
    pub model: String,
    pub usage: Usage,
}
