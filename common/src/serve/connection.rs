//! Serves one connection: HTTP/1 over a socket that reports to its seat what happens on it.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
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
use super::{Peer, metrics};
use tidemill_base::limits::HEAD_BYTES_MAX;

/// The paths that are answered even above the limit of connections.
pub(super) const PROBES: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// Serves a connection until its client closes it, its time is up, or the process stops and its request is
/// answered.
pub(super) async fn run(
    stream: TcpStream,
    peer: Peer,
    seat: Arc<Seat>,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let socket = TokioIo::new(Watched { stream, seat: seat.clone() });
    let service = service_fn(|request| answer(request, peer, seat.clone(), router.clone()));
    let mut http = http1::Builder::new();
    let mut connection = pin!(http.max_buf_size(HEAD_BYTES_MAX).serve_connection(socket, service));
    let mut alarm = pin!(sleep_until(Instant::now()));
    let mut is_stopping = false;
    let cut = loop {
        let until_the_end = poll_fn(|context| {
            // An error of the client or the network; the connection is gone.
            if connection.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            poll_time(&seat, alarm.as_mut(), context).map(Some)
        });
        tokio::select! {
            biased;
            end = until_the_end => break end,
            () = seat.close_requested() => if seat.phase().is_idle() { break Some(Cut::Room) },
            // The listener ended without a stop signal: treat it as a stop.
            _ = stopped.wait_for(|stopped| *stopped), if !is_stopping => {
                is_stopping = true;
                if matches!(seat.phase(), Phase::New { .. }) {
                    break None;
                }
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    if let Some(why) = cut {
        metrics::cut(seat.settings(), why);
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
) -> Result<Response, Infallible> {
    seat.record(Happening::Request);
    let tells = Tells(seat.clone());
    let is_refused = seat.for_probes && !PROBES.contains(&request.uri().path());
    let mut response = if is_refused {
        full(seat.settings().setting)
    } else {
        let seat = seat.clone();
        let mut request = request.map(|body| Body::new(RequestBody { body, seat, is_awaited: false }));
        request.extensions_mut().insert(peer);
        router.call(request).await?
    };
    if seat.for_probes {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|body| Body::new(AnswerBody { body, _tells: tells })))
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
    stream: TcpStream,
    seat: Arc<Seat>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
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
