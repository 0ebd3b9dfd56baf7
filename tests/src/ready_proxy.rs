//! A TCP proxy before several schedulers, as balancers are: it asks each for `/readyz` at short intervals and leads new
//! connections to the next one that was ready. It never tries a second one, so a scheduler that refuses a connection
//! before the proxy could notice is seen by the client.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// The pause between two questions.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// The longest wait for an answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// A running proxy; it stops when its runtime ends.
#[derive(Debug)]
pub struct ReadyProxy {
    /// `host:port`
    pub address: String,
    /// Addresses, and whether each was ready at the last question.
    targets: Arc<Mutex<Vec<(String, bool)>>>,
}

impl ReadyProxy {
    /// Starts it without targets.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let targets: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
        let (asked, chosen) = (targets.clone(), targets.clone());
        tokio::spawn(async move {
            loop {
                let addresses: Vec<String> =
                    lock(&asked).iter().map(|(address, _)| address.clone()).collect();
                for address in addresses {
                    let is_ready = timeout(ANSWERS_WITHIN, is_ready(&address)).await.unwrap_or(false);
                    let mut targets = lock(&asked);
                    targets.iter_mut().filter(|(known, _)| *known == address).for_each(|t| t.1 = is_ready);
                }
                tokio::time::sleep(ASK_EVERY).await;
            }
        });
        tokio::spawn(async move {
            let next = AtomicUsize::new(0);
            while let Ok((client, _)) = listener.accept().await {
                let ready: Vec<String> =
                    lock(&chosen).iter().filter(|(_, is_ready)| *is_ready).map(|(a, _)| a.clone()).collect();
                let at = next.fetch_add(1, Ordering::Relaxed) % ready.len().max(1);
                tokio::spawn(pass(client, ready.get(at).cloned()));
            }
        });
        Self { address, targets }
    }

    /// Adds a target; it counts as ready at once.
    pub fn add(&self, address: &str) {
        lock(&self.targets).push((address.to_string(), true));
    }
}

fn lock(targets: &Mutex<Vec<(String, bool)>>) -> std::sync::MutexGuard<'_, Vec<(String, bool)>> {
    targets.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn is_ready(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    let head = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    let mut answer = Vec::new();
    stream.write_all(head.as_bytes()).await.is_ok()
        && stream.read_to_end(&mut answer).await.is_ok()
        && answer.starts_with(b"HTTP/1.1 200")
}

async fn pass(mut client: TcpStream, to: Option<String>) {
    let Some(to) = to else { return };
    if let Ok(mut server) = TcpStream::connect(to).await {
        // When one side closes, both connections end.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}
