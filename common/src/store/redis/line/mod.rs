//! Lines: connections of one's own for the three conversations that a step consists of: reading the inbox, committing, and
//! the worker's side of both. The client library serves many who share a connection, and gives each reply as a tree of
//! values of its own; here one at a time is served, and what it is told lies in one buffer until the next request.
//!
//! A line never connects anew by itself: what was said on it (`WATCH`) counts until it is closed.

mod connect;
mod replies;
mod request;
mod streams;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionInfo, ErrorKind, RedisError};
use rustls::RootCertStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(super) use replies::{Replies, Reply};
pub(super) use request::{Request, Word};
pub(super) use streams::entries;

/// Room that is there for replies at least.
const ROOM: usize = 16 * 1024;
/// Buffers above this are given back before the next request.
const KEPT_BYTES: usize = 1024 * 1024;

/// A connection with one user.
pub(super) struct Line {
    stream: Pin<Box<dyn connect::Bytes>>,
    replies: Vec<u8>,
    /// A request was sent whose replies have not been read: whoever waited has gone, or it failed. Nothing more goes over it.
    is_broken: bool,
    timeout: Duration,
}

impl Line {
    /// Connects, and says who is there. `timeout` bounds this and every request.
    pub(super) async fn open(
        info: &ConnectionInfo,
        roots: &Arc<RootCertStore>,
        timeout: Duration,
    ) -> Result<Self, RedisError> {
        let opened = tokio::time::timeout(timeout, async {
            let stream = connect::connect(info, roots).await?;
            let mut line = Self { stream, replies: Vec::new(), is_broken: false, timeout };
            line.greet(info).await?;
            Ok(line)
        });
        opened.await.unwrap_or_else(|_| Err(late()))
    }

    async fn greet(&mut self, info: &ConnectionInfo) -> Result<(), RedisError> {
        let who = info.redis_settings();
        let mut request = Request::default();
        match (who.username(), who.password()) {
            (Some(name), Some(password)) => {
                request.command("AUTH", 2).word(name).word(password);
            }
            (None, Some(password)) => {
                request.command("AUTH", 1).word(password);
            }
            (_, None) => {}
        }
        if who.db() != 0 {
            request.command("SELECT", 1).word(who.db());
        }
        let Some((_, replies)) = request.finished() else { return Err(miscounted()) };
        match self.ask(&request, Duration::ZERO).await?.pass(replies) {
            Some(error) => Err(error_of(error)),
            None => Ok(()),
        }
    }

    /// Sends a request and waits for all its replies; `blocks` is how long the server may take beyond the usual.
    /// Errors among the replies are left to the caller.
    pub(super) async fn ask(
        &mut self,
        request: &Request,
        blocks: Duration,
    ) -> Result<Replies<'_>, RedisError> {
        let (bytes, replies) = request.finished().ok_or_else(miscounted)?;
        if self.is_broken {
            let reason = "the connection was left in the middle of a request";
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, reason).into());
        }
        self.is_broken = true;
        let exchange = exchange(&mut self.stream, &mut self.replies, bytes, replies);
        tokio::time::timeout(self.timeout + blocks, exchange).await.map_err(|_| late())??;
        self.is_broken = false;
        Ok(Replies::new(&self.replies))
    }

    /// The replies to the last request, once more.
    pub(super) fn replies(&self) -> Replies<'_> {
        Replies::new(&self.replies)
    }
}

async fn exchange(
    stream: &mut Pin<Box<dyn connect::Bytes>>,
    buffer: &mut Vec<u8>,
    request: &[u8],
    replies: usize,
) -> io::Result<()> {
    buffer.clear();
    buffer.shrink_to(KEPT_BYTES);
    stream.write_all(request).await?;
    stream.flush().await?;
    let mut scan = replies::Scan::new(replies);
    loop {
        match scan.is_whole(buffer) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(replies::Malformed) => {
                let reason = "what came is no reply of a Redis server";
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
        }
        buffer.reserve(ROOM);
        if stream.read_buf(buffer).await? == 0 {
            let reason = "the server closed the connection";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason));
        }
    }
}

/// What the server called wrong, as an error of the client library, so that all errors are told in one place.
pub(super) fn error_of(line: &[u8]) -> RedisError {
    let parsed = redis::parse_redis_value(&[b"-", line, b"\r\n"].concat());
    match parsed.and_then(redis::Value::extract_error) {
        Err(error) => error,
        Ok(_) => io::Error::other(String::from_utf8_lossy(line).into_owned()).into(),
    }
}

fn late() -> RedisError {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time").into()
}

fn miscounted() -> RedisError {
    (ErrorKind::Client, "a command has more or fewer words than it says; this is a defect").into()
}
