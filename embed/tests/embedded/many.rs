//! Many engines and many runs in one process: nothing is left of them.

use std::time::{Duration, Instant};

use axum::http::Method;
use futures_util::future::join_all;
use serde_json::Value as Json;
use tidemill_embed::{Engine, EngineConfig, Inputs, Outcome};

use crate::{ASK, GREET, engine, threads, until};

/// The longest wait for what happens soon.
const SOON: Duration = Duration::from_secs(30);

async fn greet(engine: &Engine, name: &str) {
    let run = engine.run(GREET, Inputs::new().input("name", name)).await.expect("the run starts");
    let outcome = run.result().await.expect("it ends");
    let Outcome::Succeeded { outputs, .. } = outcome else { panic!("it does not succeed: {outcome:?}") };
    assert_eq!(outputs["text"], format!("Good morning, {name}"));
}

/// The number of runs that the engine has, up to a hundred.
async fn runs(engine: &Engine) -> usize {
    let listed =
        engine.request(Method::GET, "/api/v1/runs?limit=100", &Json::Null).await.expect("runs are listed");
    listed["data"].as_array().map_or(0, Vec::len)
}

/// The memory of this process in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_forgotten_when_its_last_handle_and_stream_are_gone() {
    let engine = engine().await;
    let run = engine.run(GREET, Inputs::new().input("name", "Ada")).await.expect("the run starts");
    let id = run.id().to_owned();
    let mut events = run.events().await.expect("events");
    drop(run);
    while events.next().await.expect("the stream keeps the run").is_some() {}
    assert_eq!(runs(&engine).await, 1);
    let again = engine.find(&id).await.expect("the run is there");
    drop(events);
    assert_eq!(again.show().await.expect("the handle keeps the run")["status"], "succeeded");
    drop(again);
    let waiting = engine.run(ASK, Inputs::new()).await.expect("the run starts");
    until(&waiting, "graph_run_paused").await;
    let waiting_id = waiting.id().to_owned();
    drop(waiting);
    let since = Instant::now();
    while engine.find(&id).await.is_ok() {
        assert!(since.elapsed() < SOON, "the ended run is still there");
        tokio::task::yield_now().await;
    }
    engine.find(&waiting_id).await.expect("a run that has not ended stays");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_runs_end_where_they_began() {
    let engine = engine().await;
    let some = async |count: usize| {
        for _ in 0..count / 10 {
            join_all((0..10).map(|_| greet(&engine, "Ada"))).await;
        }
        let since = Instant::now();
        while runs(&engine).await > 0 {
            assert!(since.elapsed() < SOON, "ended runs are still there");
            tokio::task::yield_now().await;
        }
    };
    // What is allocated once, such as caches, is there after the first of them.
    some(300).await;
    let mut grown = Vec::new();
    // Tests beside this one take memory too, but not for ever; a leak shows each time.
    while grown.len() < 5 {
        let before = resident();
        some(1000).await;
        grown.push(resident().saturating_sub(before));
        // A run of this kind takes some 20 KiB while it is kept.
        if grown.last().is_some_and(|grown| *grown < 8 << 10) {
            engine.stop().await;
            return;
        }
    }
    panic!("a thousand runs have left so many KiB: {grown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_engines_run_at_once_and_leave_no_thread() {
    let engines = join_all((0..50).map(|_| engine())).await;
    join_all(
        engines
            .iter()
            .enumerate()
            .map(|(at, engine)| async move { greet(engine, &format!("Ada {at}")).await }),
    )
    .await;
    let running = threads();
    assert!(running >= 150, "each engine has three threads: {running}");
    let mut engines = engines.into_iter();
    for engine in engines.by_ref().take(5) {
        engine.stop().await;
    }
    // The others are dropped without a stop.
    drop(engines);
    let since = Instant::now();
    // Tests beside this one have engines of their own.
    while threads() + 100 > running {
        assert!(since.elapsed() < SOON, "{} of {running} threads are left", threads());
        tokio::task::yield_now().await;
    }
}

#[test]
fn an_engine_can_be_dropped_after_its_runtime() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let engine = runtime.block_on(async {
        let engine = engine().await;
        greet(&engine, "Ada").await;
        engine
    });
    drop(runtime);
    drop(engine);
}

#[tokio::test]
async fn an_engine_works_on_a_runtime_of_one_thread() {
    let engine = Engine::create(EngineConfig::default()).await.expect("it starts");
    greet(&engine, "Ada").await;
    engine.stop().await;
}
