//! Runs, events, commands, forms, snapshots.

use futures_util::StreamExt;
use serde_json::{Value as Json, json};
use tidemill_embed::{Command, EmbedError, Inputs, Outcome, Times};

use crate::{ASK, GREET, engine, until};

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
    assert_eq!(run.show().await.unwrap()["outputs"]["given"], "17");
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

#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_a_run_is_its_outcome_or_its_pauses() {
    let engine = engine().await;
    let run = engine.run(GREET, Inputs::new().input("name", "Ada")).await.expect("the run starts");
    let Outcome::Succeeded { outputs, exceptions: 0 } = run.result().await.expect("it ends") else {
        panic!("it does not succeed")
    };
    assert_eq!(outputs["text"], "Good morning, Ada");

    let run = engine.run(ASK, Inputs::new()).await.expect("the run starts");
    let Outcome::Paused { pauses, .. } = run.result().await.expect("it waits") else {
        panic!("it does not wait")
    };
    let pause = pauses[0]["pause_id"].as_str().expect("a pause has an id");
    run.answer(pause, &json!({"input": 3})).await.expect("the answer fits");
    let Outcome::Succeeded { outputs, .. } = run.result().await.expect("it ends") else {
        panic!("the result is the pause that was answered")
    };
    assert_eq!(outputs["given"], "3");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_a_stream_that_begins_at_the_first_one_and_ends_after_the_last_one() {
    let engine = engine().await;
    let run = engine.run(GREET, Inputs::new().input("name", "Ada")).await.expect("the run starts");
    let live: Vec<_> =
        run.events().await.expect("events").map(|event| event.expect("readable")).collect().await;
    let again: Vec<_> =
        run.events().await.expect("events").map(|event| event.expect("readable")).collect().await;
    assert_eq!(live, again);
    assert_eq!(
        live.iter().map(|event| event.seq).collect::<Vec<_>>(),
        (1..=live.len() as u64).collect::<Vec<_>>()
    );
    assert!(live.last().is_some_and(|event| event.is_last()));
    let greeted =
        live.iter().find(|event| event.kind == "node_run_succeeded" && event.data["node_id"] == "greet");
    let document = greeted.expect("the node has an end").document(Times::Iso);
    assert_eq!(document["data"]["node_run_result"]["outputs"]["output"], "Good morning, Ada");
    assert!(document["data"]["start_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{document}");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_after_a_command_to_resume_is_the_end() {
    let engine = engine().await;
    for _ in 0..10 {
        let pause = json!([{"after": "start", "command": "pause"}]);
        let inputs = Inputs::new().input("name", "Ada").field("commands", pause);
        let run = engine.run(GREET, inputs).await.expect("the run starts");
        let Outcome::Paused { pauses, .. } = run.result().await.expect("it waits") else {
            panic!("no pause")
        };
        assert!(pauses.is_empty(), "{pauses:?}");
        run.send(Command::Resume).await.expect("it can be resumed");
        assert!(matches!(run.result().await.expect("it ends"), Outcome::Succeeded { .. }));
    }
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_a_run_that_pauses_again_after_a_resume_is_the_second_pause() {
    let engine = engine().await;
    let pauses = json!([{"after": "start", "command": "pause"}, {"after": "greet", "command": "pause"}]);
    let inputs = Inputs::new().input("name", "Ada").field("commands", pauses);
    let run = engine.run(GREET, inputs).await.expect("the run starts");
    assert!(matches!(run.result().await.expect("it waits"), Outcome::Paused { .. }));
    run.send(Command::Resume).await.expect("it can be resumed");
    let mut events = run.events().await.expect("events");
    let mut paused = 0;
    while paused < 2 {
        let event = events.next().await.expect("readable").expect("a second pause comes");
        paused += u32::from(event.kind == "graph_run_paused");
    }
    // The command has taken effect before anybody asked for the result.
    assert!(matches!(run.result().await.expect("it waits again"), Outcome::Paused { .. }));
    run.send(Command::Resume).await.expect("it can be resumed");
    assert!(matches!(run.result().await.expect("it ends"), Outcome::Succeeded { .. }));
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_pauses_a_run_changes_its_variables_and_lets_it_go_on() {
    let engine = engine().await;
    let run = engine.run(ASK, Inputs::new()).await.expect("the run starts");
    until(&run, "graph_run_paused").await;
    let values = json!({"ask.content": 5}).as_object().cloned().expect("a map");
    run.send(Command::Update(values)).await.expect("variables can be set");
    until(&run, "graph_run_variables_updated").await;
    run.send(Command::Pause { reason: "later".into() }).await.expect("it can be paused");
    run.send(Command::Resume).await.expect("it can be resumed");
    assert_eq!(run.show().await.unwrap()["status"], "paused", "its question is still open");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_when_the_engine_stops_or_is_dropped() {
    for is_stopped in [true, false] {
        let engine = engine().await;
        let run = engine.run(ASK, Inputs::new()).await.expect("the run starts");
        until(&run, "graph_run_paused").await;
        let mut events = run.events().await.expect("events");
        let ended = tokio::spawn(async move { while events.next().await.expect("readable").is_some() {} });
        if is_stopped {
            engine.stop().await
        } else {
            drop(engine)
        }
        let within = std::time::Duration::from_secs(20);
        tokio::time::timeout(within, ended).await.expect("the stream ends").expect("without a panic");
    }
}
