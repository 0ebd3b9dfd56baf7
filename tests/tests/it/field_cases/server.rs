//! The server that the workflows of field cases call: the path of a request says what it answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The paths that were requested.
type Ledger = Arc<Mutex<Vec<String>>>;

/// The running server; it stops when its runtime ends.
#[derive(Debug)]
pub(super) struct Server {
    /// `http://host:port`
    pub(super) base: String,
    ledger: Ledger,
}

impl Server {
    /// Starts it.
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let base = format!("http://{}", listener.local_addr().expect("it is bound"));
        let ledger = Ledger::default();
        let shared = ledger.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let ledger = shared.clone();
                // An error only means that the caller has gone; stopped runs do that.
                tokio::spawn(async move { drop(serve(stream, &ledger).await) });
            }
        });
        Self { base, ledger }
    }

    /// The number of requests whose path ends like this.
    pub(super) fn calls(&self, ending: &str) -> usize {
        noted(&self.ledger, ending)
    }
}

fn noted(ledger: &Ledger, ending: &str) -> usize {
    let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    ledger.iter().filter(|path| path.ends_with(ending)).count()
}

/// `/slow/MS/…` answers after that time, `/fail/STATUS/…` with that status, `/flaky/N/KEY` with 503 the first N times,
/// `/file.txt` with a text. Anything else is answered at once.
async fn serve(stream: TcpStream, ledger: &Ledger) -> std::io::Result<()> {
    let (mut stream, mut line) = (BufReader::new(stream), String::new());
    stream.read_line(&mut line).await?;
    let method = line.split(' ').next().unwrap_or_default().to_owned();
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    if path.is_empty() {
        return Ok(());
    }
    while !line.trim().is_empty() {
        line.clear();
        stream.read_line(&mut line).await?;
    }
    ledger.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let number = parts.get(1).and_then(|part| part.parse::<usize>().ok()).unwrap_or_default();
    let mut status = 200;
    match parts[0] {
        "slow" => tokio::time::sleep(Duration::from_millis(number as u64)).await,
        "fail" => status = number,
        "flaky" if noted(ledger, &path) <= number => status = 503,
        _ => {}
    }
    let body = if method == "HEAD" { "" } else { "answered" };
    let head = format!(
        "HTTP/1.1 {status} Said\r\ncontent-type: text/plain\r\ncontent-length: 8\r\nconnection: close\r\n\r\n"
    );
    stream.get_mut().write_all(format!("{head}{body}").as_bytes()).await
}
