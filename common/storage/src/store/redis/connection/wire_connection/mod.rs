//! Lines: separate connections for the three dialogues of a step (reading the inbox, committing, and the
//! worker's side of both). The client library shares a connection among many users and builds a tree of
//! values for each reply. A line serves one user, and its replies stay in one buffer until the next request.
//!
//! A line never reconnects: `WATCH` on it counts only while it is open.

mod connect;
mod replies;
mod request;
mod streams;

use std::io;
use std::pin::Pin;
use std::time::Duration;

use redis::{ConnectionInfo, ErrorKind, RedisError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use crate::store::redis::connection::tls::Tls;

pub(in crate::store::redis) use crate::store::redis::connection::wire_connection::replies::{Replies, Reply};
pub(in crate::store::redis) use crate::store::redis::connection::wire_connection::request::{Request, Word};
pub(in crate::store::redis) use crate::store::redis::connection::wire_connection::streams::entries;

/// The least free space in the reply buffer.
const ROOM: usize = 16 * 1024;
/// Larger buffers are freed before the next request.
const KEPT_BYTES: usize = 1024 * 1024;

/// A connection with one user.
pub(in crate::store::redis) struct Line {
    stream: Pin<Box<dyn connect::Bytes>>,
    replies: Vec<u8>,
    /// The replies to a request were not all read, because it failed or its future was dropped. The line must
    /// not be used again.
    is_broken: bool,
    timeout: Duration,
    /// Becomes true when the server is no longer the master.
    left: Option<watch::Receiver<bool>>,
}

impl Line {
    /// Connects and authenticates. `timeout` bounds this and every request.
    pub(in crate::store::redis) async fn open(
        info: &ConnectionInfo,
        tls: &Tls,
        timeout: Duration,
    ) -> Result<Self, RedisError> {
        let opened = tokio::time::timeout(timeout, async {
            let stream = connect::connect(info, tls).await?;
            let mut line = Self { stream, replies: Vec::new(), is_broken: false, timeout, left: None };
            line.greet(info).await?;
            Ok(line)
        });
        opened.await.unwrap_or_else(|_| Err(late()))
    }

    /// Ends requests as soon as the server is no longer the master: the answer may never come, and is worth nothing. No
    /// request is sent after that.
    pub(in crate::store::redis) fn until(self, left: watch::Receiver<bool>) -> Self {
        Self { left: Some(left), ..self }
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

    /// Sends a request and waits for all its replies. `blocks` is the extra time that the server may take.
    /// The caller handles errors among the replies.
    pub(in crate::store::redis) async fn ask(
        &mut self,
        request: &Request,
        blocks: Duration,
    ) -> Result<Replies<'_>, RedisError> {
        let (bytes, replies) = request.finished().ok_or_else(miscounted)?;
        if self.is_broken {
            let reason = "an earlier request on this connection was not finished";
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, reason).into());
        }
        self.is_broken = true;
        let exchange = exchange(&mut self.stream, &mut self.replies, bytes, replies);
        let exchange = tokio::time::timeout(self.timeout + blocks, exchange);
        let done = match &mut self.left {
            None => exchange.await,
            Some(left) => tokio::select! {
                biased;
                _ = left.wait_for(|left| *left) => return Err(has_left()),
                done = exchange => done,
            },
        };
        done.map_err(|_| late())??;
        self.is_broken = false;
        Ok(Replies::new(&self.replies))
    }

    /// The replies to the last request, again.
    pub(in crate::store::redis) fn replies(&self) -> Replies<'_> {
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
                let reason = "the reply is not valid for a Redis server";
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

/// Turns an error line of the server into an error of the client library, so that all errors are explained in
/// one place.
pub(in crate::store::redis) fn error_of(line: &[u8]) -> RedisError {
    let parsed = redis::parse_redis_value(&[b"-", line, b"\r\n"].concat());
    match parsed.and_then(redis::Value::extract_error) {
        Err(error) => error,
        Ok(_) => io::Error::other(String::from_utf8_lossy(line).into_owned()).into(),
    }
}

fn late() -> RedisError {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time").into()
}

/// The error of a request to a server that is no longer the master.
pub(in crate::store::redis) fn has_left() -> RedisError {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the server is no longer the master").into()
}

fn miscounted() -> RedisError {
    (ErrorKind::Client, "a command has more or fewer words than it says; this is a defect").into()
}
