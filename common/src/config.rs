//! The settings of every process: `tidemill.toml` < environment < flags. One file serves all processes.
//!
//! A key `k` of section `[s]` is `TIDEMILL_S_K` in the environment; the limits that Dify names by environment variables
//! are read under those names too. An unknown key or section is an error that names the nearest known one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::limits;

pub use crate::calls::CallsConfig;
pub use crate::nodes::code::CodeConfig;
pub use crate::nodes::document_extractor::DocumentsConfig;
pub use crate::nodes::knowledge_retrieval::KnowledgeConfig;
pub use crate::nodes::tool::ToolsConfig;

/// What is wrong with the settings.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{path} is not valid TOML: {reason}")]
    Toml {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
    /// A key that does not exist.
    #[error("unknown setting {key} in {origin}{}", nearest.as_ref().map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    Unknown {
        /// `section.key`.
        key: String,
        /// File, environment or flag.
        origin: String,
        /// The nearest known key.
        nearest: Option<String>,
    },
    /// A value that does not fit.
    #[error("setting {key} in {origin}: {reason}")]
    Value {
        /// `section.key`.
        key: String,
        /// File, environment or flag.
        origin: String,
        /// What was expected.
        reason: String,
    },
}

/// All settings. Its defaults are the documentation of the defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where Redis is.
    pub redis: RedisConfig,
    /// The scheduler.
    pub scheduler: SchedulerConfig,
    /// The worker.
    pub worker: WorkerConfig,
    /// Calls to the outside that workflows make.
    pub http: HttpConfig,
    /// Files that nodes make.
    pub files: FilesConfig,
    /// Code nodes, read by the worker.
    pub code: CodeConfig,
    /// Document extractors, read by the worker.
    pub documents: DocumentsConfig,
    /// Tools, read by the worker.
    pub tools: ToolsConfig,
    /// Calls of steps, read by the worker.
    pub calls: CallsConfig,
    /// Knowledge bases, read by the worker.
    pub knowledge: KnowledgeConfig,
    /// What new runs get unless they say otherwise.
    pub run: RunConfig,
    /// Where Tidemill and bare graphon, or versions of Dify, differ.
    pub compat: CompatConfig,
    /// Logs.
    pub log: LogConfig,
    /// Model providers by name, read by the worker.
    pub providers: BTreeMap<String, Table>,
    /// Profiles by id, read by the worker.
    pub profiles: BTreeMap<String, Table>,
}

/// `[redis]`
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisConfig {
    /// `redis://[user:password@]host:port[/db]`, `rediss://…` for TLS, `unix:///path`.
    pub url: String,
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
impl std::fmt::Debug for RedisConfig {
    // The URL may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisConfig")
            .field("url", &masked_url(&self.url))
            .field("ca_file", &self.ca_file)
            .field("namespace", &self.namespace)
            .field("timeout_ms", &self.timeout_ms)
            .field("blob_connections", &self.blob_connections)
            .finish()
    }
}

/// A URL with what stands between `://` and `@` hidden.
pub fn masked_url(url: &str) -> String {
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme + 3 <= at => format!("{}***{}", &url[..scheme + 3], &url[at..]),
        _ => url.to_string(),
    }
}

/// `[scheduler]`
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SchedulerConfig {
    /// Where the API listens; port 0 takes a free one.
    pub listen: String,
    /// Opens `/api/v1`. Better given as `TIDEMILL_ADMIN_KEY`; empty: `/api/v1` is closed.
    pub admin_key: String,
    /// Seals the secrets of workflow documents at rest. Better given as `TIDEMILL_SECRET_KEY`.
    pub secret_key: String,
    /// Shards of a new namespace.
    pub shards: u16,
    /// How long a shard's lease holds, in milliseconds.
    pub shard_lease_ms: u64,
    /// How often it is renewed, in milliseconds.
    pub shard_renew_ms: u64,
    /// Bytes of run states kept in memory.
    pub run_cache_bytes: usize,
    /// Most entries in an inbox before new runs are refused.
    pub inbox_max: u64,
    /// Most jobs in one queue of a shard before new runs that use it are refused.
    pub queue_max: u64,
    /// How long ended runs are kept, in seconds.
    pub retention_seconds: u64,
    /// Bytes of Redis' memory above which ended runs go before their time, oldest first; 0 for no bound, -1 for half
    /// of Redis' `maxmemory`, if it has one.
    pub retention_bytes: i64,
    /// How long a conversation is kept after its last write, in seconds; 0 for ever.
    pub conversation_retention_seconds: u64,
    /// Most entries kept of a run's event stream.
    pub run_events_max: usize,
    /// Largest request body, in bytes.
    pub request_bytes_max: usize,
    /// Largest body of a request to a webhook, in bytes (Dify: `WEBHOOK_REQUEST_BODY_MAX_SIZE`).
    pub webhook_bytes_max: usize,
    /// Most missed times of a schedule that are caught up where it says `catch_up: all`; the newest of them.
    pub catch_up_max: u64,
    /// Silence after which an event stream is closed, in seconds (Dify: 300).
    pub stream_idle_seconds: u64,
    /// Longest wait for open requests at a stop, in seconds.
    pub grace_seconds: u64,
    /// How often the shards are looked through for lost jobs, in seconds.
    pub repair_seconds: u64,
    /// Combinations of provider, model and API key that `/metrics` tells apart; all others are `other`.
    pub spending_series_max: usize,
}
impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8700".into(),
            admin_key: String::new(),
            secret_key: String::new(),
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
            catch_up_max: limits::CATCH_UP_MAX,
            stream_idle_seconds: 300,
            grace_seconds: 10,
            repair_seconds: 60,
        }
    }
}
impl std::fmt::Debug for SchedulerConfig {
    // The keys stay out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown =
            Self { admin_key: mask(&self.admin_key), secret_key: mask(&self.secret_key), ..self.clone() };
        let table = Table::try_from(&shown).unwrap_or_default();
        f.debug_map().entries(table.iter()).finish()
    }
}
fn mask(secret: &str) -> String {
    if secret.is_empty() { String::new() } else { "***".into() }
}

/// `[worker]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerConfig {
    /// Where health and metrics listen; empty: nowhere.
    pub listen: String,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// Jobs it runs at once.
    pub permits: usize,
    /// How long a job may be held without a sign of life, in milliseconds. The same for the whole fleet.
    pub job_lease_ms: u64,
    /// See [`limits::PROVIDERS_REFRESH_MS`].
    pub providers_refresh_ms: u64,
    /// The profile that is meant where none is named; empty: the default of those in Redis.
    pub default_profile: String,
    /// See [`limits::PROMPT_BYTES_MAX`].
    pub prompt_bytes_max: usize,
    /// See [`limits::JOB_WAIT_MS`].
    pub job_wait_max_ms: u64,
    /// How often a person is asked for what the input of a step lacks.
    pub parameter_rounds_max: u32,
    /// How often a job may be handed out before it is given up.
    pub deliveries_max: u32,
    /// Time for running jobs to end at a stop, in seconds; the rest is handed back.
    pub grace_seconds: u64,
    /// Longest time of one attempt, in seconds, for nodes that do not say.
    pub execution_seconds_max: u64,
    /// Longest time that pieces of streamed text are gathered into one, in milliseconds; 0 keeps each as it came, at
    /// the price of a fact and an event a piece.
    pub chunk_gather_ms: u64,
}
impl Default for WorkerConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8701".into(),
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
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    /// Longest wait for a connection, in seconds, for nodes that do not say (Dify: `HTTP_REQUEST_MAX_CONNECT_TIMEOUT`).
    pub connect_seconds: u64,
    /// Longest wait for the next piece of an answer, likewise (Dify: `HTTP_REQUEST_MAX_READ_TIMEOUT`).
    pub read_seconds: u64,
    /// Longest wait until the next piece of a request is taken, likewise (Dify: `HTTP_REQUEST_MAX_WRITE_TIMEOUT`).
    pub write_seconds: u64,
    /// Largest answer that is a text, in bytes (Dify: `HTTP_REQUEST_NODE_MAX_TEXT_SIZE`).
    pub text_bytes_max: u64,
    /// Largest answer that is a file, and largest file that is fetched, in bytes (Dify:
    /// `HTTP_REQUEST_NODE_MAX_BINARY_SIZE`).
    pub file_bytes_max: u64,
    /// Most bytes of all files that one request sends.
    pub upload_bytes_max: u64,
    /// Most redirects that are followed.
    pub redirects_max: u32,
    /// Whether certificates are checked, for nodes that do not say (Dify: `HTTP_REQUEST_NODE_SSL_VERIFY`).
    pub ssl_verify: bool,
    /// A file of further certificates (PEM) that are trusted; empty: none.
    pub ca_file: String,
    /// Whether addresses that are not on the public internet are refused.
    pub guard: bool,
    /// What the guard lets through all the same: hosts, `*.domain`, addresses, networks such as `10.1.0.0/16`.
    pub allow: Vec<String>,
    /// The proxy for all calls; empty: none (Dify: `SSRF_PROXY_ALL_URL`).
    pub proxy: String,
    /// The proxy for `http://`, instead of `proxy` (Dify: `SSRF_PROXY_HTTP_URL`).
    pub proxy_http: String,
    /// The proxy for `https://`, likewise (Dify: `SSRF_PROXY_HTTPS_URL`).
    pub proxy_https: String,
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
            proxy: String::new(),
            proxy_http: String::new(),
            proxy_https: String::new(),
        }
    }
}
impl std::fmt::Debug for HttpConfig {
    // A proxy's URL may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = Self {
            proxy: masked_url(&self.proxy),
            proxy_http: masked_url(&self.proxy_http),
            proxy_https: masked_url(&self.proxy_https),
            ..self.clone()
        };
        let table = Table::try_from(&shown).unwrap_or_default();
        f.debug_map().entries(table.iter()).finish()
    }
}

/// `[files]`
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FilesConfig {
    /// Where files lie: a folder, `file:///folder` or `s3://bucket/prefix`. Every process of the fleet must reach the same
    /// one: workers write and read, schedulers remove.
    pub url: String,
    /// The service of an `s3://`, as `http[s]://host[:port]`; empty: AWS, or `AWS_ENDPOINT_URL`.
    pub endpoint: String,
    /// Its region; empty: `AWS_REGION`, else `us-east-1`.
    pub region: String,
    /// The key to it; empty, with `secret_access_key`: `AWS_ACCESS_KEY_ID` and all else that AWS tools look for.
    pub access_key_id: String,
    /// The secret of that key. Better given as `TIDEMILL_FILES_SECRET_ACCESS_KEY`.
    pub secret_access_key: String,
    /// Whether the bucket stands in the path rather than in the host's name.
    pub path_style: bool,
}
impl Default for FilesConfig {
    fn default() -> Self {
        Self {
            url: "tidemill-files".into(),
            endpoint: String::new(),
            region: String::new(),
            access_key_id: String::new(),
            secret_access_key: String::new(),
            path_style: true,
        }
    }
}
impl std::fmt::Debug for FilesConfig {
    // The secret stays out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = Self { secret_access_key: mask(&self.secret_access_key), ..self.clone() };
        let table = Table::try_from(&shown).unwrap_or_default();
        f.debug_map().entries(table.iter()).finish()
    }
}

/// `[run]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunConfig {
    /// Most node starts (Dify: `WORKFLOW_MAX_EXECUTION_STEPS`).
    pub max_steps: u64,
    /// Longest time, in seconds (Dify: `WORKFLOW_MAX_EXECUTION_TIME`).
    pub max_execution_time_s: u64,
    /// Longest output of a template, in characters (Dify: `TEMPLATE_TRANSFORM_MAX_LENGTH`).
    pub template_chars_max: usize,
    /// Largest environment or conversation variable, in bytes (Dify: `MAX_VARIABLE_SIZE`).
    pub variable_bytes_max: usize,
    /// Values longer than this many bytes are stored apart; at most 32768.
    pub inline_bytes_max: usize,
    /// Longest time that a form may wait, in seconds; 0 for no bound (Dify: `HUMAN_INPUT_GLOBAL_TIMEOUT_SECONDS`).
    pub human_input_timeout_s: u64,
    /// Most items of an iteration and rounds of a loop; a larger container fails.
    pub container_rounds_max: u64,
    /// Deepest nesting of workflows that call workflows (Dify: `WORKFLOW_CALL_MAX_DEPTH`).
    pub call_depth_max: u64,
    /// Tokens that a run may spend on models; 0 for no bound.
    pub budget_tokens: u64,
    /// Money that a run may spend on models, `"0.50 EUR"`; empty for no bound.
    pub budget_price: String,
    /// Most messages of a list of a run, those that are not visible any more included.
    pub messages_max: u64,
    /// Most bytes of such a list.
    pub messages_bytes_max: u64,
    /// Most bytes of what a run keeps of its steps (`rt`).
    pub runtime_bytes_max: u64,
    /// Most records of a run's history.
    pub history_records_max: u64,
    /// Largest of these records, in bytes.
    pub history_record_bytes_max: u64,
    /// Tokens of visible messages above which a list is told to be too long; 0: never.
    pub messages_tokens_limit: u64,
    /// Tokens of visible messages of which four fifths bring a warning; 0: never.
    pub messages_tokens_warning: u64,
    /// Largest single value, in bytes.
    pub value_bytes_max: usize,
    /// Largest workflow file, in bytes.
    pub import_bytes_max: usize,
    /// Most nodes inside one node.
    pub children_max: usize,
}
impl Default for RunConfig {
    fn default() -> Self {
        Self {
            max_steps: limits::STEPS_MAX,
            max_execution_time_s: limits::RUN_SECONDS_MAX,
            template_chars_max: limits::TEMPLATE_CHARS_MAX,
            variable_bytes_max: limits::VARIABLE_BYTES_MAX,
            inline_bytes_max: limits::INLINE_BYTES_MAX,
            human_input_timeout_s: limits::HUMAN_INPUT_SECONDS_MAX,
            container_rounds_max: limits::CONTAINER_ROUNDS_MAX,
            call_depth_max: limits::CALL_DEPTH_MAX,
            budget_tokens: 0,
            budget_price: String::new(),
            messages_max: limits::MESSAGES_MAX,
            messages_bytes_max: limits::MESSAGES_BYTES_MAX,
            runtime_bytes_max: limits::RUNTIME_BYTES_MAX,
            history_records_max: limits::HISTORY_RECORDS_MAX,
            history_record_bytes_max: limits::HISTORY_RECORD_BYTES_MAX,
            messages_tokens_limit: limits::MESSAGES_TOKENS_LIMIT,
            messages_tokens_warning: limits::MESSAGES_TOKENS_WARNING,
            value_bytes_max: limits::VALUE_BYTES_MAX,
            import_bytes_max: limits::IMPORT_BYTES_MAX,
            children_max: limits::CHILDREN_MAX,
        }
    }
}

/// `[compat]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompatConfig {
    /// Unknown names in Jinja templates: `empty` (Dify's service) or `strict` (bare graphon: an error).
    pub template_undefined: Undefined,
    /// What an iteration writes to conversation variables: `parent` or `local`.
    pub iteration_conversation_writes: ConversationWrites,
    /// Answers inside containers stream: `whole`, `segments` or `none`.
    pub nested_answer_stream: NestedAnswers,
    /// Whether failures inside an iteration count among a run's exceptions (bare graphon) or not (earlier Dify).
    pub iteration_failures_count: bool,
    /// Whether a loop tells a next round behind its last one, as earlier Dify did.
    pub loop_next_after_last: bool,
    /// Whether an `error` event ends a stream of `/v1`; Dify keeps it open until it is idle.
    pub error_event_closes_stream: bool,
    /// Whether a secret that an output names stands in the run's outputs as it is (Dify), or masked.
    pub secrets_in_outputs: bool,
}
impl Default for CompatConfig {
    fn default() -> Self {
        Self {
            template_undefined: Undefined::Empty,
            iteration_conversation_writes: ConversationWrites::Parent,
            nested_answer_stream: NestedAnswers::Whole,
            iteration_failures_count: true,
            loop_next_after_last: false,
            error_event_closes_stream: true,
            secrets_in_outputs: false,
        }
    }
}

/// See [`CompatConfig::template_undefined`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Undefined {
    /// Empty text.
    Empty,
    /// An error.
    Strict,
}
/// See [`CompatConfig::iteration_conversation_writes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConversationWrites {
    /// Seen afterwards.
    Parent,
    /// Lost afterwards.
    Local,
}
/// See [`CompatConfig::nested_answer_stream`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NestedAnswers {
    /// As one piece when the answer has ended.
    Whole,
    /// Piece by piece.
    Segments,
    /// Not at all.
    None,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// A level, or directives such as `info,tidemill_worker=debug`.
    pub level: String,
    /// `text`, `json`, or `auto`: text on a terminal, else JSON.
    pub format: LogFormat,
}
impl Default for LogConfig {
    fn default() -> Self {
        Self { level: "info".into(), format: LogFormat::Auto }
    }
}
/// See [`LogConfig::format`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// By what the output is.
    Auto,
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// Other names of settings in the environment: ours that are short, and Dify's.
const ENVIRONMENT_ALIASES: [(&str, &str); 35] = [
    ("TIDEMILL_ADMIN_KEY", "scheduler.admin_key"),
    ("TIDEMILL_SECRET_KEY", "scheduler.secret_key"),
    ("TIDEMILL_LOG", "log.level"),
    ("WORKFLOW_MAX_EXECUTION_STEPS", "run.max_steps"),
    ("WORKFLOW_MAX_EXECUTION_TIME", "run.max_execution_time_s"),
    ("TEMPLATE_TRANSFORM_MAX_LENGTH", "run.template_chars_max"),
    ("MAX_VARIABLE_SIZE", "run.variable_bytes_max"),
    ("HUMAN_INPUT_GLOBAL_TIMEOUT_SECONDS", "run.human_input_timeout_s"),
    ("WORKFLOW_CALL_MAX_DEPTH", "run.call_depth_max"),
    ("WEBHOOK_REQUEST_BODY_MAX_SIZE", "scheduler.webhook_bytes_max"),
    ("HTTP_REQUEST_MAX_CONNECT_TIMEOUT", "http.connect_seconds"),
    ("HTTP_REQUEST_MAX_READ_TIMEOUT", "http.read_seconds"),
    ("HTTP_REQUEST_MAX_WRITE_TIMEOUT", "http.write_seconds"),
    ("HTTP_REQUEST_NODE_MAX_TEXT_SIZE", "http.text_bytes_max"),
    ("HTTP_REQUEST_NODE_MAX_BINARY_SIZE", "http.file_bytes_max"),
    ("HTTP_REQUEST_NODE_SSL_VERIFY", "http.ssl_verify"),
    ("SSRF_PROXY_ALL_URL", "http.proxy"),
    ("SSRF_PROXY_HTTP_URL", "http.proxy_http"),
    ("SSRF_PROXY_HTTPS_URL", "http.proxy_https"),
    ("CODE_EXECUTION_ENDPOINT", "code.endpoint"),
    ("CODE_EXECUTION_API_KEY", "code.api_key"),
    ("CODE_EXECUTION_CONNECT_TIMEOUT", "code.connect_timeout_s"),
    ("CODE_EXECUTION_READ_TIMEOUT", "code.read_timeout_s"),
    ("CODE_EXECUTION_WRITE_TIMEOUT", "code.write_timeout_s"),
    ("CODE_EXECUTION_SSL_VERIFY", "code.ssl_verify"),
    ("CODE_MAX_STRING_LENGTH", "code.string_chars_max"),
    ("CODE_MAX_NUMBER", "code.number_max"),
    ("CODE_MIN_NUMBER", "code.number_min"),
    ("CODE_MAX_PRECISION", "code.precision_max"),
    ("CODE_MAX_DEPTH", "code.depth_max"),
    ("CODE_MAX_STRING_ARRAY_LENGTH", "code.string_array_max"),
    ("CODE_MAX_OBJECT_ARRAY_LENGTH", "code.object_array_max"),
    ("CODE_MAX_NUMBER_ARRAY_LENGTH", "code.number_array_max"),
    ("UNSTRUCTURED_API_URL", "documents.unstructured_url"),
    ("UNSTRUCTURED_API_KEY", "documents.unstructured_key"),
];

/// Variables with our prefix that are no settings of a section.
const ENVIRONMENT_OTHER: [&str; 5] = [
    "TIDEMILL_CONFIG",
    "TIDEMILL_URL",
    "TIDEMILL_KEY",
    crate::clock::OFFSET_VARIABLE,
    crate::crash::VARIABLE,
];

/// Where settings come from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file; none: `tidemill.toml` in the working directory if it is there.
    pub file: Option<PathBuf>,
    /// Variables of the environment.
    pub environment: Vec<(String, String)>,
    /// Flags, as (`section.key`, text).
    pub flags: Vec<(String, String)>,
}

impl Sources {
    /// The file as named (or by `TIDEMILL_CONFIG`), the process's environment, and these flags.
    pub fn of_process(file: Option<PathBuf>, flags: Vec<(String, String)>) -> Self {
        let environment: Vec<(String, String)> = std::env::vars().collect();
        let named =
            || environment.iter().find(|(k, _)| k == "TIDEMILL_CONFIG").map(|(_, v)| PathBuf::from(v));
        Self { file: file.or_else(named), environment, flags }
    }
}

impl Config {
    /// Reads the settings.
    ///
    /// # Errors
    /// A file that cannot be read, a key that does not exist, a value that does not fit: each with its origin.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let known = Table::try_from(Self::default()).unwrap_or_default();
        let mut table = match &sources.file {
            Some(path) => read_file(path)?,
            None if Path::new("tidemill.toml").is_file() => read_file(Path::new("tidemill.toml"))?,
            None => Table::new(),
        };
        let file = sources.file.clone().unwrap_or_else(|| "tidemill.toml".into()).display().to_string();
        check_keys(&table, &known, &file)?;
        for (name, text) in &sources.environment {
            if let Some(key) = key_of_variable(name, &known)? {
                set(&mut table, &known, &key, text, name)?;
            }
        }
        for (key, text) in &sources.flags {
            set(&mut table, &known, key, text, "a flag")?;
        }
        let config: Self = table.try_into().map_err(|e: toml::de::Error| ConfigError::Value {
            key: "?".into(),
            origin: file.clone(),
            reason: e.message().to_string(),
        })?;
        config.check(&file)?;
        Ok(config)
    }

    fn check(&self, origin: &str) -> Result<(), ConfigError> {
        let wrong = |key: &str, reason: String| {
            Err(ConfigError::Value { key: key.into(), origin: origin.into(), reason })
        };
        if self.run.inline_bytes_max > 32 * 1024 {
            return wrong("run.inline_bytes_max", "at most 32768 bytes".into());
        }
        if self.scheduler.shards == 0 || self.scheduler.shards > crate::ids::ShardId::COUNT_MAX {
            return wrong("scheduler.shards", format!("1 to {}", crate::ids::ShardId::COUNT_MAX));
        }
        if self.scheduler.retention_bytes < -1 {
            return wrong("scheduler.retention_bytes", "a number of bytes, 0 for none, or -1".into());
        }
        if self.code.timeout_ms == 0 || self.code.memory_bytes_max < 64 << 20 {
            return wrong("code.timeout_ms, code.memory_bytes_max", "at least 1 ms and 64 MiB".into());
        }
        if self.documents.timeout_ms == 0 || self.documents.memory_bytes_max < 64 << 20 {
            return wrong(
                "documents.timeout_ms, documents.memory_bytes_max",
                "at least 1 ms and 64 MiB".into(),
            );
        }
        if self.worker.permits == 0 {
            return wrong("worker.permits", "at least 1".into());
        }
        if self.worker.queues.is_empty() {
            return wrong("worker.queues", "at least one queue".into());
        }
        if self.scheduler.shard_renew_ms * 2 > self.scheduler.shard_lease_ms {
            return wrong("scheduler.shard_renew_ms", "at most half of scheduler.shard_lease_ms".into());
        }
        let name = &self.redis.namespace;
        if name.is_empty() || name.contains(['{', '}', ':', ' ']) {
            return wrong("redis.namespace", "some letters, without braces, colons and blanks".into());
        }
        Ok(())
    }
}

fn read_file(path: &Path) -> Result<Table, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::File { path: path.into(), source })?;
    text.parse().map_err(|e: toml::de::Error| ConfigError::Toml { path: path.into(), reason: e.to_string() })
}

fn check_keys(table: &Table, known: &Table, origin: &str) -> Result<(), ConfigError> {
    let unknown = |key: String, among: &Table, prefix: &str| {
        let last = key.rsplit('.').next().unwrap_or(&key).to_string();
        let nearest = nearest(&last, among.keys()).map(|n| format!("{prefix}{n}"));
        Err(ConfigError::Unknown { key, origin: origin.to_string(), nearest })
    };
    for (section, value) in table {
        let Some(Value::Table(keys)) = known.get(section) else {
            return unknown(section.clone(), known, "");
        };
        // Providers and profiles have names of their own.
        if matches!(section.as_str(), "providers" | "profiles") {
            continue;
        }
        for key in value.as_table().into_iter().flat_map(Table::keys) {
            if !keys.contains_key(key) {
                return unknown(format!("{section}.{key}"), keys, &format!("{section}."));
            }
        }
    }
    Ok(())
}

fn key_of_variable(name: &str, known: &Table) -> Result<Option<String>, ConfigError> {
    if let Some((_, key)) = ENVIRONMENT_ALIASES.iter().find(|(alias, _)| *alias == name) {
        return Ok(Some((*key).to_string()));
    }
    let Some(rest) = name.strip_prefix("TIDEMILL_") else { return Ok(None) };
    if ENVIRONMENT_OTHER.contains(&name) {
        return Ok(None);
    }
    let all = known.iter().flat_map(|(section, keys)| {
        keys.as_table().into_iter().flat_map(Table::keys).map(move |key| (section, key))
    });
    let variable = |section: &str, key: &str| format!("{section}_{key}").to_uppercase();
    let mut names = Vec::new();
    for (section, key) in all {
        if variable(section, key) == rest {
            return Ok(Some(format!("{section}.{key}")));
        }
        names.push(format!("TIDEMILL_{}", variable(section, key)));
    }
    let nearest = nearest(name, names.iter());
    Err(ConfigError::Unknown { key: name.into(), origin: "the environment".into(), nearest })
}

/// Sets a key from text; the type is that of the default.
fn set(table: &mut Table, known: &Table, key: &str, text: &str, origin: &str) -> Result<(), ConfigError> {
    let Some((section, name)) = key.split_once('.') else {
        return Err(ConfigError::Unknown { key: key.into(), origin: origin.into(), nearest: None });
    };
    let default = known.get(section).and_then(|s| s.get(name));
    let wrong = |reason: String| ConfigError::Value { key: key.into(), origin: origin.into(), reason };
    let value = match default {
        Some(Value::String(_)) => Value::String(text.into()),
        Some(Value::Integer(_)) => {
            Value::Integer(text.trim().parse().map_err(|_| wrong(format!("{text:?} is not a whole number")))?)
        }
        Some(Value::Boolean(_)) => Value::Boolean(
            // Dify writes `True`.
            text.trim()
                .to_lowercase()
                .parse()
                .map_err(|_| wrong(format!("{text:?} is neither true nor false")))?,
        ),
        Some(Value::Array(_)) => {
            Value::Array(text.split(',').map(|p| Value::String(p.trim().into())).collect())
        }
        Some(Value::Float(_) | Value::Datetime(_) | Value::Table(_)) | None => {
            return Err(ConfigError::Unknown { key: key.into(), origin: origin.into(), nearest: None });
        }
    };
    let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
    if let Some(section) = section.as_table_mut() {
        section.insert(name.into(), value);
    }
    Ok(())
}

/// The known name that differs least, if it differs little.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> Option<String> {
    known
        .map(|k| (edit_distance(name, k), k))
        .filter(|(distance, k)| *distance <= 1 + k.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k.clone())
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let changed = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let own =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Config::load(&Sources { file: None, environment: own(environment), flags: own(flags) })
    }

    #[test]
    fn flags_win_over_the_environment_and_dify_names_are_read() {
        let config = load(
            &[("TIDEMILL_REDIS_URL", "redis://a"), ("WORKFLOW_MAX_EXECUTION_STEPS", "7"), ("PATH", "x")],
            &[("redis.url", "redis://b")],
        )
        .unwrap();
        assert_eq!((config.redis.url.as_str(), config.run.max_steps), ("redis://b", 7));
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        let error = load(&[("TIDEMILL_REDIS_URI", "x")], &[]).unwrap_err().to_string();
        assert!(error.contains("did you mean TIDEMILL_REDIS_URL?"), "{error}");
        let error = load(&[("TIDEMILL_WORKER_PERMITS", "many")], &[]).unwrap_err().to_string();
        assert!(error.contains("worker.permits") && error.contains("whole number"), "{error}");
    }

    #[test]
    fn passwords_and_keys_are_not_shown() {
        let config =
            load(&[("TIDEMILL_REDIS_URL", "redis://u:pw@h:1"), ("TIDEMILL_ADMIN_KEY", "adm")], &[]).unwrap();
        let shown = format!("{config:?}");
        assert!(!shown.contains("pw@") && !shown.contains("\"adm\""), "{shown}");
        let config = load(&[("TIDEMILL_FILES_SECRET_ACCESS_KEY", "hush")], &[]).unwrap();
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
    }
}
