//! Reads the rest of a request's body when the answer is there before it: of a request that is refused by its key, its
//! route or its size. If the connection were closed while the client still sends, the client would see a broken
//! connection instead of the answer; so would its next request on that connection.
//!
//! A client without a right key is given little of this, since it costs a connection and its traffic. A client that asked
//! whether it may send a body (`Expect: 100-continue`) has its answer, so nothing is read that it did not begin to send.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;

/// What is read on of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    /// The most bytes that are read although they are not wanted.
    bytes: usize,
    /// The longest time for that. After it the client is not waited for.
    time: Duration,
}

/// For a client that the API knows, whose body may be a large file.
const OF_CLIENTS: Reading = Reading { bytes: 256 << 20, time: Duration::from_secs(10) };
/// The longest time for a client that may be a stranger.
const OF_STRANGERS_MAX: Duration = Duration::from_secs(2);

/// A body that was not read to its end.
struct Unread {
    body: Body,
    /// The server has asked for it, or it came.
    is_begun: bool,
}

/// The place to which such a body returns.
type Rest = Arc<Mutex<Option<Unread>>>;

/// Answers a request, and reads what its handler left of its body. `request_bytes_max` is the largest request that a
/// stranger's client sends in good faith.
pub(super) async fn read(State(request_bytes_max): State<usize>, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let rest = Rest::default();
    let place = rest.clone();
    let (method, waits) = (request.method().clone(), waits(request.headers()));
    let returning = |body| Body::new(Returning { body: Some(body), is_begun: false, place });
    let response = next.run(request.map(returning)).await;
    let unread = rest.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(unread) = unread.filter(|unread| unread.is_begun || !waits) {
        discard(unread.body, reading(&method, response.status(), request_bytes_max)).await;
    }
    response
}

/// Returns true for a client that sends its body when the server has asked for it.
fn waits(headers: &HeaderMap) -> bool {
    let expected = headers.get(header::EXPECT).and_then(|value| value.to_str().ok());
    expected.is_some_and(|expected| expected.trim().eq_ignore_ascii_case("100-continue"))
}

/// What is read on after an answer: little where no key was needed for it, or no body belongs to the request.
fn reading(method: &Method, status: StatusCode, request_bytes_max: usize) -> Reading {
    let is_without_body = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    let may_be_a_strangers = matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::NOT_FOUND
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::TOO_MANY_REQUESTS
    );
    if is_without_body || may_be_a_strangers {
        return Reading { bytes: request_bytes_max.min(OF_CLIENTS.bytes), time: OF_STRANGERS_MAX };
    }
    OF_CLIENTS
}

/// A body that returns when it is dropped before its end.
struct Returning {
    /// `None` only while it is dropped.
    body: Option<Body>,
    /// The handler has asked for the first piece: then the server tells a client that waits to send.
    is_begun: bool,
    place: Rest,
}

impl HttpBody for Returning {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        this.is_begun = true;
        match &mut this.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }
    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }
    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        let body = self.body.take().filter(|body| !body.is_end_stream());
        let unread = body.map(|body| Unread { body, is_begun: self.is_begun });
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = unread;
    }
}

/// Reads on for some time and drops the bytes.
async fn discard(mut body: Body, most: Reading) {
    let reading = async {
        let mut left = most.bytes;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    let _ = tokio::time::timeout(most.time, reading).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_read_of_what_a_stranger_sends() {
        let little = Reading { bytes: 1000, time: OF_STRANGERS_MAX };
        for (method, status, expected) in [
            (Method::POST, 401, little),
            (Method::PUT, 404, little),
            (Method::POST, 405, little),
            (Method::POST, 429, little),
            (Method::GET, 200, little),
            (Method::OPTIONS, 204, little),
            (Method::POST, 413, OF_CLIENTS),
            (Method::POST, 400, OF_CLIENTS),
            (Method::PUT, 201, OF_CLIENTS),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(reading(&method, status, 1000), expected, "{method} {status}");
        }
        assert_eq!(reading(&Method::POST, StatusCode::NOT_FOUND, usize::MAX).bytes, OF_CLIENTS.bytes);
    }

    #[test]
    fn a_client_that_waits_says_so() {
        for (value, expected) in [("100-continue", true), ("100-Continue ", true), ("something", false)] {
            let mut headers = HeaderMap::new();
            assert!(!waits(&headers));
            headers.insert(header::EXPECT, value.parse().unwrap());
            assert_eq!(waits(&headers), expected, "{value}");
        }
    }
}
