//! The lines of a process, without the process: what is counted, ended and masked.

use serde_json::json;

use tidemill_common::config::HttpConfig;
use tidemill_common::http::Http;
use tidemill_sandbox::helper::Host;

use super::pool::Plugins;
use super::room::Room;
use super::shared::Begun;
use super::*;
use crate::package::Permissions;
use crate::settings::{ProcessLimits, Settings};

/// A process that is ready, and what it would read.
fn process(change: impl FnOnce(&mut ProcessLimits)) -> (Process, mpsc::Receiver<Vec<u8>>) {
    let mut limits = ProcessLimits::default();
    change(&mut limits);
    let (input, lines) = mpsc::channel(1);
    let shared = Arc::new(Shared::new("a/b:1".into(), limits, Permissions::default(), input));
    shared.stage.send_replace(Stage::Ready);
    (Process { shared, orders: mpsc::channel(1).0, offered: OnOffer::default() }, lines)
}

fn invocation(secrets: &[String]) -> Invocation {
    Invocation {
        request: json!({}),
        owner: String::new(),
        secrets: secrets.to_vec(),
        answers: Arc::new(NoAnswers),
        offered: Offered::default(),
        origin: Origin::default(),
    }
}

fn begin(process: &Process, secrets: &[&str]) -> Begun {
    let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
    process.shared.begin(&invocation(&secrets)).unwrap()
}

async fn write(process: &Process, session: &str, data: Json) {
    let line = json!({"event": "session", "session_id": session, "data": data}).to_string();
    process.shared.take(&line).await;
}

fn question(kind: &str, text: &str) -> Json {
    json!({"type": "invoke", "data": {"type": kind, "backwards_request_id": "q", "request": {"text": text}}})
}

#[tokio::test]
async fn a_session_that_asks_too_much_at_once_ends() {
    let (process, _unread) = process(|limits| limits.questions_max = 3);
    let begun = begin(&process, &[]);
    for _ in 0..3 {
        write(&process, &begun.id, question("llm", "x")).await;
        assert!(begun.outcome.get().is_none());
    }
    write(&process, &begun.id, question("llm", "x")).await;
    let error = begun.outcome.get().unwrap().clone().unwrap_err().to_string();
    assert!(error.contains("questions_max"), "{error}");
}

#[tokio::test]
async fn a_session_that_asks_too_much_in_all_ends() {
    let (process, mut read) = process(|limits| limits.session_questions_max = 3);
    let begun = begin(&process, &[]);
    for _ in 0..3 {
        write(&process, &begun.id, question("llm", "x")).await;
        // Its answer: it is refused.
        read.recv().await.unwrap();
        assert!(begun.outcome.get().is_none());
    }
    write(&process, &begun.id, question("llm", "x")).await;
    let error = begun.outcome.get().unwrap().clone().unwrap_err().to_string();
    assert!(error.contains("session_questions_max"), "{error}");
}

#[tokio::test]
async fn questions_count_as_bytes_of_the_session() {
    let (process, _unread) = process(|limits| limits.output_bytes_max = 1_000);
    let begun = begin(&process, &[]);
    write(&process, &begun.id, question("llm", &"x".repeat(1_000))).await;
    let error = begun.outcome.get().unwrap().clone().unwrap_err().to_string();
    assert!(error.contains("output_bytes_max"), "{error}");
}

#[tokio::test]
async fn secrets_stay_masked_after_the_end_of_their_session() {
    let (process, _unread) = process(|_| {});
    let begun = begin(&process, &["the-secret-of-one"]);
    write(&process, &begun.id, json!({"type": "end"})).await;
    assert_eq!(begun.outcome.get(), Some(&Ok(())));
    let begun = begin(&process, &[]);
    // The cut comes after the masking, so no part of a secret is left before it.
    let message = format!("{}the-secret-of-one", "x".repeat(7_990));
    let failure = json!({"error_type": "Kthe-secret-of-one", "message": message});
    write(&process, &begun.id, json!({"type": "error", "data": failure})).await;
    write(&process, &begun.id, json!({"type": "end"})).await;
    let error = begun.outcome.get().unwrap().clone().unwrap_err().to_string();
    assert!(error.contains("K***") && !error.contains("the-s"), "{error}");
}

#[tokio::test]
async fn a_process_that_has_had_too_many_secrets_takes_no_sessions() {
    let (process, _unread) = process(|limits| limits.sessions_max = 10);
    let secrets: Vec<String> = (0..1_000).map(|at| format!("secret-{at}")).collect();
    assert!(process.shared.begin(&invocation(&secrets[..999])).is_some());
    assert!(process.shared.begin(&invocation(&secrets)).is_some());
    assert!(process.shared.begin(&invocation(&[])).is_none());
}

#[tokio::test]
async fn a_plugin_that_does_not_read_has_no_place() {
    let (process, _unread) = process(|_| {});
    let deadline = Instant::now() + Duration::from_secs(60);
    let open = || process.open(&invocation(&[]), deadline);
    let first = open();
    assert!(first.is_some() && open().is_none());
}

#[tokio::test]
async fn parts_of_a_result_come_in_order_and_then_the_outcome() {
    let (process, _unread) = process(|_| {});
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut session = process.open(&invocation(&[]), deadline).unwrap();
    let id = session.id.clone();
    write(&process, &id, json!({"type": "stream", "data": 1})).await;
    write(&process, &id, json!({"type": "stream", "data": 2})).await;
    process.shared.fail_all("it ended");
    assert_eq!(session.next().await.unwrap(), Some(json!(1)));
    assert_eq!(session.next().await.unwrap(), Some(json!(2)));
    assert!(session.next().await.unwrap_err().to_string().contains("it ended"));
    assert_eq!(session.next().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_result_nobody_takes_ends() {
    let (process, _unread) = process(|_| {});
    let begun = begin(&process, &[]);
    for _ in 0..300 {
        write(&process, &begun.id, json!({"type": "stream", "data": 1})).await;
    }
    let error = begun.outcome.get().unwrap().clone().unwrap_err().to_string();
    assert!(error.contains("has not taken"), "{error}");
}

/// A host for this many processes.
fn host_of(processes_max: usize) -> Plugins {
    let mut settings = Settings::new(std::path::PathBuf::new());
    settings.process.processes_max = processes_max;
    let http = Arc::new(Http::new(&HttpConfig::default()).unwrap());
    Plugins::new(settings, Host::named("/bin/true").unwrap(), http)
}

#[tokio::test(start_paused = true)]
async fn a_nested_invocation_does_not_wait_for_a_process_that_others_use() {
    let plugins = host_of(1);
    let mut outermost = Room::new(&plugins, false);
    assert!(outermost.has_share());
    let permit = outermost.take().unwrap();
    let begun = Instant::now();
    let mut nested = Room::new(&plugins, true);
    assert!(nested.take().is_none());
    let deadline = begun + Duration::from_secs(300);
    assert!(nested.make(deadline).await.unwrap_err().contains("processes_max"));
    assert_eq!(Instant::now(), begun);
    drop(permit);
    nested.make(deadline).await.unwrap();
    assert!(nested.take().is_some());
}

#[tokio::test(start_paused = true)]
async fn outermost_invocations_leave_processes_for_nested_ones() {
    let plugins = host_of(2);
    let mut first = Room::new(&plugins, false);
    let _first = (first.has_share(), first.take().unwrap());
    let mut second = Room::new(&plugins, false);
    assert!(!second.has_share());
    let deadline = Instant::now() + LOOK;
    second.make(deadline).await.unwrap();
    assert!(second.make(deadline).await.unwrap_err().contains("nested_percent"));
    assert!(Room::new(&plugins, true).take().is_some());
}

#[tokio::test]
async fn a_process_is_of_outermost_sessions_as_long_as_one_of_them_runs() {
    let (process, mut read) = process(|_| {});
    let plugins = host_of(1);
    let deadline = Instant::now() + Duration::from_secs(60);
    let enter = |is_nested: bool| {
        Room::new(&plugins, is_nested).enter(&process, |process| process.open(&invocation(&[]), deadline))
    };
    let nested = enter(true);
    assert!(nested.is_some() && plugins.outermost.available_permits() == 1);
    read.recv().await.unwrap();
    let first = enter(false);
    read.recv().await.unwrap();
    let second = enter(false);
    assert!(first.is_some() && second.is_some() && plugins.outermost.available_permits() == 0);
    drop(first);
    assert_eq!(plugins.outermost.available_permits(), 0);
    drop(second);
    assert_eq!(plugins.outermost.available_permits(), 1);
}
