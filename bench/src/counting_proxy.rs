//! A proxy in front of Redis that counts the bytes in both directions. A process whose bytes are to be counted gets its
//! address instead of the server's. It has its own thread, because the load sleeps on the main thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::error::Error;

/// Most bytes that are passed on at once.
const PIECE_BYTES: usize = 64 * 1024;

/// A proxy that runs until this is dropped.
pub(crate) struct CountingProxy {
    port: u16,
    bytes: Arc<AtomicU64>,
    // Closed on drop, which ends the thread.
    _open: oneshot::Sender<()>,
}

impl CountingProxy {
    /// Opens a proxy in front of a local port.
    pub(crate) fn open(server: u16) -> Result<Self, Error> {
        const DOING: &str = "opening a proxy in front of redis-server";
        let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(Error::io(DOING))?;
        let port = listener.local_addr().map_err(Error::io(DOING))?.port();
        listener.set_nonblocking(true).map_err(Error::io(DOING))?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(Error::io(DOING))?;
        let (open, closed) = oneshot::channel::<()>();
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = bytes.clone();
        let serve = move || {
            runtime.block_on(async move {
                tokio::select! { _ = accept(listener, server, counted) => {} _ = closed => {} }
            });
        };
        std::thread::Builder::new().name("counting-proxy".into()).spawn(serve).map_err(Error::io(DOING))?;
        Ok(Self { port, bytes, _open: open })
    }

    /// The address of the proxy.
    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Number of bytes so far, in both directions.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

async fn accept(listener: std::net::TcpListener, server: u16, bytes: Arc<AtomicU64>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (client, _) = listener.accept().await?;
        tokio::spawn(carry(client, server, bytes.clone()));
    }
}

/// Copies bytes in both directions until one side ends.
async fn carry(client: TcpStream, server: u16, bytes: Arc<AtomicU64>) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", server)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        done = pass(from_client, to_server, &bytes) => done,
        done = pass(from_server, to_client, &bytes) => done,
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    bytes: &AtomicU64,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let count = from.read(&mut piece).await?;
        if count == 0 {
            return Ok(());
        }
        bytes.fetch_add(count as u64, Ordering::Relaxed);
        to.write_all(&piece[..count]).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn bytes_pass_unchanged_and_are_counted_in_both_directions() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = CountingProxy::open(server.local_addr().unwrap().port()).unwrap();
        let mut client = std::net::TcpStream::connect(proxy.url().trim_start_matches("redis://")).unwrap();
        let (mut served, _) = server.accept().unwrap();
        let mut seen = [0; 4];
        client.write_all(b"ping").unwrap();
        served.read_exact(&mut seen).unwrap();
        assert_eq!(&seen, b"ping");
        served.write_all(b"PONG").unwrap();
        client.read_exact(&mut seen).unwrap();
        assert_eq!(&seen, b"PONG");
        assert_eq!(proxy.bytes(), 8);
    }
}
