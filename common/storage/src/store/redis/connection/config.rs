//! The settings of the connection to Redis.

use serde::{Deserialize, Serialize};

use tidemill_base::hidden::{Hidden, HiddenUrl};

/// `[redis]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisConfig {
    /// `redis://[user:password@]host:port[/db]`, `rediss://…` for TLS, `unix:///path`;
    /// `redis+cluster://[user:password@]host:port,host:port` for a cluster, `rediss+cluster://…` with TLS;
    /// `redis+sentinel://[user:password@]host:port,host:port/name[/db]` for the master of this name that Sentinels watch,
    /// `rediss+sentinel://…` with TLS to both. User and password are those of the master.
    pub url: HiddenUrl,
    /// The user at the Sentinels; empty: their default user.
    pub sentinel_user: String,
    /// The password at the Sentinels; empty: they want none.
    pub sentinel_password: Hidden,
    /// With Sentinels: the time between two looks at which server is the master, in milliseconds. A message of a Sentinel
    /// ends this time at once.
    pub sentinel_check_ms: u64,
    /// A PEM file with the certificates trusted for `rediss://`; empty: the public authorities.
    pub ca_file: String,
    /// A PEM file with the certificate that this process shows to servers (and Sentinels) that ask for one, and those that
    /// vouch for it; empty: none.
    pub certificate_file: String,
    /// A PEM file with the private key of that certificate.
    pub key_file: String,
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
            sentinel_user: String::new(),
            sentinel_password: Hidden::default(),
            sentinel_check_ms: 500,
            ca_file: String::new(),
            certificate_file: String::new(),
            key_file: String::new(),
            namespace: "tm".into(),
            timeout_ms: 5_000,
            blob_connections: 4,
            cluster_refresh_ms: 2_000,
        }
    }
}
