//! The model that tests talk to: the mock of `tidemill mock-llm`, inside the test's process.

use serde_json::{Value as Json, json};
use tidemill_mock_llm::rules::parse;
use tidemill_mock_llm::{MockLlm, Running};

/// Starts a model that answers by these rules.
///
/// # Panics
/// When the rules are invalid.
pub async fn rules(rules: Json) -> Running {
    let rules = parse(&rules).expect("valid rules of the mock");
    MockLlm::start(rules, ([127, 0, 0, 1], 0).into()).await.expect("a free port")
}

/// Starts a model that answers every request with these pieces, and pauses for `pause_ms` before each but the first.
pub async fn slow(pieces: &[&str], pause_ms: u64) -> Running {
    rules(json!([{"match": {}, "chunks": pieces, "chunk_delay_ms": pause_ms}])).await
}

/// A text of many numbered pieces, so that a lost or repeated piece is seen.
pub fn many_pieces(count: usize) -> Vec<String> {
    (1..=count).map(|n| format!("<{n}>")).collect()
}
