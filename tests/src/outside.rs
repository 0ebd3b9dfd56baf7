//! A server that `http-request` nodes, tools and Calls use. Its answers take some time, and it remembers every call
//! with its `Idempotency-Key`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The time before each answer: long enough that faults hit calls.
const TAKES: Duration = Duration::from_millis(150);
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nnoted";
/// The answer to calls of tools: messages.
const TOOL: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 45\r\n\r\n{\"messages\":[{\"type\":\"text\",\"text\":\"noted\"}]}";
/// The answer to calls of `/parcels`.
const PARCEL: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 16\r\n\r\n{\"state\":\"lost\"}";
/// The answer to a request for the description of a tool. Such a request does not count as a call.
const UNKNOWN: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
/// The answer to calls of `/file`.
const FILE: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: 5\r\n\r\n\x00\x01\x02\x03\xff";

/// A call as the server received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideCall {
    /// Path and query.
    pub target: String,
    pub body: String,
    /// Its `Idempotency-Key`.
    pub key: Option<String>,
}

/// The running server; it stops when its runtime ends.
#[derive(Debug)]
pub struct Outside {
    /// `http://host:port`
    pub base_url: String,
    calls: Arc<Mutex<Vec<OutsideCall>>>,
}

impl Outside {
    /// Starts it.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let base_url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let calls: Arc<Mutex<Vec<OutsideCall>>> = Arc::default();
        let ledger = calls.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let ledger = ledger.clone();
                // An error only means that the caller died during its call. Tests cause this deliberately.
                tokio::spawn(async move { drop(serve(stream, &ledger).await) });
            }
        });
        Self { base_url, calls }
    }

    /// Returns the calls since the last `take`.
    pub fn take(&self) -> Vec<OutsideCall> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The answer of a registered Call at `/calls/…`: its input is its parameters, and its output is `noted`.
fn of_call(body: &str) -> Vec<u8> {
    let body: Json = serde_json::from_str(body).unwrap_or_default();
    let answer = match body["operation"].as_str() {
        Some("init") => json!({"input": body["params"]}).to_string(),
        Some("exec") => format!("{}\n", json!({"type": "text", "content": "noted"})),
        _ => String::new(),
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
    format!("{head}{}\r\n\r\n{answer}", answer.len()).into_bytes()
}

async fn serve(stream: TcpStream, ledger: &Mutex<Vec<OutsideCall>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut length, mut key, mut line) = (0, None, String::new());
        stream.read_line(&mut line).await?;
        let answer: &[u8] = match &line {
            line if line.starts_with("GET /tools/") => UNKNOWN,
            line if line.contains("/tools/") => TOOL,
            line if line.contains("/file") => FILE,
            line if line.contains("/parcels") => PARCEL,
            _ => ANSWER,
        };
        let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let is_call = !std::mem::take(&mut line).is_empty();
        while is_call && stream.read_line(&mut line).await? > 0 && !line.trim().is_empty() {
            if let Some((name, value)) = line.split_once(':') {
                match name.to_ascii_lowercase().as_str() {
                    "content-length" => length = value.trim().parse().unwrap_or(0),
                    "idempotency-key" => key = Some(value.trim().to_owned()),
                    _ => {}
                }
            }
            line.clear();
        }
        if line.is_empty() {
            return Ok(());
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let body = String::from_utf8_lossy(&body).into_owned();
        let of_call = target.starts_with("/calls/").then(|| of_call(&body));
        let answer = of_call.as_deref().unwrap_or(answer);
        if answer != UNKNOWN {
            ledger.lock().unwrap_or_else(PoisonError::into_inner).push(OutsideCall { target, body, key });
            tokio::time::sleep(TAKES).await;
        }
        stream.get_mut().write_all(answer).await?;
    }
}
