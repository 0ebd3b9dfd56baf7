//! Tests of calls to real local servers, with guard, redirects and time limits.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap as Headers, StatusCode};
use axum::response::{IntoResponse, Redirect};
use axum::routing::{any, get};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::config::HttpConfig;
use crate::http::resolve::Lookup;
use crate::http::watch::{Stage, Waits};
use crate::http::*;

/// Answers from a script, then repeats the last answer.
pub(super) struct Scripted(Mutex<VecDeque<Vec<IpAddr>>>, pub(super) AtomicUsize);

#[async_trait::async_trait]
impl Lookup for Scripted {
    async fn addresses(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
        self.1.fetch_add(1, Ordering::SeqCst);
        let mut script = self.0.lock().unwrap();
        Ok(if script.len() > 1 { script.pop_front().unwrap() } else { script[0].clone() })
    }
}

pub(super) fn scripted(answers: &[&[&str]]) -> Arc<Scripted> {
    let read = |list: &&[&str]| list.iter().map(|address| address.parse().unwrap()).collect();
    Arc::new(Scripted(Mutex::new(answers.iter().map(read).collect()), AtomicUsize::new(0)))
}

pub(super) fn config(allow: &[&str]) -> HttpConfig {
    HttpConfig {
        allow: allow.iter().map(ToString::to_string).collect(),
        redirects_max: 3,
        // The servers of tests have any port.
        tunnel_ports: (1..=u16::MAX).collect(),
        ..HttpConfig::default()
    }
}

pub(super) fn local() -> Http {
    Http::new(&config(&["127.0.0.0/8", "localhost"])).unwrap()
}

fn call(url: &str) -> Call {
    let second = Duration::from_secs(1);
    Call {
        method: Method::GET,
        url: Url::parse(url).unwrap(),
        headers: HeaderMap::new(),
        body: Vec::new(),
        private: Vec::new(),
        waits: Waits { connect: second, write: second, read: second },
        verify: true,
    }
}

pub(super) async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Returns the request it received: method, body length and some headers.
async fn echo(headers: Headers, request: Request) -> String {
    let method = request.method().clone();
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let shown = |name: &str| headers.get(name).map_or("-", |value| value.to_str().unwrap()).to_owned();
    format!(
        "{method} {} {} {} {} {}",
        body.len(),
        shown("content-length"),
        shown("authorization"),
        shown("x-key"),
        shown("content-type")
    )
}

async fn text(mut answer: Answer) -> String {
    let mut all = Vec::new();
    while let Some(piece) = answer.piece().await.unwrap() {
        all.extend_from_slice(&piece);
    }
    String::from_utf8(all).unwrap()
}

#[tokio::test]
async fn addresses_of_this_machine_are_refused_by_whatever_name() {
    let address = serve(Router::new().route("/", get(|| async { "inside" }))).await;
    let port = address.port();
    let http = Http::new(&config(&[])).unwrap();
    for host in ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]", "0"] {
        let refused = http.send(call(&format!("http://{host}:{port}/"))).await;
        assert!(matches!(refused, Err(CallError::Blocked(_))), "{host}: {refused:?}");
    }
    let open = Http::new(&HttpConfig { guard: false, ..config(&[]) }).unwrap();
    assert_eq!(text(open.send(call(&format!("http://{address}/"))).await.unwrap()).await, "inside");
    assert_eq!(text(local().send(call(&format!("http://localhost:{port}/"))).await.unwrap()).await, "inside");
}

#[tokio::test]
async fn a_name_that_turns_private_after_its_check_is_not_called() {
    let address = serve(Router::new().route("/", get(|| async { "inside" }))).await;
    let url = format!("http://rebind.example:{}/", address.port());
    // Check and connection use the same lookup, so a second answer cannot differ.
    let lookup = scripted(&[&["192.0.2.1", "127.0.0.1"]]);
    let http = Http::with_lookup(&config(&[]), lookup.clone()).unwrap();
    assert!(matches!(http.send(call(&url)).await, Err(CallError::Blocked(_))));
    assert_eq!(lookup.1.load(Ordering::SeqCst), 1);
    // A public answer first, a private one for the next call: each call checks the answer it uses.
    let public = "127.0.0.1";
    let lookup = scripted(&[&[public], &["10.0.0.1"]]);
    let http = Http::with_lookup(&config(&["127.0.0.1"]), lookup).unwrap();
    assert_eq!(text(http.send(call(&url)).await.unwrap()).await, "inside");
    let again = Http::with_lookup(&config(&["127.0.0.1"]), scripted(&[&["10.0.0.1"]])).unwrap();
    let refused = again.send(call(&url)).await.unwrap_err().to_string();
    assert!(refused.contains("10.0.0.1, a private address") && refused.contains("http.allow"), "{refused}");
}

#[tokio::test]
async fn private_answers_among_public_ones_are_left_out() {
    let address = serve(Router::new().route("/", get(|| async { "here" }))).await;
    let http = Http::with_lookup(&config(&["127.0.0.1"]), scripted(&[&["10.0.0.1", "127.0.0.1"]])).unwrap();
    let url = format!("http://both.example:{}/", address.port());
    assert_eq!(text(http.send(call(&url)).await.unwrap()).await, "here");
}

#[tokio::test]
async fn every_hop_of_a_redirect_is_checked() {
    let inside = serve(Router::new().route("/", get(|| async { "inside" }))).await;
    let router = Router::new()
        .route(
            "/in",
            get(move || async move { Redirect::temporary(&format!("http://127.0.0.2:{}/", inside.port())) }),
        )
        .route("/ftp", get(|| async { Redirect::temporary("ftp://x/") }))
        .route("/round", get(|| async { Redirect::temporary("/round") }));
    let address = serve(router).await;
    let http = Http::new(&config(&["127.0.0.1"])).unwrap();
    let to = |path: &str| call(&format!("http://{address}{path}"));
    assert!(matches!(http.send(to("/in")).await, Err(CallError::Blocked(_))));
    assert!(matches!(http.send(to("/ftp")).await, Err(CallError::Location(_))));
    assert!(matches!(http.send(to("/round")).await, Err(CallError::Redirects(3))));
}

#[tokio::test]
async fn redirects_change_methods_and_drop_what_is_for_one_host() {
    let other = serve(Router::new().route("/", any(echo))).await;
    let away = move |status: StatusCode| async move {
        (status, [("location", format!("http://{other}/"))]).into_response()
    };
    let near = |status: StatusCode| async move { (status, [("location", "/echo")]).into_response() };
    let router = Router::new()
        .route("/away", any(move || away(StatusCode::TEMPORARY_REDIRECT)))
        .route("/301", any(move || near(StatusCode::MOVED_PERMANENTLY)))
        .route("/302", any(move || near(StatusCode::FOUND)))
        .route("/303", any(move || near(StatusCode::SEE_OTHER)))
        .route("/308", any(move || near(StatusCode::PERMANENT_REDIRECT)))
        .route("/echo", any(echo));
    let address = serve(router).await;
    let http = local();
    for (method, path, seen) in [
        (Method::POST, "/301", "GET 0 - k k"),
        (Method::PUT, "/301", "PUT 4 4 k k"),
        (Method::PUT, "/302", "GET 0 - k k"),
        (Method::POST, "/303", "GET 0 - k k"),
        (Method::POST, "/308", "POST 4 4 k k"),
        (Method::POST, "/away", "POST 4 4 - -"),
    ] {
        let seen = format!("{seen} text/x");
        let mut sent = Call {
            method: method.clone(),
            body: vec!["body".into()],
            ..call(&format!("http://{address}{path}"))
        };
        sent.headers.insert(AUTHORIZATION, HeaderValue::from_static("k"));
        sent.headers.insert("x-key", HeaderValue::from_static("k"));
        sent.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/x"));
        sent.private.push("x-key".parse().unwrap());
        assert_eq!(text(http.send(sent).await.unwrap()).await, seen, "{method} {path}");
    }
}

/// A server that reads and never answers. Returns counts of started and ended connections.
async fn silent() -> (SocketAddr, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (begun.clone(), ended.clone());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (begun, ended) = counts.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 1024];
                while let Ok(1..) = stream.read(&mut buffer).await {
                    begun.fetch_add(1, Ordering::SeqCst);
                }
                ended.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    (address, begun, ended)
}

async fn until(what: &str, is: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(20), async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what} did not come");
}

#[tokio::test]
async fn silence_ends_a_call_by_the_limit_of_its_stage() {
    let (address, _, _) = silent().await;
    let http = local();
    let mut slow = call(&format!("http://{address}/"));
    slow.waits.read = Duration::from_millis(150);
    slow.waits.connect = Duration::from_secs(60);
    let read = http.send(slow.clone()).await;
    assert!(matches!(read, Err(CallError::TimedOut(Stage::Reading, _))), "{read:?}");
    // No one reads, so the socket fills up.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut upload = call(&format!("http://{}/", listener.local_addr().unwrap()));
    upload.method = Method::POST;
    upload.body = vec![vec![0u8; 64 << 20].into()];
    upload.waits.write = Duration::from_millis(300);
    let written = http.send(upload).await;
    assert!(matches!(written, Err(CallError::TimedOut(Stage::Writing, _))), "{written:?}");
}

#[tokio::test]
async fn a_body_that_stops_coming_is_waited_for_no_longer_than_a_read() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 1024]).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await.unwrap();
        std::future::pending::<()>().await;
    });
    let mut slow = call(&format!("http://{address}/"));
    slow.waits.read = Duration::from_millis(500);
    let mut answer = local().send(slow).await.unwrap();
    assert_eq!(answer.piece().await.unwrap().unwrap(), "half");
    assert!(matches!(answer.piece().await, Err(CallError::TimedOut(Stage::Reading, _))));
    serving.abort();
}

#[tokio::test]
async fn a_call_that_is_dropped_hangs_up() {
    let (address, begun, ended) = silent().await;
    let mut slow = call(&format!("http://{address}/"));
    slow.waits.read = Duration::from_secs(60);
    let sending = tokio::spawn(async move { drop(local().send(slow).await) });
    until("the request", || begun.load(Ordering::SeqCst) > 0).await;
    sending.abort();
    until("the end of the connection", || ended.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn connections_are_used_again() {
    let seen = Arc::new(Mutex::new(std::collections::BTreeSet::new()));
    let noted = seen.clone();
    let handler = move |axum::extract::ConnectInfo(from): axum::extract::ConnectInfo<SocketAddr>| async move {
        noted.lock().unwrap().insert(from);
        "x"
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/", get(handler)).into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let http = local();
    for _ in 0..4 {
        text(http.send(call(&format!("http://{address}/"))).await.unwrap()).await;
    }
    assert_eq!(seen.lock().unwrap().len(), 1);
}

/// A server that answers `/` correctly. Other answers contain more bytes than their head announces, and the surplus
/// arrives with the next request. It records the requests.
async fn wordy() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    async fn converse(mut stream: tokio::net::TcpStream, asked: Arc<Mutex<Vec<String>>>) {
        let mut buffer = [0; 4096];
        let mut surplus = "";
        while let Ok(size @ 1..) = stream.read(&mut buffer).await {
            let text = String::from_utf8_lossy(&buffer[..size]);
            let line = text.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
            let answer = match line.split_once(' ').unwrap() {
                (_, "/204") => "204 No Content\r\ncontent-length: 4\r\n\r\n",
                (_, "/304") => "304 Not Modified\r\n\r\n",
                ("HEAD", _) => "200 OK\r\ncontent-length: 4\r\n\r\n",
                _ => "200 OK\r\ncontent-length: 2\r\n\r\nok",
            };
            let sent = stream.write_all(format!("{surplus}HTTP/1.1 {answer}").as_bytes()).await;
            surplus = if sent.is_ok() && line.ends_with(" /") { "" } else { "more" };
            asked.lock().unwrap().push(line);
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, noted.clone()));
        }
    });
    (address, asked)
}

#[tokio::test]
async fn a_body_where_none_belongs_is_not_the_answer_to_the_next_call() {
    for (method, path) in
        [(Method::GET, "/204"), (Method::POST, "/204"), (Method::GET, "/304"), (Method::HEAD, "/head")]
    {
        let (address, asked) = wordy().await;
        let http = local();
        let to = |method: &Method, path: &str| Call {
            method: method.clone(),
            ..call(&format!("http://{address}{path}"))
        };
        for _ in 0..3 {
            let bare = http.send(to(&method, path)).await.unwrap();
            assert_eq!(text(bare).await, "", "{method} {path}");
            assert_eq!(text(http.send(to(&Method::POST, "/")).await.unwrap()).await, "ok", "{method} {path}");
        }
        assert_eq!(asked.lock().unwrap().len(), 6, "{method} {path}: nothing is sent twice");
    }
}

#[tokio::test]
async fn a_call_that_reads_what_is_left_of_another_is_made_again_if_it_only_asks() {
    for (method, works, asked_for) in [
        (Method::GET, true, &["GET /long", "GET /", "GET /"][..]),
        (Method::POST, false, &["GET /long", "POST /"]),
    ] {
        let (address, asked) = wordy().await;
        let http = local();
        assert_eq!(text(http.send(call(&format!("http://{address}/long"))).await.unwrap()).await, "ok");
        let next = Call { method, ..call(&format!("http://{address}/")) };
        let answer = http.send(next).await;
        assert_eq!(answer.is_ok(), works, "{answer:?}");
        assert_eq!(*asked.lock().unwrap(), asked_for);
    }
}

#[tokio::test]
async fn a_proxy_is_asked_for_every_address_and_not_called_itself() {
    let proxy =
        serve(Router::new().fallback(|request: Request| async move { request.uri().to_string() })).await;
    let config = HttpConfig { proxy: format!("http://u:p@{proxy}").into(), ..config(&[]) };
    let http = Http::new(&config).unwrap();
    let answer = http.send(call("http://public.example/x?y=1")).await.unwrap();
    assert!(answer.proxied);
    assert_eq!(text(answer).await, "http://public.example/x?y=1");
    for url in [format!("http://{proxy}/"), "http://10.0.0.1/".into()] {
        assert!(matches!(http.send(call(&url)).await, Err(CallError::Blocked(_))), "{url}");
    }
    let wrong = HttpConfig { proxy: "socks5://u:secret@x".into(), ..HttpConfig::default() };
    let said = Http::new(&wrong).unwrap_err().to_string();
    assert!(said.contains("http.proxy") && !said.contains("secret"), "{said}");
}

#[tokio::test]
async fn refused_and_broken_connections_are_told_without_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let breaking = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(stream);
        }
    });
    let broken = local().send(call(&format!("http://{address}/?key=secret"))).await.unwrap_err();
    assert!(matches!(&broken, CallError::Transport(text) if !text.contains("secret")), "{broken}");
    breaking.abort();
    let _ = breaking.await;
    let refused = local().send(call(&format!("http://{address}/"))).await.unwrap_err();
    assert!(matches!(&refused, CallError::Transport(text) if text.contains("refused")), "{refused}");
}
