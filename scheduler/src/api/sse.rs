//! Server-sent events: frames, and the response that carries them. Dify's frames have no `event:` line; its ping has no
//! data line.

use std::io::Write;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use serde_json::Value as Json;
use tidemill_common::ids::EntryId;

/// A frame for Dify's API: only `data:`, and the entry's id in the last frame of an entry.
pub fn dify(id: Option<EntryId>, payload: &Json) -> Bytes {
    frame(id, None, payload)
}

/// A frame for our own API, with the event's type.
pub fn native(id: Option<EntryId>, kind: &str, payload: &Json) -> Bytes {
    frame(id, Some(kind), payload)
}

/// True when these headers are those of an event stream.
pub fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with(CONTENT_TYPE))
}

/// The content type of an event stream.
pub const CONTENT_TYPE: &str = "text/event-stream";
/// Dify's ping.
pub const DIFY_PING: Bytes = Bytes::from_static(b"event: ping\n\n");
/// Our ping: a comment, which clients ignore.
pub const NATIVE_PING: Bytes = Bytes::from_static(b": ping\n\n");
/// The last bytes of a stream that ends before its run, because the process stops.
pub const CLOSING: Bytes = Bytes::from_static(
    b": this scheduler stops; the run goes on, and its events go on after Last-Event-ID\n\n",
);

fn frame(id: Option<EntryId>, kind: Option<&str>, payload: &Json) -> Bytes {
    let mut text = Vec::new();
    begin(&mut text, id, kind);
    // Serialising a `Value` cannot fail.
    let _ = serde_json::to_writer(&mut text, payload);
    end(&mut text);
    text.into()
}

/// Writes a frame up to its payload. The payload must be JSON, which has no raw line breaks.
pub fn begin(to: &mut Vec<u8>, id: Option<EntryId>, kind: Option<&str>) {
    if let Some(id) = id {
        // Writing to memory cannot fail.
        let _ = writeln!(to, "id: {id}");
    }
    if let Some(kind) = kind {
        for part in ["event: ", kind, "\n"] {
            to.extend(part.as_bytes());
        }
    }
    to.extend(b"data: ");
}

/// Writes the end of a frame, after its payload.
pub fn end(to: &mut Vec<u8>) {
    to.extend(b"\n\n");
}

/// The response that sends these frames.
pub fn answer(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    use futures_util::StreamExt;
    let mut response = Response::new(Body::from_stream(frames.map(Ok::<_, std::convert::Infallible>)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Tells nginx to pass on frames without buffering.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
