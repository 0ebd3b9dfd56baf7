//! The settings of a worker, and of the network access of its nodes.

use serde::{Deserialize, Serialize};

use tidemill_base::hidden::HiddenUrl;
use tidemill_base::limits;

/// `[worker]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerConfig {
    /// The address of health and metrics; empty: none.
    pub listen: String,
    /// Most connections to `listen`.
    pub connections_max: usize,
    /// Longest time for the head of a request to `listen`, in milliseconds.
    pub header_timeout_ms: u64,
    /// Longest idle time of a connection to `listen` between two requests, in seconds.
    pub idle_seconds: u64,
    /// The queues that it serves.
    pub queues: Vec<String>,
    /// Jobs that run at the same time.
    pub permits: usize,
    /// Longest time that a job may be held without a heartbeat, in milliseconds. Must be the same in the whole fleet.
    pub job_lease_ms: u64,
    /// See [`limits::PROVIDERS_REFRESH_MS`].
    pub providers_refresh_ms: u64,
    /// The profile used where none is named; empty: the default profile in Redis.
    pub default_profile: String,
    /// See [`limits::PROMPT_BYTES_MAX`].
    pub prompt_bytes_max: usize,
    /// See [`limits::JOB_WAIT_MS`].
    pub job_wait_max_ms: u64,
    /// Most questions to a person about missing input of a step.
    pub parameter_rounds_max: u32,
    /// Most deliveries of a job before it is given up.
    pub deliveries_max: u32,
    /// Time for running jobs to end at shutdown, in seconds; the others are returned.
    pub grace_seconds: u64,
    /// Longest time of one attempt, in seconds, for nodes without their own limit.
    pub execution_seconds_max: u64,
    /// Longest time to collect pieces of streamed text into one, in milliseconds; 0 sends each piece as it
    /// comes, with a fact and an event for each.
    pub chunk_gather_ms: u64,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8701".into(),
            connections_max: limits::SIDE_CONNECTIONS_MAX,
            header_timeout_ms: limits::HEADER_TIMEOUT_MS,
            idle_seconds: limits::IDLE_SECONDS,
            queues: vec!["default".into()],
            permits: 256,
            job_lease_ms: limits::JOB_LEASE_MS,
            providers_refresh_ms: limits::PROVIDERS_REFRESH_MS,
            default_profile: String::new(),
            prompt_bytes_max: limits::PROMPT_BYTES_MAX,
            job_wait_max_ms: limits::JOB_WAIT_MS,
            parameter_rounds_max: limits::PARAMETER_ROUNDS_MAX,
            deliveries_max: limits::DELIVERIES_MAX,
            grace_seconds: 25,
            execution_seconds_max: limits::RUN_SECONDS_MAX,
            chunk_gather_ms: limits::CHUNK_GATHER_MS,
        }
    }
}

/// `[http]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Longest wait for a connection, in seconds, for nodes without their own limit (Dify:
    /// `HTTP_REQUEST_MAX_CONNECT_TIMEOUT`).
    pub connect_seconds: u64,
    /// Longest wait for the next piece of an answer, likewise (Dify: `HTTP_REQUEST_MAX_READ_TIMEOUT`).
    pub read_seconds: u64,
    /// Longest wait until the server accepts the next piece of a request, likewise (Dify:
    /// `HTTP_REQUEST_MAX_WRITE_TIMEOUT`).
    pub write_seconds: u64,
    /// Largest text answer, in bytes (Dify: `HTTP_REQUEST_NODE_MAX_TEXT_SIZE`).
    pub text_bytes_max: u64,
    /// Largest file answer and largest fetched file, in bytes (Dify: `HTTP_REQUEST_NODE_MAX_BINARY_SIZE`).
    pub file_bytes_max: u64,
    /// Most bytes of all files in one request.
    pub upload_bytes_max: u64,
    /// Most redirects to follow.
    pub redirects_max: u32,
    /// Whether certificates are checked, for nodes that do not say (Dify: `HTTP_REQUEST_NODE_SSL_VERIFY`).
    pub ssl_verify: bool,
    /// A PEM file with additional trusted certificates; empty: none.
    pub ca_file: String,
    /// Whether addresses outside the public internet are refused.
    pub guard: bool,
    /// Exceptions from the guard: hosts, `*.domain`, addresses, networks such as `10.1.0.0/16`.
    pub allow: Vec<String>,
    /// The ports to which code nodes may open tunnels (CONNECT). Anything may be spoken inside one.
    pub tunnel_ports: Vec<u16>,
    /// The proxy for all requests; empty: none (Dify: `SSRF_PROXY_ALL_URL`).
    pub proxy: HiddenUrl,
    /// The proxy for `http://`, instead of `proxy` (Dify: `SSRF_PROXY_HTTP_URL`).
    pub proxy_http: HiddenUrl,
    /// The proxy for `https://`, likewise (Dify: `SSRF_PROXY_HTTPS_URL`).
    pub proxy_https: HiddenUrl,
}

/// The most permits that a worker can count when it waits for all of them at its end.
const PERMITS_MAX: u32 = u32::MAX;

impl WorkerConfig {
    /// Checks `worker.permits`.
    ///
    /// # Errors
    /// The reason.
    pub(super) fn check_permits(&self) -> Result<(), String> {
        match u32::try_from(self.permits) {
            Ok(0) => Err("at least 1".into()),
            Ok(_) => Ok(()),
            Err(_) => Err(format!("at most {PERMITS_MAX}")),
        }
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            connect_seconds: limits::HTTP_CONNECT_SECONDS,
            read_seconds: limits::HTTP_READ_SECONDS,
            write_seconds: limits::HTTP_WRITE_SECONDS,
            text_bytes_max: limits::HTTP_TEXT_BYTES_MAX,
            file_bytes_max: limits::HTTP_FILE_BYTES_MAX,
            upload_bytes_max: limits::HTTP_UPLOAD_BYTES_MAX,
            redirects_max: limits::HTTP_REDIRECTS_MAX,
            ssl_verify: true,
            ca_file: String::new(),
            guard: true,
            allow: Vec::new(),
            tunnel_ports: vec![limits::HTTP_TUNNEL_PORT],
            proxy: HiddenUrl::default(),
            proxy_http: HiddenUrl::default(),
            proxy_https: HiddenUrl::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WorkerConfig;

    #[test]
    fn a_worker_has_a_permit_and_no_more_than_it_can_count() {
        let checked = |permits| WorkerConfig { permits, ..WorkerConfig::default() }.check_permits();
        assert_eq!((checked(1), checked(u32::MAX as usize)), (Ok(()), Ok(())));
        assert_eq!(checked(0), Err("at least 1".into()));
        assert_eq!(checked(u32::MAX as usize + 1), Err("at most 4294967295".into()));
    }
}
