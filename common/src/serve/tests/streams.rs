//! Event streams that take over their connection: what clients see is what the HTTP library would have written.

use std::convert::Infallible;

use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::*;
use crate::serve::StreamLimits;

/// The frames as a body.
fn frames(frames: mpsc::Receiver<Bytes>) -> Body {
    let frames = stream::unfold(frames, async |mut frames| Some((frames.recv().await?, frames)));
    Body::from_stream(frames.map(Ok::<_, Infallible>))
}

/// Streams of a test: the frames that are sent through the other end.
struct Streams {
    server: Server,
    opened: mpsc::Receiver<mpsc::Sender<Bytes>>,
}

const LIMITS: StreamLimits = StreamLimits { buffer_bytes: 100_000, stalled: NEVER };

impl Streams {
    async fn start(limits: Limits, of_streams: StreamLimits) -> Self {
        let (opening, opened) = mpsc::channel(8);
        let live = move || async move {
            let (sender, receiver) = mpsc::channel(1);
            opening.send(sender).await.unwrap();
            marked(frames(receiver), of_streams)
        };
        let short = |is_marked: bool| {
            move |body: Bytes| async move {
                let parts = [format!("got {}", body.len()), String::new(), "x".repeat(5000), "end".into()];
                let body = Body::from_stream(stream::iter(parts.map(Ok::<_, Infallible>)));
                if is_marked { marked(body, of_streams) } else { headed(body) }
            }
        };
        let router = Router::new()
            .route("/live", get(live))
            .route("/short", get(short(true)).post(short(true)))
            .route("/library", get(short(false)).post(short(false)))
            .route("/", get(|| async { "here" }));
        Self { server: Server::with(limits, router).await, opened }
    }

    /// Opens a stream with one frame.
    async fn open(&mut self) -> (Client, mpsc::Sender<Bytes>) {
        let mut client = self.server.connect().await;
        client.send("GET /live HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let sender = timeout(LONG, self.opened.recv()).await.expect("it is opened").unwrap();
        sender.send(Bytes::from_static(b"first")).await.unwrap();
        client.reads("5\r\nfirst\r\n").await;
        (client, sender)
    }
}

fn headed(body: Body) -> Response {
    ([("content-type", "text/event-stream"), ("x-own", "1"), ("date", "then")], body).into_response()
}

fn marked(body: Body, limits: StreamLimits) -> Response {
    let mut response = headed(body);
    response.extensions_mut().insert(limits);
    response
}

/// All that the server answers to a request whose last one closes the connection.
async fn whole_answer(server: &Server, requests: &str) -> String {
    let mut client = server.connect().await;
    client.send(requests).await;
    let mut all = Vec::new();
    timeout(LONG, client.0.read_to_end(&mut all)).await.expect("it ends").unwrap();
    String::from_utf8(all).unwrap()
}

#[tokio::test]
async fn a_stream_is_written_as_the_http_library_writes_it() {
    let streams = Streams::start(PATIENT, LIMITS).await;
    let last = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    for (request, then) in [
        ("GET PATH HTTP/1.1\r\nhost: x\r\n\r\n", last),
        ("GET PATH HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", ""),
        ("GET PATH HTTP/1.1\r\nhost: x\r\nConnection: foo, Close\r\n\r\n", ""),
        ("HEAD PATH HTTP/1.1\r\nhost: x\r\n\r\n", last),
        ("GET PATH HTTP/1.0\r\n\r\n", ""),
        ("POST PATH HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc", last),
        ("POST PATH HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", last),
        ("POST PATH HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\nabc", last),
        ("GET PATH HTTP/1.1\r\nhost: x\r\n\r\nGET PATH HTTP/1.1\r\nhost: x\r\n\r\n", last),
        ("GET / HTTP/1.1\r\nhost: x\r\n\r\nGET PATH HTTP/1.1\r\nhost: x\r\n\r\n", last),
    ] {
        let of = async |path: &str| {
            let text = format!("{request}{then}").replace("PATH", path);
            let answer = whole_answer(&streams.server, &text).await;
            // The plain answers have the time of now.
            let lines = answer.split_inclusive("\r\n").filter(|line| !line.starts_with("date: "));
            lines.collect::<String>()
        };
        let (ours, library) = (of("/short").await, of("/library").await);
        assert_eq!(ours, library, "{request}");
        assert_eq!(ours.contains("got"), !request.starts_with("HEAD"), "{ours}");
    }
}

#[tokio::test]
async fn a_stream_is_silent_for_any_time_and_its_connection_is_used_again() {
    let short = Duration::from_millis(100);
    let limits = Limits { idle: short, header_timeout: short, ..PATIENT };
    let mut streams = Streams::start(limits, StreamLimits { stalled: short, ..LIMITS }).await;
    let (mut client, sender) = streams.open().await;
    // Meanwhile others are cut.
    for _ in 0..3 {
        streams.server.connect().await.sees_the_end().await;
    }
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    sender.send(Bytes::from_static(b"last")).await.unwrap();
    drop(sender);
    let read = client.reads("here").await;
    assert!(read.starts_with("4\r\nlast\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"), "{read}");
    client.sees_the_end().await;
}

#[tokio::test]
async fn a_stream_ends_when_its_client_leaves() {
    let mut streams = Streams::start(PATIENT, LIMITS).await;
    let (client, sender) = streams.open().await;
    drop(client);
    timeout(LONG, sender.closed()).await.expect("the server drops the stream");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_asked_for_no_more_and_cut_without_a_last_chunk() {
    let stalled = Duration::from_millis(200);
    let mut streams = Streams::start(PATIENT, StreamLimits { stalled, ..LIMITS }).await;
    let (mut client, sender) = streams.open().await;
    let frame = Bytes::from("x".repeat(50_000));
    let mut sent = 0;
    // The system's buffers take some of it, then the server's buffer is full.
    while timeout(LONG, sender.send(frame.clone())).await.expect("it is cut").is_ok() {
        sent += frame.len();
    }
    let mut all = Vec::new();
    let _ = timeout(LONG, client.0.read_to_end(&mut all)).await.expect("it is closed");
    assert!(all.len() < sent && !all.ends_with(b"0\r\n\r\n"), "{} of {sent}", all.len());
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_everything_and_nothing_is_held_for_it_beyond_the_limit() {
    let mut streams = Streams::start(PATIENT, LIMITS).await;
    let (mut client, sender) = streams.open().await;
    let frame = Bytes::from("x".repeat(50_000));
    let wanted = 200 * frame.len();
    let sending = tokio::spawn(async move {
        for _ in 0..200 {
            sender.send(frame.clone()).await.unwrap();
        }
    });
    let mut all = Vec::with_capacity(wanted);
    let mut piece = [0; 4096];
    while !all.ends_with(b"\r\n0\r\n\r\n") {
        let n = timeout(LONG, client.0.read(&mut piece)).await.expect("more comes").unwrap();
        assert!(n > 0, "closed after {} bytes", all.len());
        all.extend(&piece[..n]);
    }
    sending.await.unwrap();
    assert_eq!(all.iter().filter(|byte| **byte == b'x').count(), wanted);
}

#[tokio::test]
async fn a_stop_waits_for_a_stream_and_then_closes_its_connection() {
    let mut streams = Streams::start(PATIENT, LIMITS).await;
    let (mut client, sender) = streams.open().await;
    streams.server.stop.send(()).unwrap();
    sender.send(Bytes::from_static(b"last")).await.unwrap();
    assert!(!streams.server.task.is_finished());
    drop(sender);
    client.reads("0\r\n\r\n").await;
    client.sees_the_end().await;
    timeout(LONG, streams.server.task).await.expect("it ends").unwrap();
}
