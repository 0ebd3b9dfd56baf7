//! Tests of code that may use the network: what it reaches through the guard, and that nothing else opens with it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tidemill_common::config::HttpConfig;
use tidemill_common::http::Http;

use super::*;

/// A sandbox with the network, whose guard lets these addresses through.
pub(super) fn networked(config: &CodeConfig, allow: &[&str]) -> BuiltIn {
    let allow = allow.iter().map(ToString::to_string).collect();
    // The servers of tests have any port.
    let tunnel_ports = (1..=u16::MAX).collect();
    let http = Http::new(&HttpConfig { allow, tunnel_ports, ..HttpConfig::default() }).unwrap();
    let config = CodeConfig { network: true, ..config.clone() };
    let host = Host::at(env!("CARGO_BIN_EXE_tidemill-worker"));
    BuiltIn::with_network(&config, Some(host), Some(Arc::new(http)))
}

/// A server that answers each path with that path.
pub(super) async fn server() -> SocketAddr {
    let router = Router::new()
        .route("/big", get(async || "x".repeat(200_000)))
        .fallback(async |uri: axum::http::Uri| format!("it is {}", uri.path()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A server that sends back what it gets.
async fn returning() -> SocketAddr {
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

/// A `main` with these lines as its body.
fn body(lines: &str) -> String {
    let indented: Vec<String> = lines.lines().map(|line| format!("    {line}")).collect();
    let imports =
        "import os, sys, socket, http.client, subprocess, threading, ctypes, urllib.request, urllib.error";
    format!("{imports}\ndef main():\n{}", indented.join("\n"))
}

#[tokio::test]
async fn code_calls_a_server_that_the_guard_lets_through() {
    let (address, sandbox) = (server().await, networked(&CodeConfig::default(), &["127.0.0.1"]));
    let ask = format!("return {{'r': urllib.request.urlopen('http://{address}/a').read().decode()}}");
    assert_eq!(python(&sandbox, &body(&ask)).await, Ok(json!({"r": "it is /a"})));
    // A tunnel, as for https: this is how TLS begins.
    let tunnel = format!(
        "c = socket.create_connection(('127.0.0.1', 3128))\nc.sendall(b'CONNECT {0} HTTP/1.1\\r\\nHost: {0}\\r\\n\\r\\n')\n\
         head = c.recv(1000)\nc.sendall(b'\\x16\\x03\\x01 hello')\nreturn {{'r': [head[:12].decode(), c.recv(9)[3:].decode()]}}",
        returning().await
    );
    assert_eq!(python(&sandbox, &body(&tunnel)).await, Ok(json!({"r": ["HTTP/1.1 200", " hello"]})));
    // More calls than connections, one after the other, and an event loop.
    let many = format!(
        "for n in range(40): urllib.request.urlopen(f'http://{address}/{{n}}').read()\nimport asyncio\n\
         async def ask():\n    reader, writer = await asyncio.open_connection('127.0.0.1', 3128)\n\
         \x20   writer.write(b'GET http://{address}/c HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n')\n\
         \x20   return (await reader.read()).decode()\nreturn {{'r': asyncio.run(ask()).endswith('it is /c')}}"
    );
    assert_eq!(python(&sandbox, &body(&many)).await, Ok(json!({"r": true})));
}

#[tokio::test]
async fn the_guard_refuses_with_its_reason() {
    let (address, sandbox) = (server().await, networked(&CodeConfig::default(), &[]));
    let ask = format!(
        "try: urllib.request.urlopen('http://{address}/')\n\
         except urllib.error.HTTPError as error: return {{'r': [error.code, error.read().decode()]}}"
    );
    let told = python(&sandbox, &body(&ask)).await.unwrap();
    assert_eq!(told["r"][0], 403);
    assert!(
        told["r"][1].as_str().unwrap().starts_with("127.0.0.1 is a loopback address; http.allow"),
        "{told}"
    );
    let error = fails(&sandbox, &body("urllib.request.urlopen('https://169.254.169.254/latest')")).await;
    assert!(
        error.contains("Tunnel connection failed: 403 169.254.169.254 is a cloud's metadata address"),
        "{error}"
    );
}

#[tokio::test]
async fn with_the_network_on_nothing_else_is_allowed() {
    let address = server().await;
    let sandbox = networked(&CodeConfig::default(), &["127.0.0.1"]);
    let port = address.port();
    for (attempt, wanted) in [
        (format!("socket.create_connection(('127.0.0.1', {port}))"), "is not allowed in a code node"),
        (format!("socket.socket().connect(('127.0.0.1', {port}))"), "reached only by HTTP through the proxy"),
        ("socket.socket().connect(('1.1.1.1', 80))".into(), "reached only by HTTP through the proxy"),
        ("socket.socket(socket.AF_INET, socket.SOCK_DGRAM)".into(), "a socket of this kind is not allowed"),
        ("socket.socket(socket.AF_INET6)".into(), "a socket of this kind is not allowed"),
        ("socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)".into(), "a socket of this kind is not allowed"),
        ("socket.socket(socket.AF_UNIX)".into(), "may not use the network except by HTTP"),
        ("import _socket; _socket.socket(2, 1)".into(), "PermissionError"),
        ("socket.socketpair()[0].connect('/run/x')".into(), "is not allowed in a code node"),
        ("socket.socketpair()[0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, b'\\0\\0\\0\\0')])".into(), "is not allowed"),
        ("import _socket; _socket.socket.sendmsg(socket.socketpair()[0], [b'x'])".into(), "PermissionError"),
        ("socket.socket().bind(('127.0.0.1', 0))".into(), "network access"),
        ("socket.socket().listen()".into(), "PermissionError"),
        ("socket.getaddrinfo('example.com', 80)".into(), "looking up 'example.com' is not allowed"),
        ("socket.gethostbyname('example.com')".into(), "is not allowed in a code node"),
        ("open('/proc/net/tcp').read()".into(), "ermission denied"),
        ("open('/etc/passwd').read()".into(), "ermission denied"),
        ("os.listdir('..')".into(), "ermission denied"),
        ("open(os.environ['SSL_CERT_FILE'], 'a')".into(), "ermission denied"),
        ("os.unlink(os.environ['SSL_CERT_FILE'])".into(), "ermission denied"),
        ("os.fork()".into(), "starting processes is not allowed"),
        ("subprocess.run(['id'])".into(), "starting processes is not allowed"),
        ("threading.Thread(target=print).start()".into(), "start processes or threads"),
        ("os.kill(os.getppid(), 9)".into(), "signalling processes is not allowed"),
    ] {
        let error = fails(&sandbox, &body(&attempt)).await;
        assert!(error.contains(wanted), "{attempt}: {error}");
    }
    let open = "found = []\nfor n in range(4096):\n    try: os.fstat(n); found.append(n)\n    except OSError: pass\nreturn {'open': found}";
    assert_eq!(python(&sandbox, &body(open)).await, Ok(json!({"open": [0, 1, 2, 3]})));
}

#[tokio::test]
async fn the_kernel_refuses_sockets_whatever_python_is_made_to_believe() {
    let sandbox = networked(&CodeConfig::default(), &["127.0.0.1"]);
    let calls = if cfg!(target_arch = "x86_64") {
        "(41, 2, 1, 0), (41, 1, 1, 0), (42, 3, 0, 0), (46, 3, 0, 0), (49, 3, 0, 0), (50, 3, 1), (43, 3, 0, 0), (54, 3, 1, 2, 0, 0)"
    } else {
        "(198, 2, 1, 0), (198, 1, 1, 0), (203, 3, 0, 0), (211, 3, 0, 0), (200, 3, 0, 0), (201, 3, 1), (202, 3, 0, 0), (208, 3, 1, 2, 0, 0)"
    };
    // socket of the internet and of files, connect, sendmsg, bind, listen, accept, setsockopt
    let code = format!(
        "libc = ctypes.CDLL(None, use_errno=True)\nfound = []\nfor call in [{calls}]:\n    ctypes.set_errno(0)\n\
         \x20   found.append([libc.syscall(*call), ctypes.get_errno()])\nreturn {{'found': found}}"
    );
    let found = python(&sandbox, &body(&code)).await.unwrap();
    for answer in found["found"].as_array().unwrap() {
        assert_eq!(answer, &json!([-1, 1]), "{found}");
    }
    serves(&sandbox).await;
}

#[tokio::test]
async fn what_code_does_to_its_descriptor_harms_only_itself() {
    let sandbox = networked(&CodeConfig { timeout_ms: 3_000, ..CodeConfig::default() }, &["127.0.0.1"]);
    for attempt in [
        "os.write(3, b'c' * 100000)",
        "for n in range(100): os.write(3, b'c')\nos.close(3)",
        "os.close(3)\nurllib.request.urlopen('http://127.0.0.1:1/')",
        "os.dup2(1, 3)\nurllib.request.urlopen('http://127.0.0.1:1/')",
        "os.read(3, 1)",
    ] {
        // Some of them fail, some are ended.
        let _ = python(&sandbox, &body(attempt)).await;
        serves(&sandbox).await;
    }
}

#[tokio::test]
async fn connections_and_bytes_of_an_execution_are_bounded() {
    let address = server().await;
    let few = CodeConfig { network_connections_max: 2, ..CodeConfig::default() };
    let sandbox = networked(&few, &["127.0.0.1"]);
    let error = fails(&sandbox, &body("kept = [socket.socket() for n in range(3)]")).await;
    assert!(error.contains("may have 2 connections at once (code.network_connections_max)"), "{error}");
    let sandbox = networked(&CodeConfig { network_bytes_max: 100_000, ..few }, &["127.0.0.1"]);
    let error =
        fails(&sandbox, &body(&format!("urllib.request.urlopen('http://{address}/big').read()"))).await;
    assert!(error.contains("more than 100000 bytes (code.network_bytes_max)"), "{error}");
    // Each execution has its own count.
    let ask = format!("return {{'r': len(urllib.request.urlopen('http://{address}/a').read())}}");
    assert_eq!(python(&sandbox, &body(&ask)).await, Ok(json!({"r": 8})));
}

#[tokio::test]
async fn code_that_floods_the_worker_with_requests_for_connections_gets_none_any_more() {
    let few = CodeConfig { network_connections_max: 1, ..CodeConfig::default() };
    let sandbox = networked(&few, &["127.0.0.1"]);
    let flood = "kept = socket.socket()\nrefused = 0\nfor n in range(5000):\n    try: socket.socket()\n\
                 \x20   except ConnectionAbortedError: raise\n    except OSError: refused += 1\n\
                 return {'refused': refused}";
    let error = fails(&sandbox, &body(flood)).await;
    assert!(error.contains("asked 1000 times (CODE_REFUSALS_MAX) for more than 1 at once"), "{error}");
    // Fewer are only refused.
    let some = flood.replace("5000", "999");
    assert_eq!(python(&sandbox, &body(&some)).await, Ok(json!({"refused": 999})));
}

#[tokio::test]
async fn without_the_setting_there_is_no_network_and_the_error_names_it() {
    let sandbox = sandbox(&CodeConfig::default());
    let error = fails(&sandbox, &body("urllib.request.urlopen('http://127.0.0.1:1/')")).await;
    assert!(error.contains("network access is not allowed in a code node (code.network lets it"), "{error}");
    let names = python(&sandbox, &body("return {'names': sorted(os.environ)}")).await.unwrap();
    assert_eq!(names, json!({"names": ["HOME", "LANG", "TMPDIR", "TZ"]}));
}
