//! A stand-in for Redis 7.2, where only an older one is installed: it passes all on to a server, and answers `WAITAOF`
//! itself. What it answers is what a test wants; it says nothing of a real disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};

/// A running proxy; it stops when its runtime ends.
#[derive(Debug)]
pub struct WaitAofProxy {
    port: u16,
    is_written: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
}

impl WaitAofProxy {
    /// Starts it before a local port. At first the disk has everything.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let (is_written, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        let (written, count) = (is_written.clone(), asked.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await {
                    tokio::spawn(pass(client, server, written.clone(), count.clone()));
                }
            }
        });
        Self { port, is_written, asked }
    }

    /// Says from now on whether the disk has everything.
    pub fn is_written(&self, is_written: bool) {
        self.is_written.store(is_written, Ordering::Relaxed);
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Its address, as a setting.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

/// The client of this proxy sends `WAITAOF` alone and waits for the answer, so no other answer can come in between.
async fn pass(client: TcpStream, server: TcpStream, is_written: Arc<AtomicBool>, asked: Arc<AtomicUsize>) {
    let ((from_client, to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let to_client = Arc::new(tokio::sync::Mutex::new(to_client));
    let answers = to_client.clone();
    let back = tokio::spawn(async move {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
            if answers.lock().await.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
        let _ = answers.lock().await.shutdown().await;
    });
    let mut from_client = BufReader::new(from_client);
    while let Some((name, bytes)) = command(&mut from_client).await {
        let sent = if name.eq_ignore_ascii_case("WAITAOF") {
            asked.fetch_add(1, Ordering::Relaxed);
            let local = u8::from(is_written.load(Ordering::Relaxed));
            to_client.lock().await.write_all(format!("*2\r\n:{local}\r\n:0\r\n").as_bytes()).await
        } else {
            to_server.write_all(&bytes).await
        };
        if sent.is_err() {
            break;
        }
    }
    back.abort();
}

/// The next command: its name, and its bytes as they came.
async fn command(from: &mut BufReader<OwnedReadHalf>) -> Option<(String, Vec<u8>)> {
    let (words, mut bytes) = number(from).await?;
    let mut name = String::new();
    for at in 0..words {
        let (length, line) = number(from).await?;
        bytes.extend(line);
        let mut word = vec![0; length + 2];
        from.read_exact(&mut word).await.ok()?;
        if at == 0 {
            name = String::from_utf8_lossy(&word[..length]).into_owned();
        }
        bytes.extend(word);
    }
    Some((name, bytes))
}

/// A line such as `*3`: its number, and its bytes.
async fn number(from: &mut BufReader<OwnedReadHalf>) -> Option<(usize, Vec<u8>)> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line).await.ok()?;
    let text = String::from_utf8_lossy(line.get(1..)?).trim().parse().ok()?;
    Some((text, line))
}
