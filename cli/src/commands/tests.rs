use clap::CommandFactory;

use super::*;
use crate::client::tests::FakeScheduler;
use crate::console::Console;
use crate::console::tests::{captured, captured_with};

fn parse(line: &[&str]) -> Result<Arguments, clap::Error> {
    Arguments::try_parse_from(std::iter::once("tidemill").chain(line.iter().copied()))
}

/// Runs a command line and returns exit code, standard output and standard error.
async fn tidemill(line: &[&str]) -> (Exit, String, String) {
    let (mut console, out, err) = captured();
    (perform_line(line, &mut console).await, out.text(), err.text())
}

async fn perform_line(line: &[&str], console: &mut Console) -> Exit {
    let arguments = parse(line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
    let outcome = perform(arguments.verb, console).await;
    conclude(outcome, console)
}

fn example(name: &str) -> String {
    format!("{}/../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn file(text: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("flow.yml");
    std::fs::write(&path, text).expect("writes");
    (dir, path.display().to_string())
}

#[test]
fn the_table_of_commands_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn arguments_are_accepted_as_users_write_them() {
    let fine: [&[&str]; 32] = [
        &["check", "a.yml", "b.yml", "--json"],
        &["dev"],
        &["dev", "--mock-llm", "a.yml", "b.yml", "--workers", "3", "--listen", "127.0.0.1:0"],
        &["dev", "--redis", "redis://h:1", "--data", "d", "--provider-url", "http://h/v1"],
        &["run", "a.yml", "-i", "name=Ada", "-i", "n=3", "--inputs", "@f", "--user", "u", "--json"],
        &["run", "a.yml", "--mock-llm=rules.json", "--query", "why?", "--events"],
        &["run", "a.yml", "--url", "http://h", "--key", "k"],
        &["run", "a.yml", "--keep", "run.json"],
        &["run", "--resume", "run.json", "--json"],
        &["run", "a.yml", "--redis", "redis://h"],
        &["ps", "--status", "partial-succeeded", "--limit", "5", "--json"],
        &["show", "r1", "--json"],
        &["watch", "r1", "--after", "1-0", "--json"],
        &["stop", "r1", "--reason", "enough"],
        &["pause", "r1", "--reason", "look", "--once", "k", "--url", "http://h", "--key", "admin"],
        &["resume", "r1", "--once", "k"],
        &["set", "r1", "a.x=1", "conversation.mood=glad"],
        &[
            "namespace",
            "copy",
            "--from",
            "redis://h",
            "--to",
            "redis+cluster://i,j",
            "--namespace-to",
            "n",
            "--again",
        ],
        &["answer", "r1"],
        &["answer", "r1", "--action", "yes", "--input", "note=ok", "-i", "tone=warm", "--by", "ann"],
        &["answer", "r1", "p", "--action", "yes"],
        &["answer", "r1", "--approve", "--comment", "fine"],
        &["answer", "r1", "--choose", "blue", "--once", "k"],
        &["answer", "r1", "--input", "city=Bergen"],
        &["answer", "r1", "--cancel"],
        &["export", "r1"],
        &["export", "r1", "-o", "f", "--url", "http://h", "--key", "k"],
        &["import", "f"],
        &["import", "-", "--data", "d"],
        &["apps", "add", "a.yml"],
        &["apps", "ls", "--url", "http://h"],
        &["mock-llm", "rules.json", "--listen", "127.0.0.1:0"],
    ];
    for line in fine {
        assert!(parse(line).is_ok(), "{line:?}: {:?}", parse(line).err());
    }
    let wrong: [&[&str]; 15] = [
        &["check"],
        &["nothing"],
        &["run"],
        &["run", "a.yml", "-i", "name"],
        &["run", "a.yml", "--mock-llm", "--provider-url", "http://h"],
        &["run"],
        &["run", "a.yml", "--resume", "run.json"],
        &["run", "--resume", "run.json", "-i", "a=b"],
        &["dev", "--workers", "0"],
        &["ps", "--status", "odd"],
        &["ps", "--limit", "0"],
        &["show"],
        &["export"],
        &["import"],
        &["mock-llm", "--listen", "somewhere"],
    ];
    for line in wrong {
        let error = parse(line).err().unwrap_or_else(|| panic!("{line:?} was accepted"));
        assert!(error.use_stderr() && error.exit_code() == 2, "{line:?}");
    }
    for line in [["--help"], ["--version"]] {
        assert!(!parse(&line).expect_err("shown").use_stderr());
    }
}

#[tokio::test]
async fn every_example_passes_the_check() {
    for name in [
        "hello.yml",
        "chat.yml",
        "triage.yml",
        "digest.yml",
        "batch.yml",
        "savings.yml",
        "review.yml",
        "orders.yml",
        "keywords.yml",
        "approve.yml",
        "memory.yml",
        "profile.yml",
        "trip.yml",
        "refund/refund.yml",
    ] {
        let path = example(name);
        let (exit, out, _) = tidemill(&["check", &path]).await;
        assert_eq!((exit, out.contains(": ok (")), (Exit::Succeeded, true), "{out}");
        let first = std::fs::read_to_string(&path).expect("there");
        let head: Vec<&str> = first.lines().take_while(|line| line.starts_with('#')).collect();
        assert!(head.iter().any(|line| line.contains(&format!("tidemill run examples/{name}"))), "{name}");
    }
    assert!(crate::stack::load_rules(Some(example("mock-rules.json").as_ref())).is_ok());
}

#[tokio::test]
async fn check_shows_every_problem_with_its_line() {
    let broken = "\
kind: app
app: {mode: workflow, name: Broken}
version: 0.3.0
workflow:
  graph:
    nodes:
      - id: '1'
        data: {type: start, title: Start, variables: []}
      - id: '2'
        data: {type: no-such-type, title: Odd}
    edges:
      - {id: e1, source: '1', target: '9', sourceHandle: source, targetHandle: target}
";
    let (_dir, path) = file(broken);
    let (exit, out, err) = tidemill(&["check", &path]).await;
    assert_eq!((exit, err.as_str()), (Exit::Failed, ""));
    assert!(out.contains(&format!("{path}:10: error[")), "{out}");
    assert!(out.contains("no-such-type"), "{out}");
    assert!(out.contains(&format!("{path}:12: error[")), "{out}");
    assert!(out.ends_with("flow.yml: 2 errors\n"), "{out}");

    let (exit, out, _) = tidemill(&["check", &path, &example("hello.yml"), "--json"]).await;
    let files: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(exit, Exit::Failed);
    assert_eq!((&files[0]["ok"], &files[1]["ok"]), (&false.into(), &true.into()));
    let severities: Vec<_> =
        files[0]["diagnostics"].as_array().expect("a list").iter().map(|found| &found["severity"]).collect();
    assert_eq!(severities, ["error", "error"]);

    let (_dir, path) = file("{ not: [a workflow");
    assert_eq!(tidemill(&["check", &path]).await.0, Exit::Failed);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_wrong_usage() {
    for line in [&["check", "/nowhere.yml"][..], &["run", "/nowhere.yml"], &["dev", "/nowhere.yml"]] {
        let (exit, out, err) = tidemill(line).await;
        assert_eq!((exit, out.as_str()), (Exit::Usage, ""));
        assert!(err.starts_with("tidemill: cannot read /nowhere.yml: "), "{err}");
        assert_eq!(err.lines().count(), 1);
    }
}

#[tokio::test]
async fn an_unreachable_scheduler_gives_exit_code_three_and_the_address() {
    // This port was free a moment ago, so no program listens on it.
    let port =
        std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let url = format!("http://127.0.0.1:{port}");
    let hello = example("hello.yml");
    let lines: [&[&str]; 6] = [
        &["ps"],
        &["show", "r"],
        &["watch", "r"],
        &["stop", "r"],
        &["apps", "ls"],
        &["run", &hello, "-i", "name=Ada"],
    ];
    for line in lines {
        let line = [line, &["--url", &url]].concat();
        let (exit, out, err) = tidemill(&line).await;
        assert_eq!((exit, out.as_str()), (Exit::Unreachable, ""), "{line:?}");
        assert!(err.contains(&url) && err.contains("tidemill dev"), "{err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    for url in ["nowhere", "ftp://there"] {
        assert_eq!(tidemill(&["ps", "--url", url]).await.0, Exit::Usage, "{url}");
    }
}

#[tokio::test]
async fn a_run_is_followed_through_a_broken_connection_to_its_outputs() {
    let scheduler = FakeScheduler::start().await;
    let hello = example("hello.yml");
    let target = ["--url", &scheduler.url, "--key", "key"];
    let line = [&["run", &hello, "-i", "name=Ada"][..], &target].concat();
    let (exit, out, err) = tidemill(&line).await;
    assert_eq!((exit, out.as_str()), (Exit::Succeeded, "greeting: Hello, Ada!\n"));
    let expected = "\
started    Start (start)
succeeded  Start (start)  1ms
started    Greet (template-transform)
succeeded  Greet (template-transform)  500ms
run r1 succeeded after 1.5s (2 steps)
";
    assert_eq!(err, expected);
    assert_eq!(scheduler.came_back_after(), ["", "2-0"]);
    assert_eq!(scheduler.inputs(), serde_json::json!({"name": "Ada"}));

    let (exit, out, _) = tidemill(&[&line[..], &["--json"]].concat()).await;
    let lines: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(exit, Exit::Succeeded);
    assert_eq!(
        lines.iter().map(|line| line["seq"].as_u64()).collect::<Vec<_>>(),
        [Some(1), Some(2), Some(3), Some(4), Some(5), Some(6), None]
    );
    assert_eq!(lines[6]["outputs"]["greeting"], "Hello, Ada!");

    let (_, out, _) = tidemill(&[&line[..], &["--events"]].concat()).await;
    assert!(
        out.starts_with("   1  graph_run_started\n   2  node_run_started             Start (start)\n"),
        "{out}"
    );
}

#[tokio::test]
async fn remote_commands_show_the_answers_of_the_scheduler() {
    let scheduler = FakeScheduler::start().await;
    let target = ["--url", &scheduler.url, "--key", "key"];
    let with = |line: &[&'static str]| [line, &target].concat();

    let (exit, out, _) = tidemill(&with(&["ps", "--status", "failed", "--limit", "2"])).await;
    assert_eq!(exit, Exit::Succeeded);
    assert!(out.starts_with("RUN  STATUS") && out.contains("r1   failed"), "{out}");
    let (_, out, _) = tidemill(&with(&["ps", "--json"])).await;
    assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok(), "{out}");

    let (exit, out, _) = tidemill(&with(&["show", "r1"])).await;
    assert!(exit == Exit::Succeeded && out.starts_with("run       r1\n"), "{out}");
    let (exit, _, err) = tidemill(&with(&["show", "other/../r1"])).await;
    assert_eq!((exit, err.as_str()), (Exit::Failed, "tidemill: Workflow run not found. (not_found)\n"));

    let (exit, _, err) = tidemill(&with(&["watch", "r1", "--after", "3-0"])).await;
    assert_eq!(exit, Exit::Succeeded);
    assert_eq!(err, "run r1 succeeded after 1.5s (2 steps)\n");

    let (exit, _, err) = tidemill(&with(&["stop", "r1", "--reason", "enough"])).await;
    assert_eq!((exit, err.as_str()), (Exit::Failed, "tidemill: the run is over: succeeded (run_over)\n"));

    let (exit, out, _) = tidemill(&with(&["apps", "ls"])).await;
    assert_eq!((exit, out.lines().count()), (Exit::Succeeded, 2));

    let refused = ["ps", "--url", &scheduler.url, "--key", "wrong"];
    let (exit, _, err) = tidemill(&refused).await;
    assert_eq!(exit, Exit::Usage);
    assert!(err.contains("--key or TIDEMILL_KEY"), "{err}");
}

#[tokio::test]
async fn a_refused_workflow_shows_its_problems() {
    let scheduler = FakeScheduler::start().await;
    let hello = example("hello.yml");
    let (exit, out, err) = tidemill(&["apps", "add", &hello, "--url", &scheduler.url, "--key", "key"]).await;
    assert_eq!((exit, out.as_str()), (Exit::Failed, ""));
    let expected = "line 3: error[graph.odd]: it is odd (at workflow.graph); hint: mend it\n\
                    tidemill: the workflow is not valid (invalid_workflow)\n";
    assert_eq!(err, expected);
}

#[tokio::test]
async fn another_server_at_the_address_is_recognized() {
    let mock =
        tidemill_mock_llm::MockLlm::start(tidemill_mock_llm::Rules::Friendly, ([127, 0, 0, 1], 0).into());
    let mock = mock.await.expect("listens");
    let url = format!("http://{}", mock.addr());
    let (exit, _, err) = tidemill(&["ps", "--url", &url]).await;
    assert_eq!(exit, Exit::Unreachable);
    assert!(err.contains("does not answer as Tidemill does: it answered with status 404"), "{err}");
}

#[tokio::test]
async fn commands_reach_the_run_with_all_their_values() {
    let scheduler = FakeScheduler::start().await;
    let target = ["--url", &scheduler.url, "--key", "key"];
    let answered = "run w1 has received its answer to Review\n";
    let lines: [(&[&str], serde_json::Value, &str); 10] = [
        (
            &["stop", "w1", "--reason", "enough"],
            serde_json::json!({"command": "stop", "reason": "enough"}),
            "run w1 is asked to stop\n",
        ),
        (
            &["pause", "w1", "--once", "k"],
            serde_json::json!({"command": "pause", "key": "k"}),
            "run w1 is asked to pause: running nodes finish, no more nodes start\n",
        ),
        (&["resume", "w1"], serde_json::json!({"command": "resume"}), "run w1 is asked to resume\n"),
        (
            &["set", "w1", "a.n=3", "conversation.mood=very glad"],
            serde_json::json!({"command": "update_variables", "updates": [
                {"selector": ["a", "n"], "value": 3},
                {"selector": ["conversation", "mood"], "value": "very glad"},
            ]}),
            "run w1 will change the variables\n",
        ),
        (
            &["answer", "w1", "--action", "yes", "--input", "note=fine", "--by", "ann"],
            serde_json::json!({"action": "yes", "inputs": {"note": "fine"}, "answered_by": "ann"}),
            answered,
        ),
        (
            &["answer", "w1", "p", "--reject", "--comment", "too dear"],
            serde_json::json!({"input": {"approved": false, "comment": "too dear"}}),
            answered,
        ),
        (&["answer", "w1", "p", "--choose", "blue"], serde_json::json!({"input": "blue"}), answered),
        (&["answer", "w1", "p", "--text", "7"], serde_json::json!({"input": "7"}), answered),
        (&["answer", "w1", "p", "--json", "7"], serde_json::json!({"input": 7}), answered),
        (&["answer", "w1", "p", "--cancel"], serde_json::json!({"cancel": true}), answered),
    ];
    for (at, (line, body, shown)) in lines.into_iter().enumerate() {
        let (exit, _, err) = tidemill(&[line, &target].concat()).await;
        assert_eq!((exit, err.as_str()), (Exit::Succeeded, shown), "{line:?}");
        assert_eq!(scheduler.posted()[at].1, body, "{line:?}");
    }
    let refused: [(&[&str], Exit, &str); 4] = [
        (&["answer", "w1"], Exit::Failed, "tidemill: run w1 is not waiting for an answer; it is succeeded\n"),
        (&["answer", "w1", "q"], Exit::Failed, "tidemill: run w1 has no pause q\n"),
        (
            &["answer", "w1", "p"],
            Exit::Usage,
            "tidemill: say how to answer: tidemill answer w1 p --action yes|no --input note=…\n",
        ),
        (&["set", "w1", "x=1"], Exit::Usage, "tidemill: \"x\" is not a variable: write NODE.NAME=VALUE\n"),
    ];
    for (line, exit, shown) in refused {
        let (is, _, err) = tidemill(&[line, &target].concat()).await;
        assert_eq!((is, err.as_str()), (exit, shown), "{line:?}");
    }
}

#[tokio::test]
async fn a_run_can_be_exported_and_imported_again() {
    let scheduler = FakeScheduler::start().await;
    let target = ["--url", &scheduler.url, "--key", "key"];
    let with = |line: &[&'static str]| [line, &target].concat();

    let (exit, out, err) = tidemill(&with(&["export", "w1"])).await;
    assert_eq!((exit, err.as_str()), (Exit::Succeeded, ""));
    assert!(out.contains("123456789012345678901") && out.ends_with("}\n"), "numbers stay as they are: {out}");

    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("w1.json").display().to_string();
    let (exit, shown, err) = tidemill(&[&["export", "w1", "--output", &path][..], &target].concat()).await;
    assert_eq!((exit, shown.as_str()), (Exit::Succeeded, ""));
    assert!(err.starts_with(&format!("run w1 is stored in {path}; ")), "{err}");
    assert_eq!(std::fs::read_to_string(&path).expect("written"), out);

    let (exit, out, _) = tidemill(&[&["import", &path][..], &target].concat()).await;
    assert_eq!((exit, out.as_str()), (Exit::Succeeded, "r2\n"));
    assert_eq!(scheduler.posted(), [("import".to_string(), serde_json::json!("w1"))]);

    let (exit, out, err) = tidemill(&with(&["export", "r1"])).await;
    assert_eq!((exit, out.as_str()), (Exit::Failed, ""));
    assert_eq!(err, "tidemill: the run is over: succeeded (run_over)\n");
    std::fs::write(&path, "[]").expect("writes");
    let (exit, _, err) = tidemill(&[&["import", &path][..], &target].concat()).await;
    assert_eq!((exit, err.as_str()), (Exit::Failed, "tidemill: no snapshot (invalid_param)\n"));
    let (exit, _, err) = tidemill(&with(&["import", "/nowhere.json"])).await;
    assert_eq!(exit, Exit::Usage);
    assert!(err.starts_with("tidemill: cannot read /nowhere.json: "), "{err}");
    assert_eq!(tidemill(&with(&["export", "w1", "-o", "/nowhere/w1.json"])).await.0, Exit::Failed);
}

#[tokio::test]
async fn without_a_terminal_the_command_leaves_a_waiting_run() {
    let scheduler = FakeScheduler::start().await;
    let hello = example("hello.yml");
    let line = ["run", &hello, "-i", "name=wait", "--url", &scheduler.url, "--key", "key"];
    let (exit, _, err) = tidemill(&line).await;
    let expected = "\
waits      for Review
paused     Review
waits for Review: tidemill answer w1 p --action yes|no --input note=…
run w1 paused
";
    assert_eq!((exit, err.as_str()), (Exit::Waiting, expected));
}

#[tokio::test]
async fn a_waiting_run_asks_at_the_terminal_until_its_answer_is_accepted() {
    let scheduler = FakeScheduler::start().await;
    let hello = example("hello.yml");
    let line = ["run", &hello, "-i", "name=wait", "--url", &scheduler.url, "--key", "key"];
    let (mut console, _, err) = captured_with(&["bad", "2", "fine", "yes"]);
    assert_eq!(perform_line(&line, &mut console).await, Exit::Succeeded, "{}", err.text());
    let posted = scheduler.posted();
    assert_eq!(posted, [("p".to_string(), serde_json::json!({"action": "yes", "inputs": {"note": "fine"}}))]);
    let shown = err.text();
    assert!(shown.contains("say that it is fine (pause_input_invalid)"), "{shown}");
    assert!(shown.ends_with("run w1 succeeded\n"), "{shown}");
}
