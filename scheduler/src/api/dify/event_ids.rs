//! The `id:` lines of event streams below `/v1`. Dify has none, and a client that reads whole frames loses each frame that
//! begins with one. So every answer goes through here, and loses them unless its request asks for them.

use axum::body::{Body, Bytes};
use axum::extract::{Query, Request};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt;

use super::says_true;
use crate::api::sse;

/// The content type of Dify's streams.
const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");

/// True when the request asks for ids: by the header `Last-Event-ID`, also an empty one, or by `?event_ids=true`.
pub(super) fn are_wanted(headers: &HeaderMap, uri: &Uri) -> bool {
    let asked = || match Query::<Vec<(String, String)>>::try_from_uri(uri) {
        Ok(Query(pairs)) => pairs.iter().any(|(name, value)| name == "event_ids" && says_true(value)),
        Err(_) => false,
    };
    headers.contains_key("last-event-id") || asked()
}

/// Makes streams as the request wants them; passes other answers on.
pub(in crate::api) async fn only_if_wanted(request: Request, next: Next) -> Response {
    let are_wanted = are_wanted(request.headers(), request.uri());
    let response = next.run(request).await;
    if !sse::is_stream(response.headers()) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    head.headers.insert(header::CONTENT_TYPE, CONTENT_TYPE);
    if are_wanted {
        return Response::from_parts(head, body);
    }
    Response::from_parts(head, Body::new(body.map_frame(|piece| piece.map_data(without_id))))
}

/// A frame without its id. Each piece of such a body is one frame, and the id is its first line.
fn without_id(frame: Bytes) -> Bytes {
    if !frame.starts_with(b"id: ") {
        return frame;
    }
    let end = frame.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    frame.slice(end..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_wanted_with_the_header_or_the_parameter() {
        for (header, uri, wanted) in [
            (None, "/v1/workflows/run", false),
            (Some("1-0"), "/v1/workflows/run", true),
            (Some(""), "/v1/workflows/run", true),
            (None, "/v1/workflows/run?event_ids=true", true),
            (None, "/v1/workflows/run?user=u&event_ids=True", true),
            (None, "/v1/workflows/run?event_ids=false", false),
            (None, "/v1/workflows/run?event_ids", false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(id) = header {
                headers.insert("last-event-id", HeaderValue::from_static(id));
            }
            assert_eq!(are_wanted(&headers, &Uri::from_static(uri)), wanted, "{header:?} {uri}");
        }
    }

    #[test]
    fn only_the_line_of_the_id_is_taken_out() {
        for (frame, left) in [
            ("id: 1-0\ndata: {\"a\":\"id: 2\"}\n\n", "data: {\"a\":\"id: 2\"}\n\n"),
            ("data: {}\n\n", "data: {}\n\n"),
            ("event: ping\n\n", "event: ping\n\n"),
        ] {
            assert_eq!(without_id(Bytes::from_static(frame.as_bytes())), left, "{frame:?}");
        }
    }
}
