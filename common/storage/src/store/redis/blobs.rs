//! Connections for large values: a separate pool, so that they do not delay other requests. A connection to a server that
//! is no longer the master is dropped. Several callers that want the same value at the same time wait for one request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, WeakShared};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Script};

use super::connection::Connector;
use super::connection::servers::{Lane, Node};
use crate::store::StoreError;
use bb8_redis::bb8;
use tidemill_base::limits;

/// The way of large values: the pool of connections to one server, or where the server of a key may change, in a cluster or
/// with Sentinels, the shared connections for them.
pub(super) enum BlobLane {
    Pool(bb8::Pool<BlobConnections>, Arc<str>),
    Shared(Connector),
}

impl BlobLane {
    /// A connection for some commands.
    ///
    /// # Errors
    /// All connections of the pool are in use for too long, or none can be opened.
    pub(super) async fn connection(&self, doing: &'static str) -> Result<BlobWay<'_>, StoreError> {
        match self {
            Self::Shared(connector) => Ok(BlobWay::Shared(connector)),
            Self::Pool(pool, address) => pool.get().await.map(BlobWay::Pooled).map_err(|error| match error {
                bb8::RunError::User(error) => error,
                bb8::RunError::TimedOut => StoreError::Unreachable {
                    address: address.to_string(),
                    doing,
                    reason: "no connection in time; redis.blob_connections bounds them".into(),
                },
            }),
        }
    }
}

/// A connection for large values.
pub(super) enum BlobWay<'a> {
    Pooled(bb8::PooledConnection<'a, BlobConnections>),
    Shared(&'a Connector),
}

impl BlobWay<'_> {
    /// Sends a command.
    pub(super) async fn ask<T: FromRedisValue>(
        &mut self,
        doing: &'static str,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        match self {
            Self::Pooled(connection) => connection.ask(doing, command).await,
            Self::Shared(connector) => connector.ask_in(Lane::Blobs, doing, command).await,
        }
    }
}

impl BlobWay<'_> {
    /// Loads a script at the server of a key.
    async fn load(&mut self, doing: &'static str, key: &str, script: &Script) -> Result<(), StoreError> {
        match self {
            Self::Pooled(connection) => {
                let server = connection.server.clone();
                let loading = script.prepare_invoke();
                let loaded = server.while_master(loading.load_async(&mut connection.connection)).await;
                loaded.map(drop).map_err(|error| connection.connector.error(doing, &error))
            }
            Self::Shared(connector) => connector.load(doing, key, script).await,
        }
    }
}

fn is_unknown_script(error: &StoreError) -> bool {
    matches!(error, StoreError::Unexpected { reason, .. } if reason.contains("NOSCRIPT"))
}

type Loading = BoxFuture<'static, Result<Option<Arc<String>>, StoreError>>;

/// The values that are being loaded, by key. A value never changes under its key, so a caller that wants one that another
/// caller waits for shares its request: the thousand followers of a run load its outputs once, not a thousand times.
#[derive(Default)]
pub(super) struct Loads(Mutex<HashMap<String, WeakShared<Loading>>>);

impl Loads {
    /// Waits for the value under this key: for the request that is under way, or else for that of `begin`. A request goes
    /// on as long as one caller waits for it.
    ///
    /// # Errors
    /// That of the request.
    pub(super) async fn load<F>(
        &self,
        key: String,
        begin: impl FnOnce(String) -> F,
    ) -> Result<Option<String>, StoreError>
    where
        F: Future<Output = Result<Option<String>, StoreError>> + Send + 'static,
    {
        let under_way = self.locked().get(&key).and_then(WeakShared::upgrade);
        if let Some(loading) = under_way
            // Without a value it may have begun before the value was stored.
            && let Some(value) = loading.await?
        {
            return Ok(Some(Arc::unwrap_or_clone(value)));
        }
        let value = begin(key.clone());
        let loading = async move { Ok(value.await?.map(Arc::new)) }.boxed().shared();
        {
            let mut all = self.locked();
            all.retain(|_, loading| loading.upgrade().is_some());
            all.extend(loading.downgrade().map(|weak| (key, weak)));
        }
        Ok(loading.await?.map(Arc::unwrap_or_clone))
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, WeakShared<Loading>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stores a value that nothing has accepted yet. It may be repeated at any time, also after the value was accepted.
///
/// # Errors
/// Errors of the server, or it lacks the beginning of the value.
pub(super) async fn store(lane: &BlobLane, script: &Script, key: &str, text: &str) -> Result<(), StoreError> {
    const DOING: &str = "storing a large value";
    // A value of many megabytes in one command would block the server.
    const PIECE: usize = 1024 * 1024;
    let mut connection = lane.connection(DOING).await?;
    let mut position = 0;
    for piece in text.as_bytes().chunks(PIECE) {
        let mut call = redis::cmd("EVALSHA");
        call.arg(script.get_hash())
            .arg(1)
            .arg(key)
            .arg(position)
            .arg(piece)
            .arg(limits::BLOB_PENDING_SECONDS);
        let answer: String = match connection.ask(DOING, &call).await {
            Err(error) if is_unknown_script(&error) => {
                connection.load(DOING, key, script).await?;
                connection.ask(DOING, &call).await?
            }
            answer => answer?,
        };
        if answer == "KEPT" {
            return Ok(());
        }
        position += piece.len();
        if answer.parse::<usize>().is_ok_and(|there| there < position) {
            let reason = format!("{answer} bytes are there where {position} were sent; it is sent again");
            return Err(StoreError::Refused { doing: DOING, reason });
        }
    }
    Ok(())
}

/// Opens the connections of the pool.
pub(super) struct BlobConnections(pub(super) Connector);

/// A pooled connection.
pub(super) struct BlobConnection {
    connection: MultiplexedConnection,
    server: Arc<Node>,
    connector: Connector,
    is_broken: bool,
}

impl BlobConnection {
    /// Sends a command.
    pub(super) async fn ask<T: FromRedisValue>(
        &mut self,
        doing: &'static str,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        let answer = self.server.while_master(command.query_async(&mut self.connection)).await;
        answer.map_err(|error| {
            let error = self.connector.error(doing, &error);
            self.is_broken |= matches!(error, StoreError::Unreachable { .. });
            error
        })
    }
}

impl bb8::ManageConnection for BlobConnections {
    type Connection = BlobConnection;
    type Error = StoreError;

    async fn connect(&self) -> Result<BlobConnection, StoreError> {
        let server = self.0.home().await?;
        let connection = server.open(Duration::ZERO).await?;
        Ok(BlobConnection { connection, server, connector: self.0.clone(), is_broken: false })
    }

    async fn is_valid(&self, connection: &mut BlobConnection) -> Result<(), StoreError> {
        connection.ask("testing a connection", &redis::cmd("PING")).await
    }

    fn has_broken(&self, connection: &mut BlobConnection) -> bool {
        connection.is_broken || *connection.server.left().borrow()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(work)
    }

    /// A request that answers at `go`, and counts itself when it begins.
    fn request(
        begun: &Arc<AtomicUsize>,
        go: &Arc<Notify>,
        answer: Option<&'static str>,
    ) -> impl Future<Output = Result<Option<String>, StoreError>> + Send + 'static {
        let (begun, go) = (begun.clone(), go.clone());
        async move {
            begun.fetch_add(1, Ordering::Relaxed);
            go.notified().await;
            Ok(answer.map(str::to_owned))
        }
    }

    #[test]
    fn callers_that_want_the_same_value_share_one_request() {
        let (loads, begun, go) = (Loads::default(), Arc::default(), Arc::new(Notify::new()));
        run(async {
            let one = loads.load("a".into(), |_| request(&begun, &go, Some("value")));
            let two = loads.load("a".into(), |_| request(&begun, &go, Some("another")));
            let go_on = async { go.notify_one() };
            let (one, two, ()) = tokio::join!(one, two, go_on);
            assert_eq!((one.unwrap().as_deref(), two.unwrap().as_deref()), (Some("value"), Some("value")));
            assert_eq!(begun.load(Ordering::Relaxed), 1);
        });
    }

    #[test]
    fn a_value_that_was_missing_is_asked_for_again() {
        let (loads, begun, go) = (Loads::default(), Arc::default(), Arc::new(Notify::new()));
        run(async {
            let one = loads.load("a".into(), |_| request(&begun, &go, None));
            let two = loads.load("a".into(), |_| request(&begun, &go, Some("stored by now")));
            let go_on = async {
                go.notify_one();
                tokio::task::yield_now().await;
                go.notify_one();
            };
            let (one, two, ()) = tokio::join!(one, two, go_on);
            assert_eq!((one.unwrap(), two.unwrap().as_deref()), (None, Some("stored by now")));
        });
    }

    #[test]
    fn a_caller_that_gives_up_leaves_the_request_to_the_others_and_nothing_is_kept() {
        let (loads, begun, go) = (Loads::default(), Arc::default(), Arc::new(Notify::new()));
        run(async {
            let mut one = Box::pin(loads.load("a".into(), |_| request(&begun, &go, Some("value"))));
            assert!(futures_util::poll!(&mut one).is_pending());
            let mut two = Box::pin(loads.load("a".into(), |_| request(&begun, &go, Some("another"))));
            assert!(futures_util::poll!(&mut two).is_pending());
            drop(one);
            go.notify_one();
            assert_eq!(two.await.unwrap().as_deref(), Some("value"));
            go.notify_one();
            assert!(loads.load("b".into(), |_| request(&begun, &go, None)).await.unwrap().is_none());
            assert_eq!(loads.locked().len(), 1, "only the last one, whose request has ended");
        });
    }
}
