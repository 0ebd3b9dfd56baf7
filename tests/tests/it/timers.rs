//! Timers on a quiet shard: each fires at its time, and not only when a read of the inbox ends. The bounds are several
//! times the expected time, and half of what it takes when each timer waits for the end of a read (a second).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const NO_SERVICE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// A server that refuses every request; returns its address and the times of the requests.
async fn refusing() -> (String, Arc<Mutex<Vec<Instant>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let kept = times.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
            // A caller that has gone needs no answer.
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(NO_SERVICE).await;
        }
    });
    (address, times)
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_of_a_quiet_shard_begin_at_their_time() {
    let (address, times) = refusing().await;
    let cluster = Cluster::start(&[("http.allow", "127.0.0.1"), ("scheduler.shards", "1")], None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let retry = json!({"retry_enabled": true, "max_retries": 6, "retry_interval": 100});
    let flow = Flow::new("start -> h -> end").with(
        "h",
        json!({"type": "http-request", "url": format!("http://{address}/"), "method": "get", "headers": "",
            "params": "", "authorization": {"type": "no-auth", "config": null},
            "body": {"type": "none", "data": []}, "retry_config": retry}),
    );
    let run = scheduler.client().start(&flow, &[]).await;
    assert_eq!(scheduler.client().ended(&run).await["status"], "failed");
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    let waits: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits.len(), 6);
    assert!(waits.iter().all(|wait| *wait >= Duration::from_millis(100)), "a retry is too early: {waits:?}");
    assert!(waits.iter().sum::<Duration>() < Duration::from_secs(3), "retries are late: {waits:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_shard_keeps_the_time_without_any_worker() {
    let cluster = Cluster::start(&[("scheduler.shards", "1")], None).await;
    let scheduler = cluster.scheduler().await;
    let flow = Flow::new("start -> llm -> end").prompt("llm", "hello").with(
        "llm",
        json!({"retry_config": {"retry_enabled": true, "max_retries": 3, "retry_interval": 100},
            "tidemill": {"queue": "nobody", "queue_timeout_ms": 200}}),
    );
    let began = Instant::now();
    let run = scheduler.client().start(&flow, &[]).await;
    let ended = scheduler.client().ended(&run).await;
    let took = began.elapsed();
    assert!(ended["error"].as_str().is_some_and(|e| e.contains("queue_timeout_ms")), "{ended:#}");
    // Four attempts of 200 ms with three waits of 100 ms between them.
    assert!(took >= Duration::from_millis(1100), "a timer is too early: {took:?}");
    assert!(took < Duration::from_millis(3500), "timers are late: {took:?}");
}
