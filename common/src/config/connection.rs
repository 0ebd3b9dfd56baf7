//! Where Redis is.

use serde::{Deserialize, Serialize};

use crate::hidden::HiddenUrl;

/// `[redis]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisConfig {
    /// `redis://[user:password@]host:port[/db]`, `rediss://…` for TLS, `unix:///path`.
    pub url: HiddenUrl,
    /// A file with the certificates (PEM) that a server behind `rediss://` is known by; empty: the usual public ones.
    pub ca_file: String,
    /// In front of every key.
    pub namespace: String,
    /// Longest wait for an answer or a connection, in milliseconds.
    pub timeout_ms: u64,
    /// Connections of the pool that moves blobs.
    pub blob_connections: u32,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:6379".into(),
            ca_file: String::new(),
            namespace: "tm".into(),
            timeout_ms: 5_000,
            blob_connections: 4,
        }
    }
}
