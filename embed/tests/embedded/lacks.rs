//! An engine in a program that is not `tidemill`, on a machine without it.

use std::process::Command;

use tidemill_embed::{EmbedError, Engine, EngineConfig, Inputs, Outcome};

use crate::engine;

const CODE: &str = "
app: {mode: workflow, name: Code}
kind: app
version: 0.6.0
workflow:
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: []}}
    - id: code
      data: {type: code, title: Code, code_language: javascript, code: 'function main() { return {n: 1} }', variables: [], outputs: {n: {type: number}}}
    - {id: end, data: {type: end, title: End, outputs: [{variable: n, value_selector: [code, n]}]}}
    edges: [{source: start, target: code}, {source: code, target: end}]
";

/// Runs in a process of its own, because its environment has no `PATH`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs in a process without PATH, which `an_engine_says_which_nodes_it_cannot_run…` starts"]
async fn without_the_tidemill_program_code_nodes_fail_with_the_reason() {
    let engine = engine().await;
    let types: Vec<_> = engine.lacks().iter().map(|lack| lack.node_type).collect();
    assert_eq!(types, ["code", "code", "document-extractor"], "{:?}", engine.lacks());
    let said = engine.lacks()[0].to_string();
    assert!(said.contains("the tidemill program was not found"), "{said}");
    let run = engine.run(CODE, Inputs::new()).await.expect("the run starts");
    let Outcome::Failed { error } = run.result().await.expect("it ends") else { panic!("it succeeds") };
    assert!(error.contains("need the tidemill program as a helper"), "{error}");
    engine.stop().await;
}

#[test]
fn an_engine_says_which_nodes_it_cannot_run_and_they_fail_with_the_reason() {
    let name = "lacks::without_the_tidemill_program_code_nodes_fail_with_the_reason";
    let program = std::env::current_exe().expect("this program has a path");
    let ran = Command::new(program)
        .args([name, "--exact", "--ignored"])
        .env("PATH", "")
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_program_that_is_not_there_is_refused_at_the_start() {
    let config = EngineConfig { tidemill: Some("/nowhere/tidemill".into()), ..EngineConfig::default() };
    let refused = Engine::create(config).await.err().expect("it starts");
    assert!(matches!(&refused, EmbedError::NoHelper(path) if path.ends_with("tidemill")), "{refused}");
}
