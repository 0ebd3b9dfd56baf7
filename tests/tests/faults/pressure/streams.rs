//! Many clients that follow runs that wait: what an open stream costs the scheduler. The suite has some hundred; `make
//! pressure` has more, and says what it measured (`PRESSURE_STREAMS=5000` is the full form).

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tidemill_tests::cluster::{ADMIN_KEY, Cluster};
use tidemill_tests::wait::{LONG, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::number;
use super::waiting::{begin, cluster};

/// What an open stream of a silent run may cost the scheduler, in bytes.
const BYTES_MAX: f64 = 20.0 * 1024.0;
/// Streams that are opened at the same time.
const AT_ONCE: usize = 32;

/// Opens the event stream of a run, and reads it as far as the question at which the run waits.
async fn open(address: &str, run: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.expect("the scheduler listens");
    let request = format!(
        "GET /api/v1/runs/{run}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN_KEY}\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).await.expect("it accepts requests");
    let (mut told, mut piece) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&told).contains("event: graph_run_paused") {
        let read = tokio::time::timeout(LONG * 2, socket.read(&mut piece)).await.expect("an event in time");
        let read = read.expect("the stream goes on");
        assert!(read > 0, "the stream has ended: {}", String::from_utf8_lossy(&told));
        told.extend_from_slice(&piece[..read]);
    }
    socket
}

async fn open_all(address: &str, runs: &[String]) -> Vec<TcpStream> {
    stream::iter(runs).map(|run| open(address, run)).buffer_unordered(AT_ONCE).collect().await
}

/// Opens a stream for each of so many waiting runs. Returns what each takes of the scheduler's memory, in bytes.
async fn measured(streams: usize, bytes_max: f64) -> f64 {
    let cluster: Cluster = cluster(&[]).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let runs = begin(&cluster, &client, streams + 50).await;
    let (first, rest) = runs.split_at(50);
    // The first ones pay for what all share: pools, tables, connections to Redis.
    let shared = open_all(&scheduler.address, first).await;
    let before = scheduler.process.memory_bytes();
    let open = open_all(&scheduler.address, rest).await;
    let each = || (scheduler.process.memory_bytes().saturating_sub(before)) as f64 / streams as f64;
    // Buffers of the requests go soon after them.
    until("an open stream to be small", LONG + Duration::from_millis(streams as u64), async || {
        match each() {
            bytes if bytes < bytes_max => Ok(()),
            bytes => Err(format!("{bytes:.0} bytes each")),
        }
    })
    .await;
    let each = each();
    drop((shared, open));
    each
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_stream_of_a_silent_run_is_small() {
    // The memory of a process grows in pages and arenas, which is much for some hundred streams.
    measured(400, BYTES_MAX * 1.5).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: make pressure"]
#[allow(clippy::print_stderr, reason = "the numbers are what the long forms are for")]
async fn thousands_of_clients_may_follow_silent_runs() {
    let streams = number("PRESSURE_STREAMS", 5_000);
    let each = measured(streams, BYTES_MAX).await;
    eprintln!("{streams} open streams of silent runs: {each:.0} bytes each in the scheduler");
}
