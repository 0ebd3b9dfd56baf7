//! Writes one log line and two metrics for each request, with an id that is also in the response. While the process
//! stops, each response closes its connection, so that the client's next request goes elsewhere.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

use super::metrics::{REQUEST_SECONDS, REQUESTS};
use super::{ApiState, sse};
use crate::stopping::Stage;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest request id that is accepted from a client, in characters.
const REQUEST_ID_CHARS_MAX: usize = 128;

pub(super) async fn watch(State(state): State<ApiState>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = request_id(request.headers());
    let method = request.method().clone();
    // The route, not the path: paths contain ids, and each would create its own time series.
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_string();
    let span = tracing::info_span!("request", request_id = %id, %method, route);
    let mut response = next.run(request).instrument(span.clone()).await;
    let status = response.status();
    let seconds = began.elapsed().as_secs_f64();
    let method = method.as_str().to_string();
    metrics::counter!(REQUESTS, "route" => route.clone(), "method" => method, "status" => status.as_str().to_string())
        .increment(1);
    metrics::histogram!(REQUEST_SECONDS, "route" => route).record(seconds);
    span.in_scope(|| tracing::debug!(status = status.as_u16(), seconds, "request answered"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    if sse::is_stream(response.headers()) {
        response.extensions_mut().insert(state.config.scheduler.stream_limits());
    }
    if *state.shutdown.borrow() > Stage::Serving {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// The client's id if it is safe to log, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let is_harmless = |id: &str| {
        (1..=REQUEST_ID_CHARS_MAX).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    match headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()) {
        Some(id) if is_harmless(id) => id.to_string(),
        Some(_) | None => uuid::Uuid::new_v4().to_string(),
    }
}
