//! Runs in this process, answered by a person who types.

use clap::Parser;

use super::{Arguments, perform};
use crate::console::tests::captured_with;
use crate::error::{Error, Exit};

/// Asks for a number.
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

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    run: Arguments,
}

/// Runs a command line with these answers; returns exit code, standard output and standard error.
async fn run(line: &[&str], answers: &[&str]) -> (Exit, String, String) {
    let (mut console, out, err) = captured_with(answers);
    let line = Line::parse_from(std::iter::once(&"run").chain(line));
    let exit = perform(&line.run, &mut console).await.unwrap_or_else(|error| panic!("{error}"));
    (exit, out.text(), err.text())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_asked_at_the_terminal_and_the_run_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ask.yml");
    std::fs::write(&file, ASK).expect("writes");
    let file = file.to_str().expect("a text");
    let (exit, out, err) = run(&[file], &["7"]).await;
    assert_eq!((exit, out.as_str()), (Exit::Succeeded, "given: 7\n"), "{err}");
    assert!(err.contains("How many?"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_answer_the_run_is_kept_and_asks_again_when_it_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, kept) = (folder.path().join("ask.yml"), folder.path().join("kept.json"));
    std::fs::write(&file, ASK).expect("writes");
    let (file, kept) = (file.to_str().expect("a text"), kept.to_str().expect("a text"));
    let (exit, _, err) = run(&[file, "--keep", kept], &[]).await;
    assert_eq!(exit, Exit::Waiting, "{err}");
    assert!(err.contains(&format!("tidemill run --resume {kept}")), "{err}");
    let (exit, out, err) = run(&["--resume", kept], &["8"]).await;
    assert_eq!((exit, out.as_str()), (Exit::Succeeded, "given: 8\n"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mock_model_joins_no_fleet_and_a_place_that_cannot_be_written_is_refused_before_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ask.yml");
    std::fs::write(&file, ASK).expect("writes");
    let file = file.to_str().expect("a text");
    let redis = "redis://127.0.0.1:9";
    for (line, expected) in [
        (&[file, "--redis", redis, "--mock-llm"][..], "other runs"),
        (&[file, "--redis", redis, "--provider-url", "http://127.0.0.1:9"], "other runs"),
        (&[file, "--keep", "/nowhere/run.json"], "/nowhere/run.json"),
    ] {
        let (mut console, _, _) = captured_with(&[]);
        let line = Line::parse_from(std::iter::once(&"run").chain(line));
        let refused = perform(&line.run, &mut console).await;
        assert!(matches!(&refused, Err(Error::Usage(text)) if text.contains(expected)), "{refused:?}");
    }
}
