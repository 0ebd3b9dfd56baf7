//! Tests a real listener with clients that send slowly, too little or nothing.

mod streams;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::routing::{get, post};
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Limits, ListenerSettings, Peer, listen, serve};
use tidemill_base::limits::HEAD_BYTES_MAX;

/// Longer than any expected wait.
const LONG: Duration = Duration::from_secs(30);
/// Longer than a test.
const NEVER: Duration = Duration::from_secs(3600);

const PATIENT: Limits = Limits { header_timeout: NEVER, idle: NEVER, connections_max: 100 };

struct Server {
    address: SocketAddr,
    /// Lets one `/slow` answer, or one `/stream` end.
    go: Arc<Semaphore>,
    /// Notified when a request to `/slow` begins.
    began: Arc<Notify>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Server {
    async fn start(limits: Limits) -> Self {
        let (go, began) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
        let (go_of, began_of) = (go.clone(), began.clone());
        let slow = move || async move {
            began_of.notify_one();
            go_of.acquire().await.unwrap().forget();
            "slow"
        };
        let go_of = go.clone();
        let follow = move || async move {
            let first =
                stream::once(async { Ok::<_, std::convert::Infallible>(Bytes::from_static(b"first")) });
            let last = stream::once(async move {
                go_of.acquire().await.unwrap().forget();
                Ok(Bytes::from_static(b"last"))
            });
            Body::from_stream(first.chain(last))
        };
        let router =
            Router::new()
                .route("/", get(|| async { "here" }))
                .route("/livez", get(|| async { "alive" }))
                .route(
                    "/peer",
                    get(|request: Request| async move {
                        request.extensions().get::<Peer>().unwrap().0.to_string()
                    }),
                )
                .route("/slow", get(slow))
                .route("/stream", get(follow))
                .route("/body", post(|_: HeaderMap, body: Bytes| async move { body.len().to_string() }));
        Self { go, began, ..Self::with(limits, router).await }
    }

    /// Serves these routes.
    async fn with(limits: Limits, router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let settings = ListenerSettings { name: "test", setting: "test.connections_max", limits };
        let task = tokio::spawn(serve(settings, listener, router, async move {
            let _ = stopped.await;
        }));
        Self { address, go: Arc::new(Semaphore::new(0)), began: Arc::default(), stop, task }
    }

    async fn connect(&self) -> Client {
        Client(TcpStream::connect(self.address).await.unwrap())
    }

    /// A client whose first request was answered, with its connection still open.
    async fn connect_and_ask(&self) -> Client {
        let mut client = self.connect().await;
        client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        client.reads("here").await;
        client
    }
}

struct Client(TcpStream);

impl Client {
    async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until the answer contains `part`.
    async fn reads(&mut self, part: &str) -> String {
        let mut read = String::new();
        while !read.contains(part) {
            let mut bytes = [0; 1024];
            let n =
                timeout(LONG, self.0.read(&mut bytes)).await.unwrap_or_else(|_| panic!("no {part}: {read}"));
            let n = n.unwrap_or(0);
            assert!(n > 0, "closed before {part}: {read}");
            read.push_str(&String::from_utf8_lossy(&bytes[..n]));
        }
        read
    }

    /// Waits until the server closes the connection.
    async fn sees_the_end(mut self) {
        let mut rest = Vec::new();
        // Closing with unread bytes is an error of the connection.
        let _ = timeout(LONG, self.0.read_to_end(&mut rest)).await.expect("the server closes the connection");
        assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    }
}

#[tokio::test]
async fn requests_are_answered_over_one_connection_and_know_their_peer() {
    let server = Server::start(PATIENT).await;
    let mut client = server.connect_and_ask().await;
    client.send("GET /peer HTTP/1.1\r\nhost: x\r\n\r\nGET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let own = client.0.local_addr().unwrap().to_string();
    let read = client.reads("alive").await;
    assert!(read.contains(&own), "{read}");
    client.send("POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nab").await;
    client.send("cd").await;
    client.reads("\r\n\r\n4").await;
}

#[tokio::test]
async fn a_head_that_does_not_come_in_time_is_cut_also_one_that_comes_by_the_byte() {
    let server = Server::start(Limits { header_timeout: Duration::from_millis(200), ..PATIENT }).await;
    let silent = server.connect().await;
    let mut slow = server.connect_and_ask().await;
    let by_the_byte = tokio::spawn(async move {
        loop {
            if slow.0.write_all(b"G").await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    silent.sees_the_end().await;
    timeout(LONG, by_the_byte).await.expect("a byte now and then keeps no connection").unwrap();
}

#[tokio::test]
async fn an_idle_connection_is_cut_and_one_whose_body_does_not_come() {
    let server = Server::start(Limits { idle: Duration::from_millis(200), ..PATIENT }).await;
    let idle = server.connect_and_ask().await;
    let mut half = server.connect().await;
    half.send("POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc").await;
    idle.sees_the_end().await;
    half.sees_the_end().await;
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused_before_it_is_whole_and_a_long_body_is_taken() {
    let server = Server::start(PATIENT).await;
    let mut endless = server.connect().await;
    endless.send("GET / HTTP/1.1\r\nhost: x\r\nx-long: ").await;
    let answer = async {
        // It may be closed while this writes.
        for _ in 0..2 * HEAD_BYTES_MAX / 1024 {
            if endless.0.write_all(&[b'a'; 1024]).await.is_err() {
                break;
            }
        }
        let mut answer = Vec::new();
        let _ = endless.0.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    };
    let answer = timeout(LONG, answer).await.expect("the server does not wait for its end");
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");

    let mut usual = server.connect().await;
    let long = "a".repeat(HEAD_BYTES_MAX / 2);
    usual.send(&format!("GET / HTTP/1.1\r\nhost: x\r\nx-long: {long}\r\n\r\n")).await;
    usual.reads("here").await;
    let body = "b".repeat(20 * HEAD_BYTES_MAX);
    usual
        .send(&format!("POST /body HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
        .await;
    usual.reads(&body.len().to_string()).await;
}

#[tokio::test]
async fn many_connections_may_wait_to_be_taken() {
    /// More than a listener of the standard library lets wait.
    const WAITING: usize = 300;
    let room = std::fs::read_to_string("/proc/sys/net/core/somaxconn").ok();
    if room.and_then(|room| room.trim().parse::<usize>().ok()).is_some_and(|room| room < WAITING) {
        return;
    }
    let listener = listen("localhost:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    for _ in 0..WAITING {
        // Where there is no room the system is silent for a second, then for more and more.
        let connected = timeout(Duration::from_millis(900), TcpStream::connect(address)).await;
        waiting.push(connected.expect("there is room").unwrap());
    }
    assert!(listen(&address.to_string()).await.is_err(), "it is taken");
    assert!(listen("no port").await.is_err());
}

#[tokio::test]
async fn a_request_in_progress_outlives_every_time_limit() {
    let short = Duration::from_millis(100);
    let server = Server::start(Limits { idle: short, header_timeout: short, ..PATIENT }).await;
    let mut following = server.connect().await;
    following.send("GET /stream HTTP/1.1\r\nhost: x\r\n\r\n").await;
    following.reads("first").await;
    let mut waiting = server.connect().await;
    waiting.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    // Meanwhile others are cut.
    for _ in 0..3 {
        server.connect().await.sees_the_end().await;
    }
    server.go.add_permits(2);
    following.reads("last").await;
    waiting.reads("slow").await;
}

#[tokio::test]
async fn at_the_limit_the_one_that_is_idle_longest_makes_room() {
    let server = Server::start(Limits { connections_max: 4, ..PATIENT }).await;
    let mut busy = server.connect().await;
    busy.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    server.began.notified().await;
    let mut first = server.connect_and_ask().await;
    let mut sends_its_head = server.connect_and_ask().await;
    sends_its_head.send("GET / HT").await;
    let third = server.connect_and_ask().await;
    // It has sent another request, so it is not idle longest.
    first.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    first.reads("here").await;

    let new = server.connect_and_ask().await;
    sends_its_head.sees_the_end().await;
    let newer = server.connect_and_ask().await;
    third.sees_the_end().await;
    server.go.add_permits(1);
    busy.reads("slow").await;
    first.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    first.reads("here").await;
    drop((new, newer));
}

#[tokio::test]
async fn when_all_are_busy_probes_are_answered_and_others_must_retry() {
    let server = Server::start(Limits { connections_max: 1, ..PATIENT }).await;
    let mut busy = server.connect().await;
    busy.send("GET /stream HTTP/1.1\r\nhost: x\r\n\r\n").await;
    busy.reads("first").await;
    let mut probe = server.connect().await;
    probe.send("GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await;
    probe.reads("alive").await;
    probe.sees_the_end().await;
    let mut other = server.connect().await;
    other.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let answer = other.reads("try again").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("test.connections_max"), "{answer}");
    server.go.add_permits(1);
    busy.reads("last").await;
    drop(busy);
}

#[tokio::test]
async fn a_stop_accepts_no_more_and_answers_open_requests() {
    let server = Server::start(PATIENT).await;
    let (idle, silent) = (server.connect_and_ask().await, server.connect().await);
    let mut waiting = server.connect().await;
    waiting.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    server.began.notified().await;
    server.stop.send(()).unwrap();
    idle.sees_the_end().await;
    silent.sees_the_end().await;
    assert!(!server.task.is_finished());
    assert!(TcpStream::connect(server.address).await.is_err(), "it listens on");
    server.go.add_permits(1);
    waiting.reads("slow").await;
    timeout(LONG, server.task).await.expect("it ends").unwrap();
}
