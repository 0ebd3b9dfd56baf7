//! A request that is refused before its body is read: the client gets the answer, and its connection goes on.

use std::time::{Duration, Instant};

use tidemill_tests::cluster::Cluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends a POST with a body of `size` bytes over the connection, all of it before the answer is read. Returns the head
/// of the answer.
async fn post(stream: &mut TcpStream, path: &str, key: &str, size: usize) -> String {
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {size}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("the head is taken");
    stream.write_all(&vec![b' '; size]).await.expect("the whole body is taken");
    answer(stream).await
}

/// Reads one answer; its body must have a `content-length`.
async fn answer(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    let end = loop {
        assert_ne!(
            stream.read_buf(&mut read).await.expect("the connection is open"),
            0,
            "the connection was closed"
        );
        if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("the answer has a length");
    let length: usize = length.parse().expect("a length is a number");
    while read.len() < end + length {
        assert_ne!(
            stream.read_buf(&mut read).await.expect("the connection is open"),
            0,
            "the answer broke off"
        );
    }
    head
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_reads_the_refusal_of_a_large_request_and_goes_on_with_its_connection() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let mut stream = TcpStream::connect(&scheduler.address).await.expect("the scheduler listens");
    for (path, key, size, status) in [
        ("/v1/workflows/run", "app-wrong", 14 << 20, "401"),
        ("/v1/no/such/route", "app-wrong", 14 << 20, "404"),
        ("/v1/no/such/route", "app-wrong", 2, "404"),
        ("/api/v1/apps", tidemill_tests::cluster::ADMIN_KEY, 50 << 20, "413"),
        ("/v1/workflows/run", "app-wrong", 2, "401"),
    ] {
        let head = post(&mut stream, path, key, size).await;
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{path} with {size} bytes: {head}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_who_sends_no_body_is_answered_soon_and_not_asked_for_one() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    for (expect, longest) in [("", 5), ("expect: 100-continue\r\n", 2)] {
        let mut stream = TcpStream::connect(&scheduler.address).await.expect("the scheduler listens");
        let head = format!(
            "POST /v1/workflows/run HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer app-wrong\r\n\
             content-type: application/json\r\n{expect}content-length: 1000\r\n\r\n"
        );
        let begin = Instant::now();
        stream.write_all(head.as_bytes()).await.expect("the head is taken");
        let head = answer(&mut stream).await;
        assert!(head.starts_with("http/1.1 401"), "{expect}: {head}");
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(longest), "{expect}: {took:?}");
    }
}
