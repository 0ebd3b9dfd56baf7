//! The settings of a scheduler and its API.

use serde::{Deserialize, Serialize};

use tidemill_base::hidden::Hidden;
use tidemill_base::limits;
use tidemill_storage::store::Durability;
use tidemill_workflow::dsl::SealingKey;

/// `[scheduler]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SchedulerConfig {
    /// The address of the API; port 0 chooses a free one.
    pub listen: String,
    /// A PEM file with the certificate of the API's address; empty: plain HTTP.
    pub tls_certificate_file: String,
    /// A PEM file with the private key of that certificate.
    pub tls_key_file: String,
    /// Interval at which these files are looked at again, in seconds.
    pub tls_check_seconds: u64,
    /// The address of `/metrics`; empty: on the API's address.
    pub metrics_listen: String,
    /// Most connections to the API.
    pub connections_max: usize,
    /// Most connections to `metrics_listen`.
    pub metrics_connections_max: usize,
    /// Longest time for the head of a request, in milliseconds.
    pub header_timeout_ms: u64,
    /// Longest idle time of a connection between two requests, in seconds.
    pub idle_seconds: u64,
    /// Proxies whose `X-Forwarded-For` is trusted: addresses, and networks such as `10.1.0.0/16`.
    pub trusted_proxies: Vec<String>,
    /// Wrong keys from one address within a second; above this they are answered with 429.
    pub wrong_keys_max: usize,
    /// The key for `/api/v1`, with all rights. Better set as `TIDEMILL_ADMIN_KEY`; empty: `/api/v1` is open only to admin keys
    /// that it has made before.
    pub admin_key: Hidden,
    /// Most entries of the audit log, in all; 0: it is not kept.
    pub audit_entries_max: u64,
    /// Days after which an entry of the audit log is removed; 0: no limit.
    pub audit_days: u64,
    /// Whether runs that are submitted through `/api/v1` are entries of the audit log.
    pub audit_runs: bool,
    /// Seals the secrets of stored workflow documents. Better set as `TIDEMILL_SECRET_KEY`.
    pub secret_key: Hidden,
    /// Whether keys shorter than [`limits::KEY_CHARS_MIN`] are accepted.
    pub allow_weak_keys: bool,
    /// Shards of a new namespace.
    pub shards: u16,
    /// The lease of a shard, in milliseconds.
    pub shard_lease_ms: u64,
    /// The renewal interval of the lease, in milliseconds.
    pub shard_renew_ms: u64,
    /// Bytes of run states kept in memory.
    pub run_cache_bytes: usize,
    /// New runs are refused when an inbox has more entries.
    pub inbox_max: u64,
    /// New runs are refused when a queue of a shard that they use has more jobs.
    pub queue_max: u64,
    /// Retention of ended runs, in seconds.
    pub retention_seconds: u64,
    /// Redis memory in bytes above which ended runs are removed early, oldest first; 0 for no limit, -1 for
    /// half of Redis' `maxmemory`, if it is set.
    pub retention_bytes: i64,
    /// Retention of a conversation after its last write, in seconds; 0 for ever.
    pub conversation_retention_seconds: u64,
    /// Most entries kept in a run's event stream.
    pub run_events_max: usize,
    /// Largest request body, in bytes.
    pub request_bytes_max: usize,
    /// Largest request body of a webhook, in bytes (Dify: `WEBHOOK_REQUEST_BODY_MAX_SIZE`).
    pub webhook_bytes_max: usize,
    /// Largest file that a client may upload, in bytes (Dify: `UPLOAD_FILE_SIZE_LIMIT`, in MB).
    pub upload_bytes_max: u64,
    /// Days after which an upload is removed; 0: never. Runs that use it have their own copy.
    pub upload_days: u64,
    /// Most missed times of a schedule that are caught up with `catch_up: all`; the newest ones.
    pub catch_up_max: u64,
    /// An event stream is closed after this time without events, in seconds (Dify: 300), and when its client has taken
    /// nothing for this time although `stream_buffer_bytes` wait for it.
    pub stream_idle_seconds: u64,
    /// Most bytes that wait for the client of an event stream. Further events are read from Redis when it has taken these.
    pub stream_buffer_bytes: usize,
    /// Time after the signal to stop in which `/readyz` fails and requests are still taken, in milliseconds.
    pub unready_ms: u64,
    /// Time after the signal to stop in which open streams and requests may end, in seconds.
    pub grace_seconds: u64,
    /// What must have happened to submissions, answers and commands before they are acknowledged, unless the request says
    /// otherwise: `memory`, `replicated` or `fsync`.
    pub durability: Durability,
    /// Longest wait for that, in milliseconds.
    pub durability_wait_ms: u64,
    /// A replica of Redis that is away for longer is not waited for, in seconds.
    pub replica_away_seconds: u64,
    /// Interval of the search for lost jobs, in seconds.
    pub repair_seconds: u64,
    /// Most combinations of provider, model and API key in `/metrics`; the rest is `other`.
    pub spending_series_max: usize,
    /// Longest time to ask the servers of a request's remote files for name, type and size, in milliseconds, for all
    /// files together; 0: they are not asked.
    pub remote_files_ms: u64,
    /// Most files of a request whose servers are asked.
    pub remote_files_max: usize,
    /// Most runs that a request for a list of runs, or for the logs of an app, looks at.
    pub logs_scanned_max: usize,
    /// Most versions of an app that are kept to be pinned; 0: no limit. The current one, the one before it and those of open
    /// runs stay in any case.
    pub app_versions_max: usize,
    /// Most removals of apps and users that are under way; 0: no limit.
    pub removals_max: usize,
    /// Most requests a second of each app, unless other limits are set for it; 0: no limit. Likewise of each API key.
    pub app_requests_per_second: u64,
    pub key_requests_per_second: u64,
    /// Most runs of each app at the same time, unless other limits are set for it; 0: no limit. Likewise of each API key.
    pub app_runs_max: u64,
    pub key_runs_max: u64,
    /// Longest wait of `POST /api/v1/runs?wait=` for the end of the run, in seconds.
    pub wait_seconds_max: u64,
    /// JSON bodies of responses from this size on are compressed, if the client accepts gzip, in bytes; 0: none is. Event
    /// streams never are.
    pub gzip_bytes_min: usize,
}

impl SchedulerConfig {
    /// The key from `secret_key`, if set. Call it once per process: clones of a key share derived keys.
    pub fn sealing_key(&self) -> Option<SealingKey> {
        (!self.secret_key.is_empty()).then(|| SealingKey::from_passphrase(&self.secret_key))
    }
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8700".into(),
            admin_key: Hidden::default(),
            audit_entries_max: limits::AUDIT_ENTRIES_MAX,
            audit_days: limits::AUDIT_DAYS,
            audit_runs: false,
            secret_key: Hidden::default(),
            allow_weak_keys: false,
            metrics_listen: String::new(),
            tls_certificate_file: String::new(),
            tls_key_file: String::new(),
            tls_check_seconds: limits::TLS_CHECK_SECONDS,
            connections_max: limits::CONNECTIONS_MAX,
            metrics_connections_max: limits::SIDE_CONNECTIONS_MAX,
            header_timeout_ms: limits::HEADER_TIMEOUT_MS,
            idle_seconds: limits::IDLE_SECONDS,
            trusted_proxies: Vec::new(),
            wrong_keys_max: limits::WRONG_KEYS_MAX,
            shards: limits::SHARDS,
            shard_lease_ms: limits::SHARD_LEASE_MS,
            shard_renew_ms: limits::SHARD_RENEW_MS,
            run_cache_bytes: limits::RUN_CACHE_BYTES,
            inbox_max: limits::INBOX_MAX,
            queue_max: limits::QUEUE_MAX,
            retention_seconds: limits::RETENTION_SECONDS,
            retention_bytes: -1,
            spending_series_max: limits::SPENDING_SERIES_MAX,
            conversation_retention_seconds: limits::CONVERSATION_SECONDS,
            run_events_max: limits::RUN_EVENTS_MAX,
            request_bytes_max: 15 * 1024 * 1024,
            webhook_bytes_max: limits::WEBHOOK_BYTES_MAX,
            upload_bytes_max: limits::UPLOAD_BYTES_MAX,
            upload_days: limits::UPLOAD_DAYS,
            catch_up_max: limits::CATCH_UP_MAX,
            stream_idle_seconds: 300,
            stream_buffer_bytes: limits::STREAM_BUFFER_BYTES,
            unready_ms: 1000,
            grace_seconds: 10,
            durability: Durability::Memory,
            durability_wait_ms: limits::DURABILITY_WAIT_MS,
            replica_away_seconds: limits::REPLICA_AWAY_SECONDS,
            repair_seconds: 60,
            remote_files_ms: limits::REMOTE_FILES_MS,
            remote_files_max: limits::REMOTE_FILES_MAX,
            logs_scanned_max: limits::LOGS_SCANNED_MAX,
            app_versions_max: limits::APP_VERSIONS_MAX,
            removals_max: limits::REMOVALS_MAX,
            app_requests_per_second: 0,
            key_requests_per_second: 0,
            app_runs_max: 0,
            key_runs_max: 0,
            wait_seconds_max: limits::WAIT_SECONDS_MAX,
            gzip_bytes_min: limits::GZIP_BYTES_MIN,
        }
    }
}
