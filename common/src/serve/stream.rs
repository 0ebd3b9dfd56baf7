//! Writes event streams without the HTTP library, whose buffers would take 16 KiB of each stream while it is idle. The
//! library reads the request; when the answer is a stream, its connection is taken over ([`super::connection`]), the head
//! and the chunks are written here, and afterwards the library gets the connection back for the next request.
//!
//! A stream without news holds no buffer. What its client has not taken is bounded: above
//! [`StreamLimits::buffer_bytes`] the stream is not asked for more, so further events wait in the store.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderValue, Method, Request, Version, header};
use axum::response::Response;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::chunks::{Chunks, head};
use super::metrics;
use super::phase::{Cut, Happening};
use super::seats::Seat;
use super::socket::Socket;

/// Most parts that are written at once.
const PARTS: usize = 16;
/// Most bytes that are read of a next request while a stream is written.
const READ_AHEAD: usize = 1024;

/// Marks a response as an event stream; an extension of it. Its connection may then be taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// Most bytes that wait for the client before the stream is asked for no more; one frame may exceed it.
    pub buffer_bytes: usize,
    /// Longest time in which a client takes nothing although that many bytes wait for it.
    pub stalled: Duration,
}

/// A stream that takes over its connection.
pub(super) struct Taken {
    pub(super) response: Response,
    pub(super) limits: StreamLimits,
}

/// A connection without the HTTP library, and the bytes of a next request that were read already.
pub(super) struct Bare {
    pub(super) stream: Socket,
    pub(super) read: Bytes,
}

/// What a request says about a stream as its answer; `None` if the HTTP library must write it: to an older client, to one
/// that wants only the head, and where more of the request may be on its way.
pub(super) fn closes_after<B>(request: &Request<B>) -> Option<bool> {
    let is_plain = matches!(*request.method(), Method::GET | Method::POST)
        && request.version() == Version::HTTP_11
        && !request.headers().contains_key(header::EXPECT)
        && !request.headers().contains_key(header::UPGRADE);
    is_plain.then(|| request.headers().get_all(header::CONNECTION).iter().any(says_close))
}

/// Whether a `Connection` header has the token `close`.
pub(super) fn says_close(value: &HeaderValue) -> bool {
    let text = value.to_str().unwrap_or_default();
    text.split(',').any(|token| token.trim().eq_ignore_ascii_case("close"))
}

/// Writes the stream, and returns the connection for the next request; `None` when it is closed. A stream that is cut has
/// no last chunk, so no client takes it for a complete one.
pub(super) async fn write(bare: Bare, taken: Taken, seat: &Arc<Seat>) -> Option<Bare> {
    let mut writer = Writer::new(bare, taken, seat.clone());
    match poll_fn(|context| writer.poll(context)).await {
        End::Gone => None,
        End::Cut(why) => {
            metrics::cut(seat.settings(), why);
            None
        }
        End::Whole => {
            seat.record(Happening::Flushed);
            let Writer { mut bare, is_last, .. } = writer;
            if is_last {
                // The client may be gone already, or read nothing: TLS sends a last message.
                let _ = timeout(seat.settings().limits.idle, bare.stream.shutdown()).await;
                return None;
            }
            Some(bare)
        }
    }
}

/// How a stream ends.
enum End {
    /// The client has received all of it.
    Whole,
    /// The client or the network has closed the connection.
    Gone,
    /// It is closed here.
    Cut(Cut),
}

struct Writer {
    bare: Bare,
    /// Whether the connection is closed after the stream.
    is_last: bool,
    seat: Arc<Seat>,
    /// `None` after its end.
    body: Option<Body>,
    /// What the client has not taken.
    chunks: Chunks,
    limits: StreamLimits,
    /// Since when the client has taken nothing, while bytes wait for it.
    stuck: Option<Instant>,
    /// Exists only while bytes wait.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Writer {
    fn new(bare: Bare, taken: Taken, seat: Arc<Seat>) -> Self {
        let Taken { response, limits } = taken;
        let (parts, body) = response.into_parts();
        let is_last = parts.headers.get_all(header::CONNECTION).iter().any(says_close);
        let mut chunks = Chunks::default();
        chunks.plain(&head(parts.status, &parts.headers));
        Self { bare, is_last, seat, body: Some(body), chunks, limits, stuck: None, alarm: None }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<End> {
        loop {
            let Ok(has_more) = self.gather(context) else { return Poll::Ready(End::Gone) };
            match self.poll_write(context) {
                Poll::Ready(Err(_)) => return Poll::Ready(End::Gone),
                Poll::Ready(Ok(())) if self.body.is_none() => return Poll::Ready(End::Whole),
                Poll::Ready(Ok(())) if has_more => {}
                Poll::Ready(Ok(())) | Poll::Pending => break,
            }
        }
        if self.is_left(context) {
            return Poll::Ready(End::Gone);
        }
        self.poll_time(context).map(End::Cut)
    }

    /// Takes what the stream has, up to the limit. Returns whether it may have more at once.
    fn gather(&mut self, context: &mut Context<'_>) -> Result<bool, axum::Error> {
        while let Some(body) = &mut self.body {
            if self.chunks.bytes() >= self.limits.buffer_bytes {
                return Ok(true);
            }
            match Pin::new(body).poll_frame(context) {
                Poll::Ready(Some(frame)) => {
                    // Other frames are trailers, which no stream here has.
                    if let Ok(data) = frame?.into_data() {
                        self.chunks.chunk(data);
                    }
                }
                Poll::Ready(None) => {
                    self.body = None;
                    self.chunks.end();
                    self.seat.record(Happening::Answered);
                }
                Poll::Pending => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Ready when nothing waits any more.
    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.chunks.bytes() > 0 {
            let mut parts = [IoSlice::new(&[]); PARTS];
            let count = self.chunks.parts(&mut parts);
            let stream = Pin::new(&mut self.bare.stream);
            let polled = match &parts[..count] {
                [one] => stream.poll_write(context, one),
                several => stream.poll_write_vectored(context, several),
            };
            match polled {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(taken)) => {
                    self.chunks.advance(taken);
                    self.stuck = None;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.stuck.get_or_insert_with(Instant::now);
                    return Poll::Pending;
                }
            }
        }
        // With TLS, the last bytes may still be on their way to the socket.
        if Pin::new(&mut self.bare.stream).poll_flush(context)?.is_pending() {
            self.stuck.get_or_insert_with(Instant::now);
            return Poll::Pending;
        }
        (self.stuck, self.alarm) = (None, None);
        Poll::Ready(Ok(()))
    }

    /// True when the client has closed its side. Bytes of a next request are kept; after them nothing is read.
    fn is_left(&mut self, context: &mut Context<'_>) -> bool {
        if !self.bare.read.is_empty() {
            return false;
        }
        let mut bytes = [0; READ_AHEAD];
        let mut into = ReadBuf::new(&mut bytes);
        match Pin::new(&mut self.bare.stream).poll_read(context, &mut into) {
            Poll::Pending => false,
            Poll::Ready(Err(_)) => true,
            Poll::Ready(Ok(())) => {
                self.bare.read = Bytes::copy_from_slice(into.filled());
                self.bare.read.is_empty()
            }
        }
    }

    /// Ready when the client has taken nothing for too long.
    fn poll_time(&mut self, context: &mut Context<'_>) -> Poll<Cut> {
        let Some(stuck) = self.stuck else { return Poll::Pending };
        let (longest, why) = if self.body.is_none() {
            (self.seat.settings().limits.idle, Cut::Idle)
        } else if self.chunks.bytes() >= self.limits.buffer_bytes {
            (self.limits.stalled, Cut::Stalled)
        } else {
            return Poll::Pending;
        };
        let at = stuck + longest;
        loop {
            let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if alarm.deadline() > at {
                alarm.as_mut().reset(at);
            }
            ready!(alarm.as_mut().poll(context));
            if at <= Instant::now() {
                return Poll::Ready(why);
            }
            alarm.as_mut().reset(at);
        }
    }
}
