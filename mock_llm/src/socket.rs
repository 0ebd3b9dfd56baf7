//! The connections of the mock. One can be reset in the middle of an answer, as by a dying server: the client then gets
//! `connection reset` instead of an end.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// Whether the connection is reset when it is closed.
#[derive(Debug, Clone, Default)]
pub(super) struct Resets(Arc<AtomicBool>);

impl Resets {
    /// Demands the reset.
    pub(super) fn demand(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Connected<IncomingStream<'_, MockListener>> for Resets {
    fn connect_info(stream: IncomingStream<'_, MockListener>) -> Self {
        stream.io().resets.clone()
    }
}

/// Accepts connections.
pub(super) struct MockListener(pub(super) TcpListener);

impl Listener for MockListener {
    type Io = Socket;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Socket, SocketAddr) {
        let (tcp, address) = Listener::accept(&mut self.0).await;
        // Sends each piece of a stream at once. If this fails, pieces only arrive later.
        let _ = tcp.set_nodelay(true);
        (Socket { tcp, resets: Resets::default() }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

pub(super) struct Socket {
    tcp: TcpStream,
    resets: Resets,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.resets.0.load(Ordering::Relaxed) {
            // If this fails, the connection is closed normally, which clients also take for a broken stream.
            let _ = self.tcp.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
