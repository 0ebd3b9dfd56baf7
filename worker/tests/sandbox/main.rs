//! The sandbox with real helpers: what code may do, what it may not, and that the worker goes on whatever it tried. The
//! helpers are the worker's own program, confined as in production; the settings are the defaults unless a test says so.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod documents;
mod hostile;
mod javascript;
mod nodes;
mod ordinary;
mod speed;

use std::sync::LazyLock;

use serde_json::{Value as Json, json};
use tidemill_common::config::CodeConfig;
use tidemill_common::nodes::code::{CodeLanguage, result};
use tidemill_sandbox::helper::Host;
use tidemill_sandbox::{BuiltIn, CodeError, CodeRunner, Program};

/// A sandbox by the settings.
fn sandbox(config: &CodeConfig) -> BuiltIn {
    BuiltIn::new(config, Some(Host::at(env!("CARGO_BIN_EXE_tidemill-worker"))))
}

/// What `main` returned.
async fn returns(
    sandbox: &BuiltIn,
    language: CodeLanguage,
    code: &str,
    inputs: Json,
) -> Result<Json, String> {
    let printed = sandbox.run(Program { language, code, inputs: &inputs.to_string() }).await;
    let printed = printed.map_err(|CodeError(message)| message)?;
    result::read(&printed).map(Json::Object).map_err(|failure| failure.message)
}

async fn python(sandbox: &BuiltIn, code: &str) -> Result<Json, String> {
    returns(sandbox, CodeLanguage::Python, code, json!({})).await
}

/// The error of code that must fail; then that the sandbox serves on.
async fn fails(sandbox: &BuiltIn, code: &str) -> String {
    let error = python(sandbox, code).await.expect_err(code);
    serves(sandbox).await;
    error
}

async fn serves(sandbox: &BuiltIn) {
    assert_eq!(python(sandbox, "def main(): return {'it': 'serves'}").await, Ok(json!({"it": "serves"})));
}

/// Settings under which nobody waits long for what does not end.
static HASTY: LazyLock<CodeConfig> =
    LazyLock::new(|| CodeConfig { timeout_ms: 3_000, ..CodeConfig::default() });
