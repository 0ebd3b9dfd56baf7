//! Counts the bytes of connections that share a limit, and ends them when it is passed. Counts their log lines, too.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use tidemill_base::limits::CODE_CALL_NOTES_MAX;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A limit that several connections share.
#[derive(Debug)]
pub struct Meter {
    left: AtomicU64,
    passed: AtomicBool,
    notes_left: AtomicU32,
}

impl Meter {
    /// A meter for this many bytes, in both directions together.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicU64::new(bytes_max),
            passed: AtomicBool::new(false),
            notes_left: AtomicU32::new(CODE_CALL_NOTES_MAX),
        })
    }

    /// Whether one more line about these connections may be logged. The last one says that it is the last.
    pub(super) fn may_note(&self) -> bool {
        let left =
            self.notes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left == Ok(1) {
            tracing::warn!(
                most = CODE_CALL_NOTES_MAX,
                "further calls of this execution of code are not logged (CODE_CALL_NOTES_MAX)"
            );
        }
        left.is_ok()
    }

    /// Whether more bytes were to be moved than the limit.
    pub fn is_passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> io::Result<()> {
        let bytes = bytes as u64;
        let taken =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.map(drop).map_err(|_| {
            self.left.store(0, Ordering::Relaxed);
            self.passed.store(true, Ordering::Relaxed);
            io::Error::other("the limit of bytes is passed")
        })
    }
}

/// A connection whose bytes are counted.
#[derive(Debug)]
pub(super) struct Metered<S> {
    inner: S,
    meter: Arc<Meter>,
}

impl<S> Metered<S> {
    pub(super) const fn new(inner: S, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        Poll::Ready(self.meter.take(buf.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
        Poll::Ready(self.meter.take(written).map(|()| written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
