//! The one server that has all keys: at a fixed address, or the master that Sentinels name at the moment.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::store::StoreError;
use crate::store::redis::connection::errors::is_left;
use crate::store::redis::connection::servers::node::Node;
use crate::store::redis::connection::servers::sentinels::Sentinels;

/// Time between two moves of all connections, when a server goes on refusing writes.
const MOVES_EVERY: Duration = Duration::from_secs(1);

/// The server at a fixed address. The address may be a name or a proxy that leads to another server by now, so all
/// connections are made again when the server refuses a write for lack of replicas, or because it is one. Connections that
/// only read would stay with the old server for ever.
pub(in crate::store::redis) struct Fixed(Mutex<(Arc<Node>, Option<Instant>)>);

impl Fixed {
    pub(in crate::store::redis) fn new(node: Node) -> Self {
        Self(Mutex::new((Arc::new(node.for_now()), None)))
    }

    fn node(&self) -> Arc<Node> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    fn move_all(&self) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (node, moved) = &mut *now;
        if moved.is_none_or(|moved| moved.elapsed() >= MOVES_EVERY) {
            let old = std::mem::replace(node, Arc::new(node.again()));
            *moved = Some(Instant::now());
            old.leave();
        }
    }
}

/// The one server.
#[derive(Clone)]
pub(in crate::store::redis) enum One {
    Fixed(Arc<Fixed>),
    Watched(Arc<Sentinels>),
}

impl One {
    /// The server that is it now.
    ///
    /// # Errors
    /// No Sentinel says which one it is, or that one is no master.
    pub(in crate::store::redis) async fn node(&self) -> Result<Arc<Node>, StoreError> {
        match self {
            Self::Fixed(fixed) => Ok(fixed.node()),
            Self::Watched(sentinels) => sentinels.master().await,
        }
    }

    /// After an error that may mean that another server is the master by now: the Sentinels are asked soon, and a fixed
    /// address gets new connections.
    pub(in crate::store::redis) fn doubt(&self, error: &StoreError) {
        match self {
            Self::Watched(sentinels) if matches!(error, StoreError::Unreachable { .. }) => {
                sentinels.want_look()
            }
            Self::Fixed(fixed) if is_left(error) => fixed.move_all(),
            Self::Watched(_) | Self::Fixed(_) => {}
        }
    }

    /// Like [`Self::doubt`], for an answer that is passed on.
    ///
    /// # Errors
    /// That of the answer.
    pub(in crate::store::redis) fn noted<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        answer.inspect_err(|error| self.doubt(error))
    }

    /// The Sentinels, if they say which server it is.
    pub(in crate::store::redis) fn sentinels(&self) -> Option<&Arc<Sentinels>> {
        match self {
            Self::Fixed(_) => None,
            Self::Watched(sentinels) => Some(sentinels),
        }
    }
}
