//! The proxy with a client that speaks to it byte by byte, and real local servers.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::Request as Asked;
use axum::response::Redirect;
use axum::routing::any;
use tidemill_base::limits::CODE_CALL_NOTES_MAX;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::config::HttpConfig;
use crate::http::tests::{config, local, scripted, serve as server};

/// Sends a text to a proxy, and returns everything that comes back until the end.
async fn says(http: Http, text: &str) -> String {
    let (mut client, _meter) = client(http, 1 << 20);
    client.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn client(http: Http, bytes_max: u64) -> (DuplexStream, Arc<Meter>) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let meter = Meter::new(bytes_max);
    tokio::spawn(serve(Arc::new(http), theirs, meter.clone()));
    (ours, meter)
}

async fn echo(request: Asked) -> String {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let mut names: Vec<_> =
        head.headers.iter().map(|(name, value)| format!("{name}={}", value.to_str().unwrap())).collect();
    names.sort();
    format!("{} {} [{}] {}", head.method, head.uri, String::from_utf8_lossy(&body), names.join(" "))
}

#[tokio::test]
async fn a_request_is_passed_on_with_its_body_and_without_headers_of_one_hop() {
    let address = server(Router::new().fallback(any(echo))).await;
    let request = format!(
        "POST http://{address}/a?b=c HTTP/1.1\r\nHost: other.example\r\nX-Own: 1\r\nX-Hop: 2\r\nConnection: close, x-hop\r\n\
         Proxy-Authorization: Basic eA==\r\nContent-Length: 4\r\n\r\nbody"
    );
    let answer = says(local(), &request).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    let wanted = format!("POST /a?b=c [body] accept=*/* content-length=4 host={address}");
    assert!(answer.contains(&wanted) && answer.contains("x-own=1"), "{answer}");
    assert!(!answer.contains("x-hop") && !answer.contains("proxy-auth"), "{answer}");
}

#[tokio::test]
async fn requests_of_one_connection_are_each_checked() {
    let address = server(Router::new().fallback(any(echo))).await;
    let http = Http::new(&config(&["127.0.0.1"])).unwrap();
    let answer = says(
        http,
        &format!(
            "GET http://{address}/1 HTTP/1.1\r\nHost: x\r\n\r\nGET http://10.1.2.3/2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        ),
    )
    .await;
    assert!(
        answer.contains("GET /1") && answer.contains("HTTP/1.1 403 10.1.2.3 is a private address"),
        "{answer}"
    );
}

#[tokio::test]
async fn what_the_guard_refuses_is_refused_with_its_reason() {
    let address = server(Router::new().fallback(any(echo))).await;
    let port = address.port();
    for (line, says_so) in [
        (format!("GET http://{address}/ HTTP/1.1"), "403 127.0.0.1 is a loopback address; http.allow"),
        (format!("GET http://2130706433:{port}/ HTTP/1.1"), "403 127.0.0.1 is a loopback address"),
        (format!("CONNECT {address} HTTP/1.1"), "403 127.0.0.1 is a loopback address"),
        (format!("CONNECT 0x7f.1:{port} HTTP/1.1"), "403 127.0.0.1 is a loopback address"),
        (format!("CONNECT [::ffff:127.0.0.1]:{port} HTTP/1.1"), "a loopback address; http.allow"),
        ("CONNECT 169.254.169.254:80 HTTP/1.1".into(), "403 169.254.169.254 is a cloud's metadata address"),
        (format!("CONNECT localhost:{port} HTTP/1.1"), "403 localhost is at"),
        ("CONNECT localhost HTTP/1.1".into(), "400 CONNECT needs a host and a port"),
        ("GET / HTTP/1.1".into(), "400 this proxy takes requests with an http:// address"),
        ("GET https://1.1.1.1/ HTTP/1.1".into(), "400 this proxy takes"),
        ("GET file:///etc/passwd HTTP/1.1".into(), "400 "),
    ] {
        let http = Http::new(&config(&[])).unwrap();
        let answer = says(http, &format!("{line}\r\nHost: x\r\nConnection: close\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 4") && answer.contains(says_so), "{line}: {answer}");
    }
}

#[tokio::test]
async fn a_name_is_looked_up_once_and_connected_to_at_the_checked_address() {
    let address = server(Router::new().fallback(any(echo))).await;
    let port = address.port();
    let line = format!("CONNECT rebound.example:{port} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    // A second look-up would give another address.
    let lookup = scripted(&[&["127.0.0.1"], &["10.0.0.1"]]);
    let http = Http::with_lookup(&config(&["127.0.0.1"]), lookup.clone()).unwrap();
    let (mut client, _) = client(http, 1 << 20);
    client.write_all(line.as_bytes()).await.unwrap();
    let mut begin = [0; 12];
    client.read_exact(&mut begin).await.unwrap();
    assert_eq!((&begin, lookup.1.load(Ordering::SeqCst)), (b"HTTP/1.1 200", 1));
    let http = Http::with_lookup(&config(&[]), scripted(&[&["127.0.0.1"], &["1.1.1.1"]])).unwrap();
    let answer = says(http, &line).await;
    assert!(answer.contains("403 rebound.example is at 127.0.0.1, a loopback address"), "{answer}");
}

/// Counts the lines of the proxy that are logged without special settings.
struct Counted(Arc<AtomicUsize>);

impl tracing::Subscriber for Counted {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let about = event.metadata();
        if *about.level() <= tracing::Level::INFO
            && about.target().starts_with("tidemill_common::http::proxy")
        {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// A server that sends back what it gets.
async fn returning() -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut from, mut to) = stream.split();
            let _ = tokio::io::copy(&mut from, &mut to).await;
        }
    });
    address
}

#[tokio::test]
async fn a_tunnel_carries_tls_both_ways_and_nothing_else() {
    let address = returning().await;
    for (sent, is_carried) in
        [("\x16\x03\x01 hello", true), ("GET / HTTP/1.1\r\n\r\n", false), ("*1\r\n", false)]
    {
        let (mut client, _) = client(local(), 1 << 20);
        let head = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        client.write_all((head + sent).as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
        let mut back = vec![0; sent.len()];
        let carried = client.read_exact(&mut back).await;
        assert_eq!(carried.is_ok() && back == sent.as_bytes(), is_carried, "{sent:?}");
    }
}

#[tokio::test]
async fn tunnels_go_only_to_the_ports_of_the_settings() {
    let address = returning().await;
    let port = address.port();
    for (tunnel_ports, wanted) in [
        (vec![port], "HTTP/1.1 200".to_owned()),
        (vec![443, port], "HTTP/1.1 200".to_owned()),
        (
            HttpConfig::default().tunnel_ports,
            format!("HTTP/1.1 403 tunnels go only to the ports of http.tunnel_ports (443), not {port}"),
        ),
        (
            vec![],
            format!("HTTP/1.1 403 tunnels go only to the ports of http.tunnel_ports (none), not {port}"),
        ),
    ] {
        for host in ["127.0.0.1", "2130706433"] {
            let http =
                Http::new(&HttpConfig { tunnel_ports: tunnel_ports.clone(), ..config(&["127.0.0.1"]) })
                    .unwrap();
            let (mut client, _) = client(http, 1 << 20);
            let line = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            client.write_all(line.as_bytes()).await.unwrap();
            let mut begin = vec![0; wanted.len()];
            client.read_exact(&mut begin).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&begin), wanted, "{tunnel_ports:?} {host}");
        }
    }
    // The name of a refused tunnel is not even looked up.
    let lookup = scripted(&[&["127.0.0.1"]]);
    let http = HttpConfig { tunnel_ports: vec![443], ..config(&["127.0.0.1"]) };
    let http = Http::with_lookup(&http, lookup.clone()).unwrap();
    let answer =
        says(http, "CONNECT redis.example:6379 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 403 ") && lookup.1.load(Ordering::SeqCst) == 0, "{answer}");
}

#[tokio::test]
async fn only_the_usual_methods_are_passed_on() {
    let address = server(Router::new().fallback(any(echo))).await;
    for (method, is_passed) in [
        ("GET", true),
        ("POST", true),
        ("PUT", true),
        ("PATCH", true),
        ("DELETE", true),
        ("OPTIONS", true),
        ("SET", false),
        ("EVAL", false),
        ("TRACE", false),
        ("get", false),
    ] {
        let request = format!("{method} http://{address}/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let answer = says(local(), &request).await;
        assert_eq!(answer.contains(&format!("{method} /a []")), is_passed, "{method}: {answer}");
        let is_refused = answer.starts_with("HTTP/1.1 405 this proxy passes on GET, HEAD, POST");
        assert_eq!(is_refused, !is_passed, "{method}: {answer}");
    }
}

#[tokio::test]
async fn a_flood_of_calls_writes_a_bounded_number_of_lines() {
    let lines = Arc::new(AtomicUsize::new(0));
    let _counted = tracing::subscriber::set_default(Counted(lines.clone()));
    let (client, meter) = client(Http::new(&config(&[])).unwrap(), 1 << 30);
    let call = "GET http://10.1.2.3/ HTTP/1.1\r\nHost: x\r\n\r\n";
    let calls = call.repeat(CODE_CALL_NOTES_MAX as usize + 500);
    let last = "GET http://10.1.2.3/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let (mut from, mut to) = tokio::io::split(client);
    let mut answers = String::new();
    let (wrote, read) = tokio::join!(
        async { to.write_all((calls + last).as_bytes()).await },
        from.read_to_string(&mut answers)
    );
    wrote.and(read).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 403").count(), CODE_CALL_NOTES_MAX as usize + 501);
    let logged = lines.load(Ordering::SeqCst);
    assert_eq!((logged, meter.may_note()), (CODE_CALL_NOTES_MAX as usize + 1, false));
}

#[tokio::test]
async fn a_redirect_is_left_to_the_client() {
    let to = "http://169.254.169.254/latest";
    let address = server(Router::new().fallback(any(move || async move { Redirect::temporary(to) }))).await;
    let answer =
        says(local(), &format!("GET http://{address}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
            .await;
    assert!(answer.starts_with("HTTP/1.1 307") && answer.contains(to), "{answer}");
}

#[tokio::test]
async fn a_connection_ends_when_the_meter_is_passed() {
    let big = "x".repeat(100_000);
    let address = server(Router::new().fallback(any(move || async move { big }))).await;
    let (mut client, meter) = client(local(), 50_000);
    let request = format!("GET http://{address}/ HTTP/1.1\r\nHost: x\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer).await;
    assert!(meter.is_passed() && answer.len() < 60_000, "{}", answer.len());
}

#[tokio::test]
async fn tunnels_use_the_proxy_of_the_settings() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = listener.local_addr().unwrap();
    let heard = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(b"HTTP/1.1 200 fine\r\n\r\n").await.unwrap();
        assert_eq!(stream.read_u16().await.unwrap(), 0x1603);
        stream.write_all(b"through").await.unwrap();
        String::from_utf8(head).unwrap()
    });
    let proxy = format!("http://user:p%40ss@{upstream}");
    let http = Http::new(&HttpConfig { proxy: proxy.into(), ..config(&[]) }).unwrap();
    let answer = says(http, "CONNECT far.example:443 HTTP/1.1\r\nHost: x\r\n\r\n\x16\x03").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nthrough"), "{answer}");
    let heard = heard.await.unwrap();
    assert!(heard.starts_with("CONNECT far.example:443 HTTP/1.1\r\n"), "{heard}");
    assert!(heard.contains("Proxy-Authorization: Basic dXNlcjpwQHNz\r\n"), "{heard}");
}
