//! The socket of a connection: plain, or with TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The first byte of a client that begins TLS.
const HANDSHAKE: u8 = 0x16;
/// The answer to a client that sends plain HTTP instead.
const HTTPS_ONLY: &str =
    r#"{"code":"https_only","message":"this address speaks HTTPS; use https:// in the URL","status":400}"#;
/// Most bytes that wait within TLS for a client that reads slowly, besides those of a stream.
const TLS_BUFFER: usize = 16 * 1024;

/// The socket of a connection.
pub(super) enum Socket {
    Plain(TcpStream),
    // In a box, because it is much larger.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Begins TLS with the client. `None` when the client does not begin TLS, or has left. A client that sends plain HTTP gets
    /// an answer that says so.
    pub(super) async fn secured(mut stream: TcpStream, config: Arc<ServerConfig>) -> Option<Self> {
        let mut first = [0; 1];
        if stream.peek(&mut first).await.ok()? == 0 {
            return None;
        }
        if first[0] != HANDSHAKE {
            if first[0].is_ascii_uppercase() {
                // The client may be gone already.
                let _ = refuse(&mut stream).await;
            }
            return None;
        }
        match TlsAcceptor::from(config).accept(stream).await {
            Ok(mut stream) => {
                stream.get_mut().1.set_buffer_limit(Some(TLS_BUFFER));
                Some(Self::Tls(Box::new(stream)))
            }
            Err(error) => {
                tracing::debug!(%error, "a client did not begin TLS");
                None
            }
        }
    }
}

/// Answers a client that sends plain HTTP, and reads the rest of its request: closing before that would take the answer away
/// from it.
async fn refuse(stream: &mut TcpStream) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        HTTPS_ONLY.len()
    );
    stream.write_all((head + HTTPS_ONLY).as_bytes()).await?;
    stream.shutdown().await?;
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, into),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }
    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
