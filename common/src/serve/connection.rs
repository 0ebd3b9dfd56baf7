//! Serves one connection: HTTP/1 over a socket that reports to its seat what happens on it. Event streams take the
//! connection over from the HTTP library ([`super::stream`]).

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};
use tower::Service;

use super::phase::{Cut, Happening, Phase};
use super::seats::Seat;
use super::socket::Socket;
use super::stream::{self, Bare, StreamLimits, Taken};
use super::tls::Tls;
use super::{Peer, metrics};
use tidemill_base::limits::HEAD_BYTES_MAX;

/// The paths that are answered even above the limit of connections.
pub(super) const PROBES: [&str; 3] = ["/livez", "/readyz", "/metrics"];
/// Says that the connection is closed after the answer.
const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Serves a connection until its client closes it, its time is up, or the process stops and its request is
/// answered.
pub(super) async fn run(
    stream: TcpStream,
    tls: Option<Arc<Tls>>,
    peer: Peer,
    seat: Arc<Seat>,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let stream = match tls {
        None => Socket::Plain(stream),
        // In a box for the same reason as below.
        Some(tls) => match Box::pin(begin(stream, &tls, &seat, &mut stopped)).await {
            Some(secured) => secured,
            None => return,
        },
    };
    let mut bare = Bare { stream, read: Bytes::new() };
    loop {
        // In a box that is gone while a stream is written: the HTTP library needs much more memory than a stream.
        let answered = Box::pin(answer_requests(bare, peer, &seat, &router, &mut stopped)).await;
        let Some((rest, taken)) = answered else { return };
        let Some(rest) = stream::write(rest, taken, &seat).await else { return };
        bare = rest;
    }
}

/// Begins TLS. That is a part of the time for the head of the first request.
async fn begin(
    stream: TcpStream,
    tls: &Tls,
    seat: &Seat,
    stopped: &mut watch::Receiver<bool>,
) -> Option<Socket> {
    let mut alarm = pin!(sleep_until(Instant::now()));
    tokio::select! {
        biased;
        socket = Socket::secured(stream, tls.config()) => socket,
        why = poll_fn(|context| poll_time(seat, alarm.as_mut(), context)) => {
            metrics::cut(seat.settings(), why);
            None
        }
        () = seat.close_requested() => {
            metrics::cut(seat.settings(), Cut::Room);
            None
        }
        // The listener ended without a stop signal: treat it as a stop.
        _ = stopped.wait_for(|stopped| *stopped) => None,
    }
}

/// Answers requests with the HTTP library, until one is answered with a stream that takes over the connection. `None` at
/// the end of the connection.
async fn answer_requests(
    bare: Bare,
    peer: Peer,
    seat: &Arc<Seat>,
    router: &Router,
    stopped: &mut watch::Receiver<bool>,
) -> Option<(Bare, Taken)> {
    let Bare { stream, read } = bare;
    let socket = TokioIo::new(Watched { stream, read, seat: seat.clone() });
    let taking = Taking::default();
    let service = service_fn(|request| answer(request, peer, seat.clone(), router.clone(), taking.clone()));
    let mut http = http1::Builder::new();
    let mut connection = http.max_buf_size(HEAD_BYTES_MAX).serve_connection(socket, service);
    let mut alarm = pin!(sleep_until(Instant::now()));
    let mut is_stopping = false;
    let cut = loop {
        let until_the_end = poll_fn(|context| {
            // An error of the client or the network; the connection is gone.
            if Pin::new(&mut connection).poll(context).is_ready() {
                return Poll::Ready(End::Closed);
            }
            if let Some(taken) = taking.lock().take() {
                return Poll::Ready(End::Taken(taken));
            }
            poll_time(seat, alarm.as_mut(), context).map(End::Cut)
        });
        tokio::select! {
            biased;
            end = until_the_end => match end {
                End::Closed => break None,
                End::Cut(why) => break Some(why),
                End::Taken(mut taken) => {
                    if is_stopping {
                        // As the library does, for a client that would send its next request here.
                        taken.response.headers_mut().insert(header::CONNECTION, CLOSE);
                    }
                    let parts = connection.into_parts();
                    let Watched { stream, read, .. } = parts.io.into_inner();
                    // Copied, because even an empty rest holds the library's whole buffer. What the library has not
                    // looked at yet comes last.
                    let read = Bytes::from([parts.read_buf, read].concat());
                    return Some((Bare { stream, read }, taken));
                }
            },
            () = seat.close_requested() => if seat.phase().is_idle() { break Some(Cut::Room) },
            // The listener ended without a stop signal: treat it as a stop.
            _ = stopped.wait_for(|stopped| *stopped), if !is_stopping => {
                is_stopping = true;
                if matches!(seat.phase(), Phase::New { .. }) {
                    break None;
                }
                Pin::new(&mut connection).graceful_shutdown();
            }
        }
    };
    if let Some(why) = cut {
        metrics::cut(seat.settings(), why);
    }
    None
}

/// How the HTTP library is done with a connection.
enum End {
    Closed,
    Cut(Cut),
    Taken(Taken),
}

/// The place for a stream that takes over its connection.
#[derive(Clone, Default)]
struct Taking(Arc<Mutex<Option<Taken>>>);

impl Taking {
    // No code panics under the lock.
    fn lock(&self) -> MutexGuard<'_, Option<Taken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ready when the connection's time is up. A later deadline is only applied when the alarm rings, since most
/// phases end long before; an earlier one is applied at once.
fn poll_time(seat: &Seat, mut alarm: Pin<&mut Sleep>, context: &mut Context<'_>) -> Poll<Cut> {
    loop {
        let Some((at, cut)) = seat.phase().deadline(&seat.settings().limits) else { return Poll::Pending };
        if alarm.deadline() > at {
            alarm.as_mut().reset(at);
        }
        ready!(alarm.as_mut().poll(context));
        if at <= Instant::now() {
            return Poll::Ready(cut);
        }
        alarm.as_mut().reset(at);
    }
}

async fn answer(
    request: Request<Incoming>,
    peer: Peer,
    seat: Arc<Seat>,
    mut router: Router,
    taking: Taking,
) -> Result<Response, Infallible> {
    // The client may not have received an earlier answer, which the library would still have to send.
    let is_behind = matches!(seat.phase(), Phase::Rest { .. });
    let closes_after = stream::closes_after(&request).filter(|_| !is_behind);
    seat.record(Happening::Request);
    let is_refused = seat.for_probes && !PROBES.contains(&request.uri().path());
    let is_read = Arc::new(AtomicBool::new(request.body().is_end_stream()));
    let mut response = if is_refused {
        full(seat.settings().setting)
    } else {
        let (seat, is_read) = (seat.clone(), is_read.clone());
        let mut request =
            request.map(|body| Body::new(RequestBody { body, seat, is_awaited: false, is_read }));
        request.extensions_mut().insert(peer);
        router.call(request).await?
    };
    if seat.for_probes {
        response.headers_mut().insert(header::CONNECTION, CLOSE);
    }
    if let Some(limits) = response.extensions().get::<StreamLimits>().copied()
        && let Some(closes) = closes_after
        && is_read.load(Ordering::Acquire)
    {
        if closes {
            response.headers_mut().insert(header::CONNECTION, CLOSE);
        }
        *taking.lock() = Some(Taken { response, limits });
        // The library is dropped now, and this with it.
        std::future::pending::<()>().await;
        return Ok(Response::default());
    }
    Ok(response.map(|body| Body::new(AnswerBody { body, _tells: Tells(seat) })))
}

/// The answer to a connection above the limit.
fn full(setting: &str) -> Response {
    let message = format!("too many connections ({setting}); try again in a moment");
    let body = serde_json::json!({"code": "unavailable", "message": message, "status": 503});
    let headers = [(header::RETRY_AFTER, "1")];
    (StatusCode::SERVICE_UNAVAILABLE, headers, axum::Json(body)).into_response()
}

/// Reports to the seat, when dropped, that the answer is complete.
struct Tells(Arc<Seat>);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.record(Happening::Answered);
    }
}

/// The body of an answer; the HTTP library drops it after the last frame.
struct AnswerBody {
    body: Body,
    _tells: Tells,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a request; reports to the seat when the handler waits for it.
struct RequestBody {
    body: Incoming,
    seat: Arc<Seat>,
    is_awaited: bool,
    /// Set when all of it has come.
    is_read: Arc<AtomicBool>,
}

impl RequestBody {
    fn awaited(&mut self, is_awaited: bool) {
        if self.is_awaited != is_awaited {
            self.is_awaited = is_awaited;
            self.seat.record(if is_awaited { Happening::BodyAwaited } else { Happening::BodyCame });
        }
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.awaited(polled.is_pending());
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.is_read.store(true, Ordering::Release);
        }
        polled
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.awaited(false);
    }
}

/// A socket that reports to its seat when bytes move.
struct Watched {
    stream: Socket,
    /// Bytes that were read before the HTTP library got the socket. They come first.
    read: Bytes,
    seat: Arc<Seat>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.read.is_empty() {
            let count = self.read.len().min(into.remaining());
            into.put_slice(&self.read.split_to(count));
            self.seat.record(Happening::Read);
            return Poll::Ready(Ok(()));
        }
        let before = into.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, into);
        if into.filled().len() > before {
            self.seat.record(Happening::Read);
        }
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        self.seat.record(Happening::Wrote);
        Poll::Ready(wrote)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, bytes));
        self.seat.record(Happening::Wrote);
        Poll::Ready(wrote)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The library flushes when all its bytes have been written.
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(context));
        self.seat.record(Happening::Flushed);
        Poll::Ready(flushed)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
