//! A server of files whose headers a test chooses. It remembers the methods of requests, and `/echo…` answers what it
//! received.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// An answer: its head without the empty line, and its body.
#[derive(Debug, Clone)]
struct Reply {
    head: String,
    body: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    replies: HashMap<String, Reply>,
    /// The paths that do not answer `HEAD` and requests for a part.
    silent: Vec<String>,
    /// Path and method of each request, in order.
    seen: Vec<(String, String)>,
}

/// The running server; it stops when its runtime ends.
#[derive(Debug)]
pub struct FileServer {
    /// `http://host:port`
    pub base_url: String,
    state: Arc<Mutex<State>>,
}

impl FileServer {
    /// Starts it.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let base_url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = shared.clone();
                tokio::spawn(async move { drop(serve(stream, &shared).await) });
            }
        });
        Self { base_url, state }
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }

    /// Serves a file with this `Content-Type` and `Content-Disposition`. A path with `get-only` refuses `HEAD`.
    pub fn serve(&self, path: &str, content_type: &str, disposition: Option<&str>, body: &[u8]) {
        let disposition =
            disposition.map(|text| format!("content-disposition: {text}\r\n")).unwrap_or_default();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n{disposition}");
        self.put(path, Reply { head, body: body.to_vec() });
    }

    /// Redirects a path to another one.
    pub fn redirect(&self, path: &str, status: u16, to: &str) {
        let head = format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {to}\r\n");
        self.put(path, Reply { head, body: Vec::new() });
    }

    fn put(&self, path: &str, reply: Reply) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.replies.insert(path.to_owned(), reply);
    }

    /// Leaves the questions what the file is without an answer.
    pub fn be_silent_when_asked(&self, path: &str) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).silent.push(path.to_owned());
    }

    /// The methods of the requests for a path, in order.
    pub fn requests(&self, path: &str) -> Vec<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.seen.iter().filter(|(seen, _)| seen == path).map(|(_, method)| method.clone()).collect()
    }
}

async fn serve(stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let mut words = line.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (mut length, mut kind, mut is_part) = (0, String::new(), false);
        loop {
            let mut header = String::new();
            if stream.read_line(&mut header).await? == 0 || header.trim().is_empty() {
                break;
            }
            let (name, value) = header.split_once(':').unwrap_or_default();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().unwrap_or(0),
                "content-type" => kind = value.trim().to_owned(),
                "range" => is_part = true,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let path = target.split('?').next().unwrap_or_default().to_owned();
        let (reply, is_silent) = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.seen.push((path.clone(), method.clone()));
            (state.replies.get(&path).cloned(), state.silent.contains(&path))
        };
        if is_silent && (method == "HEAD" || is_part) {
            std::future::pending::<()>().await;
        }
        let reply = match reply {
            Some(_) if path.contains("get-only") && method == "HEAD" => refusal("405 Method Not Allowed"),
            Some(reply) => reply,
            None if path.starts_with("/echo") => {
                let body = String::from_utf8_lossy(&body);
                let seen =
                    json!({"method": method, "target": target, "type": kind, "body": body}).to_string();
                Reply {
                    head: "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n".into(),
                    body: seen.into(),
                }
            }
            None => refusal("404 Not Found"),
        };
        let head = format!("{}content-length: {}\r\n\r\n", reply.head, reply.body.len());
        stream.get_mut().write_all(head.as_bytes()).await?;
        if method != "HEAD" {
            stream.get_mut().write_all(&reply.body).await?;
        }
    }
}

fn refusal(status: &str) -> Reply {
    Reply { head: format!("HTTP/1.1 {status}\r\n"), body: Vec::new() }
}
