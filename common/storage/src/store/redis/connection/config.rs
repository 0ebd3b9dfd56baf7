//! The settings of the connection to Redis.

use serde::{Deserialize, Serialize};

use tidemill_base::hidden::HiddenUrl;

/// `[redis]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisConfig {
    /// `redis://[user:password@]host:port[/db]`, `rediss://…` for TLS, `unix:///path`;
    /// `redis+cluster://[user:password@]host:port,host:port` for a cluster, `rediss+cluster://…` with TLS.
    pub url: HiddenUrl,
    /// A PEM file with the certificates trusted for `rediss://`; empty: the public authorities.
    pub ca_file: String,
    /// The prefix of every key.
    pub namespace: String,
    /// Longest wait for an answer or a connection, in milliseconds.
    pub timeout_ms: u64,
    /// Connections in the pool for blobs.
    pub blob_connections: u32,
    /// In a cluster: the time between two looks at which server has which slots, in milliseconds.
    pub cluster_refresh_ms: u64,
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:6379".into(),
            ca_file: String::new(),
            namespace: "tm".into(),
            timeout_ms: 5_000,
            blob_connections: 4,
            cluster_refresh_ms: 2_000,
        }
    }
}
