//! Measures the time of a trivial function: `cargo test -p tidemill-worker --test sandbox speed -- --ignored
//! --nocapture`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;

const EXECUTIONS: usize = 1_000;

#[allow(clippy::print_stdout, reason = "it is run for what it prints")]
async fn measure(name: &str, language: CodeLanguage, code: &'static str, at_once: usize) {
    let sandbox = Arc::new(sandbox(&CodeConfig { concurrency: at_once, ..CodeConfig::default() }));
    let one = move |sandbox: Arc<BuiltIn>| async move {
        let begun = Instant::now();
        returns(&sandbox, language, code, json!({"a": 1, "b": 2})).await.unwrap();
        begun.elapsed()
    };
    let warm = (0..at_once * 4).map(|_| tokio::spawn(one(sandbox.clone())));
    for task in warm.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let begun = Instant::now();
    let lanes = (0..at_once).map(|_| {
        let sandbox = sandbox.clone();
        tokio::spawn(async move {
            let mut times = Vec::new();
            for _ in 0..EXECUTIONS / at_once {
                times.push(one(sandbox.clone()).await);
            }
            times
        })
    });
    let mut times: Vec<Duration> = Vec::new();
    for lane in lanes.collect::<Vec<_>>() {
        times.extend(lane.await.unwrap());
    }
    let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
    println!("{name}, {at_once} at once: p50 {:.2} ms, p99 {:.2} ms, {rate:.0} a second", at(50), at(99));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn speed() {
    for at_once in [1, 2, 4] {
        let python = "def main(a, b): return {'r': a + b}";
        measure("python", CodeLanguage::Python, python, at_once).await;
        measure("javascript", CodeLanguage::JavaScript, "const main = ({a, b}) => ({r: a + b})", at_once)
            .await;
    }
}
