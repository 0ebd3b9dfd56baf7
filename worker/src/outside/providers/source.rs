//! The content of a file sent to or made by a model. It is separate from fetching, so that reply readers build without
//! the network code (`fuzz/targets/model_stream.rs` builds them alone).

use std::fmt;

use bytes::Bytes;

/// The content of a file.
#[derive(Clone, PartialEq, Eq)]
pub enum Source {
    /// The file's address.
    Url(String),
    /// The file's bytes.
    Bytes(Bytes),
}

/// Shows only the number of bytes.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.debug_tuple("Url").field(url).finish(),
            Self::Bytes(bytes) => f.debug_tuple("Bytes").field(&bytes.len()).finish(),
        }
    }
}
