//! The one server that has all keys: at a fixed address, or the master that Sentinels name at the moment.

use std::sync::Arc;

use crate::store::StoreError;
use crate::store::redis::connection::servers::node::Node;
use crate::store::redis::connection::servers::sentinels::Sentinels;

/// The one server.
#[derive(Clone)]
pub(in crate::store::redis) enum One {
    Fixed(Arc<Node>),
    Watched(Arc<Sentinels>),
}

impl One {
    /// The server that is it now.
    ///
    /// # Errors
    /// No Sentinel says which one it is, or that one is no master.
    pub(in crate::store::redis) async fn node(&self) -> Result<Arc<Node>, StoreError> {
        match self {
            Self::Fixed(node) => Ok(node.clone()),
            Self::Watched(sentinels) => sentinels.master().await,
        }
    }

    /// After an error that may mean that another server is the master by now: the Sentinels are asked soon.
    pub(in crate::store::redis) fn doubt(&self, error: &StoreError) {
        if let (Self::Watched(sentinels), StoreError::Unreachable { .. }) = (self, error) {
            sentinels.want_look();
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
