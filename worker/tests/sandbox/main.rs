//! Tests of the sandbox with real helpers: allowed and forbidden actions, and that the worker survives every attempt.
//! The helpers are the worker's own program, confined as in production, with default settings unless a test says
//! otherwise.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod documents;
mod hostile;
mod javascript;
mod libraries;
mod network;
mod nodes;
mod ordinary;
mod speed;

use std::sync::LazyLock;

use serde_json::{Value as Json, json};
use tidemill_common::config::CodeConfig;
use tidemill_common::nodes::code::{CodeLanguage, result};
use tidemill_sandbox::helper::Host;
use tidemill_sandbox::{BuiltIn, CodeError, CodeRunner, Owner, Program};

/// Creates a sandbox with these settings.
fn sandbox(config: &CodeConfig) -> BuiltIn {
    BuiltIn::new(config, Some(Host::at(env!("CARGO_BIN_EXE_tidemill-worker"))))
}

/// Returns the result of `main`.
async fn returns(
    sandbox: &BuiltIn,
    language: CodeLanguage,
    code: &str,
    inputs: Json,
) -> Result<Json, String> {
    let printed =
        sandbox.run(Program { language, code, inputs: &inputs.to_string(), owner: Owner::default() }).await;
    let printed = printed.map_err(|CodeError(message)| message)?;
    result::read(&printed, false).map(Json::Object).map_err(|failure| failure.message)
}

async fn python(sandbox: &BuiltIn, code: &str) -> Result<Json, String> {
    returns(sandbox, CodeLanguage::Python, code, json!({})).await
}

/// Returns the error of failing code, and checks that the sandbox continues to serve.
async fn fails(sandbox: &BuiltIn, code: &str) -> String {
    let error = python(sandbox, code).await.expect_err(code);
    serves(sandbox).await;
    error
}

async fn serves(sandbox: &BuiltIn) {
    assert_eq!(python(sandbox, "def main(): return {'it': 'serves'}").await, Ok(json!({"it": "serves"})));
}

/// Settings with a short time limit.
static HASTY: LazyLock<CodeConfig> =
    LazyLock::new(|| CodeConfig { timeout_ms: 3_000, ..CodeConfig::default() });
