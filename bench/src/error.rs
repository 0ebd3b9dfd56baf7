//! Errors while measuring. Every error ends the program.

use std::io;

use tidemill_common::store::StoreError;

/// The reason why there are no figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start { program: String, source: io::Error },
    /// An operation on a file or a socket failed.
    #[error("{doing}: {source}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        source: io::Error,
    },
    /// An error of a direct connection to Redis.
    #[error(transparent)]
    Redis(#[from] redis::RedisError),
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Tidemill or the floor did not do its work, so the figures would have no meaning.
    #[error("{0}")]
    Wrong(String),
}

impl Error {
    /// Returns a function that turns an I/O error into an [`Error::Io`].
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}
