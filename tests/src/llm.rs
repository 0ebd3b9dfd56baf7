//! The model that tests talk to: the mock of `tidemill mock-llm`, in the test's own process.

use serde_json::{Value as Json, json};
use tidemill_mock_llm::rules::parse;
use tidemill_mock_llm::{MockLlm, Running};

/// Answers by these rules.
///
/// # Panics
/// When they are none.
pub async fn rules(rules: Json) -> Running {
    let rules = parse(&rules).expect("rules as the mock takes them");
    MockLlm::start(rules, ([127, 0, 0, 1], 0).into()).await.expect("a free port")
}

/// Answers everything with these pieces, with a pause of so many milliseconds before each but the first.
pub async fn slow(pieces: &[&str], pause_ms: u64) -> Running {
    rules(json!([{"match": {}, "chunks": pieces, "chunk_delay_ms": pause_ms}])).await
}

/// A text of many pieces, numbered, so that a lost or repeated one shows.
pub fn many_pieces(count: usize) -> Vec<String> {
    (1..=count).map(|n| format!("<{n}>")).collect()
}
