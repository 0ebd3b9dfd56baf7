//! An embedded engine: runs, events, commands, forms, snapshots.

use serde_json::{Value as Json, json};
use tidemill_embed::{Command, EmbedError, Engine, EngineConfig, Inputs, Run};

const GREET: &str = "
app: {mode: workflow, name: Greet}
kind: app
version: 0.6.0
workflow:
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: [{variable: name, label: Name, type: text-input, required: true}]}}
    - id: greet
      data: {type: template-transform, title: Greet, template: 'Good morning, {{ name }}', variables: [{variable: name, value_selector: [start, name]}]}
    - {id: end, data: {type: end, title: End, outputs: [{variable: text, value_selector: [greet, output]}]}}
    edges: [{source: start, target: greet}, {source: greet, target: end}]
";

const ASK: &str = "
app: {mode: workflow, name: Ask}
kind: app
version: 0.6.0
workflow:
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: []}}
    - id: ask
      data: {type: user-interaction, title: Ask, interaction_type: ask_for_input, show_message: How many?, input_schema: {type: integer}}
    - {id: end, data: {type: end, title: End, outputs: [{variable: given, value_selector: [ask, content]}]}}
    edges: [{source: start, target: ask}, {source: ask, target: end}]
";

async fn engine() -> Engine {
    Engine::create(EngineConfig::default()).await.expect("an engine starts")
}

/// Follows a run to an event of this type, and returns the types so far.
async fn until(run: &Run, kind: &str) -> Vec<String> {
    let mut events = run.events().await.expect("the run has events");
    let mut kinds = Vec::new();
    while let Some(event) = events.next().await.expect("events can be read") {
        kinds.push(event.kind);
        if kinds.last().is_some_and(|last| last == kind) {
            return kinds;
        }
    }
    panic!("the stream ended before {kind}: {kinds:?}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_gives_its_events_and_its_outputs() {
    let engine = engine().await;
    let run = engine.run(GREET, Inputs::new().input("name", "Ada")).await.expect("the run starts");
    let kinds = until(&run, "graph_run_succeeded").await;
    assert_eq!(kinds.first().map(String::as_str), Some("graph_run_started"), "{kinds:?}");
    assert_eq!(run.show().await.unwrap()["outputs"]["text"], "Good morning, Ada");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_is_refused_with_its_place() {
    let engine = engine().await;
    let Err(EmbedError::Refused { code, diagnostics, .. }) = engine.run("kind: app", Inputs::new()).await
    else {
        panic!("a file without a workflow is not refused")
    };
    assert_eq!(code, "invalid_workflow");
    assert!(!diagnostics.is_empty());
    let Err(EmbedError::Refused { message, .. }) = engine.run(GREET, Inputs::new()).await else {
        panic!("a missing input is not refused")
    };
    assert!(message.contains("name"), "{message}");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_goes_on_from_its_snapshot_in_another_engine() {
    let first = engine().await;
    let run = first.run(ASK, Inputs::new()).await.expect("the run starts");
    until(&run, "graph_run_paused").await;
    let snapshot: Json = run.snapshot().await.expect("a waiting run has a snapshot");
    first.stop().await;

    let second = engine().await;
    let run = second.resume(&snapshot).await.expect("the snapshot is taken");
    until(&run, "graph_run_paused").await;
    let pause = run.pauses().await.unwrap()[0]["pause_id"].as_str().expect("a pause has an id").to_owned();
    run.answer(&pause, &json!({"input": 17})).await.expect("the answer fits");
    until(&run, "graph_run_succeeded").await;
    assert_eq!(run.show().await.unwrap()["outputs"]["given"], 17);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_stops_a_run() {
    let engine = engine().await;
    let run = engine.run(ASK, Inputs::new()).await.expect("the run starts");
    until(&run, "graph_run_paused").await;
    run.send(Command::Stop { reason: "enough".into() }).await.expect("a waiting run can be stopped");
    until(&run, "graph_run_aborted").await;
    assert_eq!(run.show().await.unwrap()["status"], "stopped");
    let again = run.send(Command::Stop { reason: "again".into() }).await;
    assert!(matches!(again, Err(EmbedError::Refused { code, .. }) if code == "run_over"));
    engine.stop().await;
}
