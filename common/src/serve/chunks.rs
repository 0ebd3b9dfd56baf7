//! The bytes of an event stream as HTTP/1.1: the head of the answer, each frame as a chunk, the last chunk. Pure; the
//! bytes are those that the HTTP library would write.

use std::collections::VecDeque;
use std::io::{IoSlice, Write};

use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use chrono::Utc;

/// Frames from this size on are not copied, in bytes.
const LARGE: usize = 4096;
/// Longest line before a chunk: its size in hexadecimal digits, and a line break.
const SIZE_LINE: usize = 18;

/// The head of an answer whose body comes in chunks.
pub(super) fn head(status: StatusCode, headers: &HeaderMap) -> Vec<u8> {
    let mut text = Vec::with_capacity(384);
    // Writing to memory cannot fail.
    let _ =
        write!(text, "HTTP/1.1 {} {}\r\n", status.as_str(), status.canonical_reason().unwrap_or_default());
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            text.extend(part);
        }
    }
    text.extend(b"transfer-encoding: chunked\r\n");
    if !headers.contains_key(header::DATE) {
        let _ = write!(text, "date: {}\r\n", Utc::now().format("%a, %d %b %Y %H:%M:%S GMT"));
    }
    text.extend(b"\r\n");
    text
}

/// Bytes on their way to a client, in parts. Holds no memory while it is empty.
#[derive(Default)]
pub(super) struct Chunks {
    parts: VecDeque<Bytes>,
    /// Small parts are gathered here.
    small: Vec<u8>,
    bytes: usize,
}

impl Chunks {
    /// How many bytes wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds bytes as they are.
    pub(super) fn plain(&mut self, bytes: &[u8]) {
        self.small.extend_from_slice(bytes);
        self.bytes += bytes.len();
    }

    /// Adds a frame as a chunk; an empty one would be the last, and is left out.
    pub(super) fn chunk(&mut self, data: Bytes) {
        if data.is_empty() {
            return;
        }
        let before = self.small.len();
        let copied = if data.len() < LARGE { data.len() } else { 0 };
        self.small.reserve(copied + SIZE_LINE + 2);
        // Writing to memory cannot fail.
        let _ = write!(self.small, "{:X}\r\n", data.len());
        self.bytes += self.small.len() - before;
        if data.len() < LARGE {
            self.plain(&data);
        } else {
            self.close_small();
            self.bytes += data.len();
            self.parts.push_back(data);
        }
        self.plain(b"\r\n");
    }

    /// Adds the end of the body.
    pub(super) fn end(&mut self) {
        self.plain(b"0\r\n\r\n");
    }

    /// The first parts, to be written. Returns how many there are.
    pub(super) fn parts<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let small = Some(&self.small[..]).filter(|small| !small.is_empty());
        let parts = self.parts.iter().map(|part| &part[..]).chain(small);
        into.iter_mut().zip(parts).map(|(slot, part)| *slot = IoSlice::new(part)).count()
    }

    /// Removes bytes that were written.
    pub(super) fn advance(&mut self, written: usize) {
        self.bytes -= written;
        if self.bytes == 0 {
            *self = Self::default();
            return;
        }
        let mut left = written;
        self.close_small();
        while let Some(part) = self.parts.front_mut() {
            if left < part.len() {
                let _ = part.split_to(left);
                return;
            }
            left -= part.len();
            self.parts.pop_front();
        }
    }

    fn close_small(&mut self) {
        if !self.small.is_empty() {
            self.parts.push_back(std::mem::take(&mut self.small).into());
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    /// Takes everything out, so many bytes at once.
    fn taken(mut chunks: Chunks, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while chunks.bytes() > 0 {
            let before = chunks.bytes();
            let mut parts = [IoSlice::new(&[]); 2];
            let count = chunks.parts(&mut parts);
            let some: Vec<u8> =
                parts[..count].iter().flat_map(|part| part.iter().copied()).take(step).collect();
            assert!(!some.is_empty(), "something waits");
            chunks.advance(some.len());
            assert_eq!(chunks.bytes(), before - some.len());
            all.extend(some);
        }
        all
    }

    #[test]
    fn frames_become_chunks_whatever_the_client_takes_at_once() {
        let large = "x".repeat(LARGE);
        for step in [1, 3, 17, LARGE, usize::MAX] {
            let mut chunks = Chunks::default();
            for frame in ["data: a\n\n", "", large.as_str(), "twelve bytes"] {
                chunks.chunk(Bytes::copy_from_slice(frame.as_bytes()));
            }
            chunks.end();
            let expected = format!("9\r\ndata: a\n\n\r\n1000\r\n{large}\r\nC\r\ntwelve bytes\r\n0\r\n\r\n");
            assert_eq!(String::from_utf8(taken(chunks, step)).unwrap(), expected, "{step}");
        }
    }

    #[test]
    fn a_large_frame_is_not_copied_and_nothing_is_held_afterwards() {
        let frame = Bytes::from("x".repeat(LARGE));
        let mut chunks = Chunks::default();
        chunks.chunk(frame.clone());
        assert!(chunks.parts.iter().any(|part| part.as_ptr() == frame.as_ptr()));
        chunks.advance(chunks.bytes());
        assert_eq!((chunks.small.capacity(), chunks.parts.capacity()), (0, 0));
    }

    #[test]
    fn the_head_has_the_headers_in_their_order() {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("text/event-stream"));
        headers.append("vary", HeaderValue::from_static("origin"));
        headers.append("vary", HeaderValue::from_static("accept"));
        headers.insert("date", HeaderValue::from_static("then"));
        let expected = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nvary: origin\r\nvary: accept\r\n\
                        date: then\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(String::from_utf8(head(StatusCode::OK, &headers)).unwrap(), expected);
    }
}
