//! Reads the rest of a request's body when the answer is there before it: of a request that is refused by its key, its
//! route or its size. If the connection were closed while the client still sends, the client would see a broken
//! connection instead of the answer; so would its next request on that connection.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;

/// The most bytes of a body that are read although they are not wanted.
const DISCARDED_BYTES_MAX: usize = 256 << 20;
/// The longest time for that. After it the client is not waited for.
const DISCARDING_MAX: Duration = Duration::from_secs(10);

/// The place to which a body returns that was not read to its end.
type Rest = Arc<Mutex<Option<Body>>>;

/// Answers a request, and reads what its handler left of its body.
pub(super) async fn read(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let rest = Rest::default();
    let place = rest.clone();
    let response = next.run(request.map(|body| Body::new(Returning { body: Some(body), place }))).await;
    let unread = rest.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(body) = unread {
        discard(body).await;
    }
    response
}

/// A body that returns when it is dropped before its end.
struct Returning {
    /// `None` only while it is dropped.
    body: Option<Body>,
    place: Rest,
}

impl HttpBody for Returning {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut self.get_mut().body {
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
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = body;
    }
}

/// Reads on for some time and drops the bytes.
pub(super) async fn discard(mut body: Body) {
    let reading = async {
        let mut left = DISCARDED_BYTES_MAX;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    let _ = tokio::time::timeout(DISCARDING_MAX, reading).await;
}
