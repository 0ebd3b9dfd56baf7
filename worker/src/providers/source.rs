//! Where the bytes of a file are that goes to a model or comes from one. Apart from how they are fetched, so that readers of
//! replies need nothing of it (`fuzz/targets/model_stream.rs` builds them alone).

use std::fmt;

use bytes::Bytes;

/// What is sent of a file.
#[derive(Clone, PartialEq, Eq)]
pub enum Source {
    /// Where it lies.
    Url(String),
    /// All of it.
    Bytes(Bytes),
}

/// Of bytes only their number is shown.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.debug_tuple("Url").field(url).finish(),
            Self::Bytes(bytes) => f.debug_tuple("Bytes").field(&bytes.len()).finish(),
        }
    }
}
