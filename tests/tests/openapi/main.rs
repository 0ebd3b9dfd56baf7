//! Sends what the OpenAPI document allows, and what it does not allow, to a fleet with a mock model, and fails on an answer
//! that the document does not have: a 500, another status, another content type, another body. `python/fuzz.py` makes one of
//! everything first, so that requests name things that exist, runs schemathesis, and fails when too few requests went through.
//!
//! `FUZZ_SECONDS=n` (300), `FUZZ_SEED=n` (the clock; it is printed), `FUZZ_ONLY='/v1/datasets'` (a regular expression of paths).
#![allow(clippy::print_stdout, reason = "the verdict is what this program is for")]

use std::process::{Command, ExitCode};

use serde_json::json;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster};
use tidemill_tests::{llm, workspace};

/// Settings that keep requests short, and let wrong keys be tried.
const SETTINGS: [(&str, &str); 8] = [
    ("scheduler.secret_key", "a secret of the fuzz test"),
    ("scheduler.wrong_keys_max", "1000000"),
    ("scheduler.stream_idle_seconds", "3"),
    ("scheduler.shard_lease_ms", "2000"),
    ("scheduler.shard_renew_ms", "500"),
    ("features.suggested_model", "openai/gpt-4o-mini"),
    ("features.speech_to_text", "openai/whisper-1"),
    ("features.text_to_speech", "openai/tts-1"),
];

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let Some(python) = python() else {
        println!("schemathesis cannot be installed; scripts/openapi-env.sh says why");
        return ExitCode::FAILURE;
    };
    let model = llm::rules(json!([{"match": {}, "chunks": ["The mill ", "turns."]}])).await;
    let cluster = Cluster::start(&SETTINGS, Some(&model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let mut command = Command::new(python);
    command
        .arg(workspace().join("tests/tests/openapi/python/fuzz.py"))
        .env("FUZZ_URL", format!("http://{}", scheduler.address))
        .env("FUZZ_ADMIN_KEY", ADMIN_KEY)
        .env("FUZZ_APPS", workspace().join("tests/tests/clients/apps"))
        .env("FUZZ_FOLDER", cluster.logs())
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let ended = tokio::task::spawn_blocking(move || command.status()).await;
    let status = ended.expect("the program is waited for").expect("the program starts");
    let answer = scheduler.client().get("/livez").await;
    println!("the scheduler after that: {} {}", answer.status, answer.text);
    ExitCode::from(u8::from(!status.success() || answer.status != 200))
}

/// The Python of the environment with schemathesis; `None` when it cannot be made.
fn python() -> Option<String> {
    let script = workspace().join("scripts/openapi-env.sh");
    let made = Command::new("sh").arg(script).stderr(std::process::Stdio::inherit()).output().ok()?;
    let path = String::from_utf8(made.stdout).ok()?;
    made.status.success().then(|| path.trim().to_owned())
}
