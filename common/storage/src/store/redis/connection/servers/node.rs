//! One server: its shared connections, replaced when they break, and its idle lines. A server that leaves the cluster, or
//! is no longer the master, drops them all, so that nothing waits for an answer that may never come.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, Pipeline, RedisError, Value};
use tokio::sync::watch;

use crate::store::StoreError;
use crate::store::redis::connection::config::RedisConfig;
use crate::store::redis::connection::errors::{explain, not_connected};
use crate::store::redis::connection::tls::Tls;
use crate::store::redis::connection::wire_connection::{Line, has_left};

/// How all servers are reached.
#[derive(Clone)]
pub(in crate::store::redis) struct Reach {
    tls: Arc<Tls>,
    /// The longest wait for an answer or a connection.
    pub(super) timeout: Duration,
}

impl Reach {
    /// # Errors
    /// A file with certificates or the key cannot be used.
    pub(in crate::store::redis) fn new(config: &RedisConfig) -> Result<Self, StoreError> {
        let timeout = Duration::from_millis(config.timeout_ms);
        Ok(Self { tls: Arc::new(Tls::of(config)?), timeout })
    }

    /// The same, but waits no longer than this.
    pub(super) fn within(&self, longest: Duration) -> Self {
        Self { tls: self.tls.clone(), timeout: self.timeout.min(longest) }
    }
}

/// Which of a server's shared connections a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::redis) enum Lane {
    Short,
    /// For large values, so that they do not delay other requests.
    Blobs,
}

/// A server.
pub(in crate::store::redis) struct Node {
    client: Client,
    reach: Reach,
    short: Mutex<Option<MultiplexedConnection>>,
    blobs: Mutex<Option<MultiplexedConnection>>,
    /// Idle lines.
    lines: Mutex<Vec<Line>>,
    /// Becomes true when the server is no longer the master.
    left: watch::Sender<bool>,
    /// Lines end with that. A server that was asked whether it is one of several stays what it is.
    may_leave: bool,
    /// For messages, without password.
    address: Arc<str>,
}

impl Node {
    /// Connects on first use. `address` is for messages.
    ///
    /// # Errors
    /// The library cannot use the address.
    pub(in crate::store::redis) fn new(
        info: ConnectionInfo,
        reach: &Reach,
        address: &str,
    ) -> Result<Self, RedisError> {
        let is_tls = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        let client = match reach.tls.library() {
            // The library accepts certificates only for such an address.
            Some(certificates) if is_tls => Client::build_with_tls(info, certificates),
            Some(_) | None => Client::open(info),
        };
        Ok(Self {
            client: client?,
            reach: reach.clone(),
            short: Mutex::default(),
            blobs: Mutex::default(),
            lines: Mutex::default(),
            left: watch::channel(false).0,
            may_leave: false,
            address: address.into(),
        })
    }

    /// The same, as one of several that can be the master: its lines end when it is no longer that.
    pub(super) fn for_now(self) -> Self {
        Self { may_leave: true, ..self }
    }

    /// The same address without any connection.
    pub(super) fn again(&self) -> Self {
        Self {
            client: self.client.clone(),
            reach: self.reach.clone(),
            short: Mutex::default(),
            blobs: Mutex::default(),
            lines: Mutex::default(),
            left: watch::channel(false).0,
            may_leave: self.may_leave,
            address: self.address.clone(),
        }
    }

    /// For messages, without password.
    pub(in crate::store::redis) fn address(&self) -> &Arc<str> {
        &self.address
    }

    /// The host that it is reached at; empty for a unix socket.
    pub(super) fn host(&self) -> &str {
        match self.client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            _ => "",
        }
    }

    /// Opens a separate connection. `blocks` is the longest time that a command on it blocks at the server.
    pub(in crate::store::redis) async fn open(
        &self,
        blocks: Duration,
    ) -> Result<MultiplexedConnection, StoreError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.reach.timeout))
            // The response timeout exceeds the server's wait, so that a half-open connection does not block
            // for ever.
            .set_response_timeout(Some(self.reach.timeout + blocks));
        let opening = self.client.get_multiplexed_async_connection_with_config(&config);
        self.while_master(opening).await.map_err(|e| self.not_connected(&e))
    }

    /// Opens a line: a connection with one user, whose replies are read in place.
    pub(in crate::store::redis) async fn open_line(&self) -> Result<Line, StoreError> {
        let info = self.client.get_connection_info();
        let opened = self.while_master(Line::open(info, &self.reach.tls, self.reach.timeout)).await;
        let line = opened.map_err(|e| self.not_connected(&e))?;
        Ok(if self.may_leave { line.until(self.left()) } else { line })
    }

    /// An idle or a new line.
    pub(in crate::store::redis) async fn line(&self) -> Result<Line, StoreError> {
        let idle = locked(&self.lines).pop();
        match idle {
            Some(line) => Ok(line),
            None => self.open_line().await,
        }
    }

    /// Keeps a line for the next request.
    pub(in crate::store::redis) fn put_back(&self, line: Line) {
        locked(&self.lines).push(line);
    }

    /// Opens a connection for subscriptions.
    pub(in crate::store::redis) async fn open_pubsub(&self) -> Result<PubSub, StoreError> {
        let opening = self.while_master(self.client.get_async_pubsub());
        match tokio::time::timeout(self.reach.timeout, opening).await {
            Ok(opened) => opened.map_err(|e| self.not_connected(&e)),
            Err(_) => Err(StoreError::Unreachable {
                address: self.address.to_string(),
                doing: "connecting",
                reason: "no answer in time".into(),
            }),
        }
    }

    /// The shared connection; opens it if needed.
    pub(in crate::store::redis) async fn shared(
        &self,
        lane: Lane,
    ) -> Result<MultiplexedConnection, StoreError> {
        if let Some(connection) = locked(self.lane(lane)).as_ref() {
            return Ok(connection.clone());
        }
        let connection = self.open(Duration::ZERO).await?;
        *locked(self.lane(lane)) = Some(connection.clone());
        Ok(connection)
    }

    fn lane(&self, lane: Lane) -> &Mutex<Option<MultiplexedConnection>> {
        match lane {
            Lane::Short => &self.short,
            Lane::Blobs => &self.blobs,
        }
    }

    /// Sends commands as they are and returns all replies, errors of the server among them.
    ///
    /// # Errors
    /// The server cannot be reached or has left the cluster. The commands may have been executed.
    pub(in crate::store::redis) async fn send(
        &self,
        lane: Lane,
        doing: &'static str,
        pipe: &Pipeline,
    ) -> Result<Vec<Value>, StoreError> {
        use redis::aio::ConnectionLike;
        let mut connection = self.shared(lane).await?;
        self.answer(lane, doing, connection.req_packed_commands(pipe, 0, pipe.len())).await
    }

    /// Waits for the answer to a request on a shared connection, but not longer than the server is the master. A request
    /// that was not begun by then is not sent.
    pub(in crate::store::redis) async fn answer<T>(
        &self,
        lane: Lane,
        doing: &'static str,
        asked: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, StoreError> {
        let answer = self.while_master(asked).await;
        self.settle(lane, doing, answer)
    }

    /// Does something with the server, but not longer than it is the master.
    pub(in crate::store::redis) async fn while_master<T>(
        &self,
        doing: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, RedisError> {
        let mut left = self.left.subscribe();
        tokio::select! {
            biased;
            _ = left.wait_for(|left| *left) => Err(has_left()),
            done = doing => done,
        }
    }

    /// Explains an error; after one of the connection the next request reconnects.
    fn settle<T>(
        &self,
        lane: Lane,
        doing: &'static str,
        answer: Result<T, RedisError>,
    ) -> Result<T, StoreError> {
        answer.map_err(|error| {
            let error = explain(&self.address, doing, &error);
            if matches!(error, StoreError::Unreachable { .. }) {
                *locked(self.lane(lane)) = None;
            }
            error
        })
    }

    /// Drops the idle lines, after one of them has failed: the others lead to the same server.
    pub(in crate::store::redis) fn drop_lines(&self) {
        locked(&self.lines).clear();
    }

    /// The server is no longer the master: requests in flight fail, and nothing is kept.
    pub(super) fn leave(&self) {
        self.left.send_replace(true);
        self.drop_lines();
        *locked(&self.short) = None;
        *locked(&self.blobs) = None;
    }

    /// Becomes true when the server is no longer the master.
    pub(in crate::store::redis) fn left(&self) -> watch::Receiver<bool> {
        self.left.subscribe()
    }

    /// The server at `host:port`, reached like another one.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub(super) fn beside(like: &ConnectionInfo, reach: &Reach, address: &str) -> Result<Self, String> {
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        let port = port.parse().map_err(|_| "it has no port".to_string())?;
        let to = match like.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host: host.to_string(), port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host.to_string(), port),
        };
        Self::new(like.clone().set_addr(to), reach, address).map_err(|error| error.to_string())
    }

    fn not_connected(&self, error: &RedisError) -> StoreError {
        not_connected(&self.address, self.client.get_connection_info().addr(), error)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
