//! Hosts and programs that do what they should not: executors with odd results, futures that are dropped early.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::http::Method;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value as Json, json};
use tidemill_common::clock::{Clock, SystemClock, Timestamp};
use tidemill_embed::host::{Hosts, NodeCall, NodeEvent, NodeExecutor, NodeOutcome};
use tidemill_embed::{Engine, EngineConfig, Inputs, Outcome};

#[path = "../shared/mod.rs"]
mod shared;
use shared::{ASK, GREET, threads};

/// An executor that is a function.
struct Function<F>(F);

impl<F: Fn(NodeCall) -> BoxStream<'static, NodeEvent> + Send + Sync + 'static> NodeExecutor for Function<F> {
    fn execute(&self, call: NodeCall) -> BoxStream<'static, NodeEvent> {
        (self.0)(call)
    }
}

async fn hosting(
    function: impl Fn(NodeCall) -> BoxStream<'static, NodeEvent> + Send + Sync + 'static,
) -> Engine {
    let hosts = Hosts::default().node("greet", Arc::new(Function(function)));
    Engine::create(EngineConfig { hosts, ..EngineConfig::default() }).await.expect("it starts")
}

async fn said(engine: &Engine) -> Outcome {
    let run = engine.run(GREET, Inputs::new().input("name", "Ada")).await.expect("the run starts");
    tokio::time::timeout(Duration::from_secs(60), run.result()).await.expect("it ends").expect("a result")
}

fn succeeds(outcome: NodeOutcome) -> BoxStream<'static, NodeEvent> {
    stream::iter([NodeEvent::Succeeded(outcome)]).boxed()
}

fn nested(depth: usize) -> Json {
    (0..depth).fold(json!(1), |inner, _| json!([inner]))
}

/// The longest wait for what happens soon.
const SOON: Duration = Duration::from_secs(30);

async fn soon(what: &str, is_so: impl AsyncFn() -> bool) {
    let since = Instant::now();
    while !is_so().await {
        assert!(since.elapsed() < SOON, "{what}");
        tokio::task::yield_now().await;
    }
}

fn asks(message: &str, schema: Json) -> BoxStream<'static, NodeEvent> {
    stream::iter([NodeEvent::PauseRequested { message: message.into(), schema: Some(schema) }]).boxed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_cannot_be_stored_fails_its_node_and_one_that_can_arrives() {
    let map = |value: Json| json!({"output": value}).as_object().cloned().unwrap_or_default();
    for (depth, fits) in [(99, true), (101, false), (124, false), (130, false), (400, false)] {
        for place in ["outputs", "process", "metadata"] {
            let engine = hosting(move |_| {
                let (map, outcome) = (map(nested(depth)), NodeOutcome::default());
                succeeds(match place {
                    "outputs" => NodeOutcome { outputs: map, ..outcome },
                    "process" => NodeOutcome { process_data: map, ..outcome },
                    _ => NodeOutcome { metadata: map, ..outcome },
                })
            })
            .await;
            match said(&engine).await {
                Outcome::Succeeded { outputs, .. } if place == "outputs" => {
                    assert!(fits, "{depth} {place}");
                    assert_eq!(outputs["text"], nested(depth));
                }
                Outcome::Succeeded { .. } => assert!(fits, "{depth} {place}"),
                Outcome::Failed { error } => {
                    assert!(!fits && error.contains("deeper than 100"), "{depth} {place}: {error}");
                }
                other => panic!("{depth} {place}: {other:?}"),
            }
            engine.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_a_deep_value_goes_on_from_its_snapshot() {
    let file = ASK.replace(
        "edges: [{source: start, target: ask}",
        "edges: [{source: start, target: greet}, {source: greet, target: ask}",
    );
    let greet = "    - {id: greet, data: {type: template-transform, title: G, template: x, variables: []}}\n";
    let file = file.replace("    - id: ask\n", &format!("{greet}    - id: ask\n"));
    let deep = |_| {
        let outputs = json!({"output": nested(100)}).as_object().cloned().unwrap_or_default();
        succeeds(NodeOutcome { outputs, ..NodeOutcome::default() })
    };
    let first = hosting(deep).await;
    let run = first.run(&file, Inputs::new()).await.expect("the run starts");
    assert!(matches!(run.result().await.expect("it waits"), Outcome::Paused { .. }));
    let kept = run.snapshot_bytes().await.expect("a snapshot");
    let second = hosting(deep).await;
    let run = second.resume_bytes(&kept).await.expect("the snapshot is taken");
    assert!(matches!(run.result().await.expect("it waits"), Outcome::Paused { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_whose_schema_no_answer_can_fit_fails_the_node() {
    for (schema, expected) in
        [(json!({"type": "nonsense"}), "is invalid"), (json!({"default": nested(101)}), "deeper than 100")]
    {
        let engine = hosting(move |_| asks("?", schema.clone())).await;
        let Outcome::Failed { error } = said(&engine).await else { panic!("the run waits for ever") };
        assert!(error.contains(expected), "{error}");
        engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_without_an_end_is_cut() {
    let engine = hosting(|_| {
        let message = "x".repeat(20 << 20);
        stream::iter([NodeEvent::Failed { class: "E".into(), message }]).boxed()
    })
    .await;
    let Outcome::Failed { error } = said(&engine).await else { panic!("it does not fail") };
    assert!(error.len() < 128 << 10, "{}", error.len());
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_answer_executes_the_node_once_more() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let engine = hosting(move |call| {
        counted.fetch_add(1, Ordering::SeqCst);
        match call.answer {
            None => asks("?", json!({})),
            Some(answer) => {
                let outputs = [("output".to_owned(), answer)].into_iter().collect();
                succeeds(NodeOutcome { outputs, ..NodeOutcome::default() })
            }
        }
    })
    .await;
    let run = engine.run(GREET, Inputs::new().input("name", "Ada")).await.expect("the run starts");
    let Outcome::Paused { pauses, .. } = run.result().await.expect("it waits") else { panic!("no pause") };
    let pause = pauses[0]["pause_id"].as_str().expect("a pause has an id");
    run.answer(pause, &json!({"input": "yes"})).await.expect("it is answered");
    let Outcome::Succeeded { outputs, .. } = run.result().await.expect("it ends") else { panic!("it fails") };
    assert_eq!((outputs["text"].as_str(), count.load(Ordering::SeqCst)), (Some("yes"), 2));
    engine.stop().await;
}

/// The system's clock, moved ahead.
#[derive(Default)]
struct Moved(AtomicI64);

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(SystemClock.now().micros() + self.0.load(Ordering::Relaxed))
    }
}

/// The time of the last heartbeat, in seconds of the engine's clock.
async fn seen_at(engine: &Engine) -> f64 {
    let workers = engine.request(Method::GET, "/api/v1/workers", &Json::Null).await.expect("a list");
    workers["data"][0]["seen_at"].as_f64().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_moved_ahead_executes_no_node_twice() {
    for days in [1_i64, 40, 400] {
        let (clock, count) = (Arc::new(Moved::default()), Arc::new(AtomicUsize::new(0)));
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let (counted, opened) = (count.clone(), gate.clone());
        let function = move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            let gate = opened.clone();
            let wait = async move {
                drop(gate.acquire().await);
                NodeEvent::Succeeded(NodeOutcome::default())
            };
            wait.into_stream().boxed()
        };
        let hosts = Hosts::default().node("greet", Arc::new(Function(function)));
        let config = EngineConfig { hosts, clock: clock.clone(), ..EngineConfig::default() };
        let engine = Engine::create(config).await.expect("it starts");
        let run = engine.run(GREET, Inputs::new().input("name", "Ada")).await.expect("the run starts");
        soon("the node starts", async || count.load(Ordering::SeqCst) == 1).await;
        clock.0.fetch_add(days * 86_400_000_000, Ordering::Relaxed);
        // A worker looks for jobs of dead ones about each second, and sends a heartbeat less often.
        let some_looks_later = clock.now().seconds_since(Timestamp::from_micros(0)) + 3.0;
        soon("no heartbeat after the move", async || seen_at(&engine).await > some_looks_later).await;
        gate.add_permits(1000);
        let ended = tokio::time::timeout(SOON, run.result()).await.expect("it ends").expect("a result");
        // The time of the run may be over.
        assert!(
            matches!(ended, Outcome::Succeeded { .. } | Outcome::Stopped { .. }),
            "{days} days: {ended:?}"
        );
        assert_eq!(count.load(Ordering::SeqCst), 1, "{days} days");
        assert!(matches!(said(&engine).await, Outcome::Succeeded { .. }));
        engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_or_a_stop_that_is_given_up_leaves_no_thread() {
    // Other tests have engines, too: of this many the threads would show.
    const MANY: usize = 40;
    let before = threads();
    for _ in 0..MANY {
        let engine = Engine::create(EngineConfig::default()).await.expect("it starts");
        let _ = engine.stop().now_or_never();
    }
    for polls in 0..MANY {
        let mut starting = Box::pin(Engine::create(EngineConfig::default()));
        for _ in 0..polls {
            if futures_util::poll!(&mut starting).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    soon("threads are left", async || threads() < before + MANY / 2).await;
}

async fn count(engine: &Engine, path: &str) -> usize {
    let listed = engine.request(Method::GET, path, &Json::Null).await.expect("a list");
    listed["data"].as_array().map_or(0, Vec::len)
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_no_handle_ever_had_are_forgotten_too() {
    let config = EngineConfig { ended_runs_max: 3, ..EngineConfig::default() };
    let engine = Engine::create(config).await.expect("it starts");
    let body = json!({"workflow": GREET, "inputs": {"name": "Ada"}});
    for _ in 0..20 {
        engine.request(Method::POST, "/api/v1/runs", &body).await.expect("the run starts");
    }
    let runs = async || count(&engine, "/api/v1/runs?limit=100").await;
    soon("the runs are still there", async || runs().await == 3).await;
    engine.stop().await;
}
