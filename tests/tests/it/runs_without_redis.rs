//! `tidemill run` without a scheduler and without a Redis: the run is in the memory of the command. It can be kept in a
//! file, and go on in another call or in a fleet.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value as Json, json};
use tidemill_tests::binaries::binary;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::wait::{LONG, until};
use tidemill_tests::workspace;

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

/// Computes for some seconds.
const LONG_CODE: &str = "
app: {mode: workflow, name: Long}
kind: app
version: 0.6.0
workflow:
  graph:
    nodes:
    - {id: start, data: {type: start, title: Start, variables: []}}
    - id: code
      data:
        type: code
        title: Code
        code_language: javascript
        code: 'function main() { const end = Date.now() + 4000; while (Date.now() < end) {} return {n: 42} }'
        variables: []
        outputs: {n: {type: number}}
    - {id: end, data: {type: end, title: End, outputs: [{variable: n, value_selector: [code, n]}]}}
    edges: [{source: start, target: code}, {source: code, target: end}]
";

/// The program in a folder of its own, without `redis-server` on its path.
fn tidemill(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary("tidemill"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env_clear().env("PATH", "/usr/bin/no-such-folder").env("HOME", folder);
    command
}

fn output(folder: &Path, arguments: &[&str]) -> Output {
    tidemill(folder, arguments).output().expect("it starts")
}

fn texts(done: &Output) -> (String, String) {
    (String::from_utf8_lossy(&done.stdout).into_owned(), String::from_utf8_lossy(&done.stderr).into_owned())
}

fn with_file(name: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(name), text).expect("it is written");
    folder
}

#[test]
fn a_file_runs_on_a_machine_without_redis_and_leaves_nothing() {
    let hello = std::fs::read_to_string(workspace().join("examples/hello.yml")).expect("an example");
    let folder = with_file("hello.yml", &hello);
    let done = output(folder.path(), &["run", "hello.yml", "-i", "name=Ada"]);
    let (out, err) = texts(&done);
    assert!(done.status.success(), "{err}");
    assert_eq!(out, "greeting: Hello, Ada!\n");
    assert!(err.contains("succeeded after") && err.contains("(3 steps)"), "{err}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "a file is left");
    let events = output(folder.path(), &["run", "hello.yml", "-i", "name=Ada", "--json"]);
    let lines: Vec<Json> =
        texts(&events).0.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.first().map(|line| line["type"].clone()), Some(json!("graph_run_started")));
    assert_eq!(lines.last().map(|line| line["outputs"]["greeting"].clone()), Some(json!("Hello, Ada!")));
}

#[test]
fn a_run_that_waits_ends_with_the_command_and_the_message_says_how_to_keep_it() {
    let folder = with_file("ask.yml", ASK);
    let done = output(folder.path(), &["run", "ask.yml"]);
    let (_, err) = texts(&done);
    assert_eq!(done.status.code(), Some(4), "{err}");
    for part in ["--keep FILE", "--redis", "tidemill dev", "answer"] {
        assert!(err.contains(part), "{part}: {err}");
    }
    for more in [&["--keep", "x"][..], &["--resume", "x"]] {
        for place in [&["--url", "http://127.0.0.1:9"][..], &["--redis", "redis://127.0.0.1:9"]] {
            let file: &[&str] = if more[0] == "--keep" { &["ask.yml"] } else { &[] };
            let refused = output(folder.path(), &[&["run"], file, more, place].concat());
            let (_, err) = texts(&refused);
            assert_eq!(refused.status.code(), Some(2), "{more:?} {place:?}: {err}");
            assert!(err.contains("tidemill export"), "{err}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kept_run_waits_again_when_it_goes_on_and_a_fleet_takes_it_too() {
    let folder = with_file("ask.yml", ASK);
    let done = output(folder.path(), &["run", "ask.yml", "--keep", "kept.json"]);
    let (_, err) = texts(&done);
    assert_eq!(done.status.code(), Some(4), "{err}");
    assert!(err.contains("tidemill run --resume kept.json"), "{err}");
    let again = output(folder.path(), &["run", "--resume", "kept.json", "--keep", "again.json"]);
    let (_, err) = texts(&again);
    assert_eq!(again.status.code(), Some(4), "{err}");
    assert!(err.contains("tidemill run --resume again.json"), "{err}");

    let cluster = Cluster::start(&[], None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let kept = std::fs::read_to_string(folder.path().join("again.json")).expect("a snapshot");
    let taken = client.post("/api/v1/runs/import", &serde_json::from_str(&kept).expect("JSON")).await;
    assert_eq!(taken.status, 201, "{}", taken.text);
    let run = taken.body["id"].as_str().expect("a run has an id");
    let pauses = until("the pause", LONG, async || {
        let shown = client.run(run).await;
        let pauses = shown["pauses"].as_array().cloned().unwrap_or_default();
        if pauses.is_empty() { Err(shown.to_string()) } else { Ok(pauses) }
    })
    .await;
    let path = format!("/api/v1/runs/{run}/pauses/{}/answer", pauses[0]["pause_id"].as_str().expect("an id"));
    let answered = client.post(&path, &json!({"input": 5})).await;
    assert!(answered.status < 300, "{}", answered.text);
    assert_eq!(client.ended(run).await["outputs"]["given"], "5");
}

#[test]
fn code_nodes_run_and_ctrl_c_keeps_a_run_that_goes_on_from_the_file() {
    use std::io::{BufRead, BufReader};
    let folder = with_file("long.yml", LONG_CODE);
    let arguments = ["run", "long.yml", "--keep", "kept.json"];
    let mut child = tidemill(folder.path(), &arguments).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("its messages")).lines().map_while(Result::ok);
    assert!(
        lines.any(|line| line.contains("started") && line.contains("Code")),
        "the code node does not start"
    );
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill starts");
    assert!(killed.success());
    let said: Vec<String> = lines.collect();
    assert_eq!(child.wait().expect("it ends").code(), Some(4), "{said:?}");
    assert!(said.iter().any(|line| line.contains("tidemill run --resume kept.json")), "{said:?}");
    let done = output(folder.path(), &["run", "--resume", "kept.json"]);
    let (out, err) = texts(&done);
    assert!(done.status.success(), "{err}");
    assert_eq!(out, "n: 42\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_a_redis_is_seen_by_the_fleet_that_it_has() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let folder = with_file("ask.yml", ASK);
    let done = tokio::task::spawn_blocking({
        let (url, folder) = (cluster.redis.url(), folder.path().to_owned());
        move || output(&folder, &["run", "ask.yml", "--redis", &url])
    });
    let (_, err) = texts(&done.await.expect("it ends"));
    assert!(err.contains("tidemill answer"), "{err}");
    let runs = scheduler.client().get("/api/v1/runs").await.body["data"].clone();
    assert_eq!(runs[0]["status"], "paused", "{runs:#}");
    assert!(err.contains(runs[0]["id"].as_str().expect("an id")), "{err}");
}
