//! What can go wrong while measuring. Nothing is worth going on for: every error ends the program.

use std::io;

use tidemill_common::store::StoreError;

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A file or a socket.
    #[error("{doing}: {source}")]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// Redis, asked directly.
    #[error(transparent)]
    Redis(#[from] redis::RedisError),
    /// Redis, asked through the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was measured did not do its work, so that its figures mean nothing.
    #[error("{0}")]
    Wrong(String),
}

impl Error {
    /// An [`Error::Io`] while doing something.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }
}
