//! `[code]` of the settings: where code runs, its bounds, and the limits on its result. Bounds for which Dify has
//! environment variables can be set by those names too.

use serde::{Deserialize, Serialize};

use tidemill_base::hidden::{Hidden, HiddenUrl};

use super::PythonConfig;

/// `[code]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CodeConfig {
    /// URL of a dify-sandbox that runs the code, such as `http://sandbox:8194`. Empty: the worker's own sandbox.
    pub endpoint: HiddenUrl,
    /// The API key of that service.
    pub api_key: Hidden,
    /// Longest wait for a connection to it, in seconds.
    pub connect_timeout_s: u64,
    /// Longest wait for its answer, in seconds.
    pub read_timeout_s: u64,
    /// Longest time to send it a program, in seconds.
    pub write_timeout_s: u64,
    /// True when the service's certificate is checked.
    pub ssl_verify: bool,
    /// The Python of the worker's own sandbox.
    pub python: PythonConfig,
    /// True when code in the worker's own sandbox may call servers by HTTP, through the guard of `[http]`.
    pub network: bool,
    /// Most connections of one execution at the same time.
    pub network_connections_max: usize,
    /// Most bytes that one execution sends and receives.
    pub network_bytes_max: u64,
    /// Executions that a worker runs at once; 0: one per processor.
    pub concurrency: usize,
    /// Longest time of one execution, in milliseconds.
    pub timeout_ms: u64,
    /// Most memory of one execution, in bytes.
    pub memory_bytes_max: u64,
    /// The folder for the scratch folders that the worker's own sandbox makes, one per interpreter. Empty: the system's
    /// temporary folder (`TMPDIR`, else `/tmp`).
    pub scratch_folder: String,
    /// Most bytes in the scratch folder of one execution.
    pub scratch_bytes_max: u64,
    /// Most bytes that one execution can print, including its result.
    pub output_bytes_max: u64,
    /// The user id for the code when the worker is root.
    pub sandbox_uid: u32,
    /// The group id for the code when the worker is root.
    pub sandbox_gid: u32,
    /// True when code may run even where the kernel cannot confine it fully.
    pub allow_weaker_sandbox: bool,
    /// The `tidemill` or `tidemill-worker` program that is started for code and for documents. Empty: the running program,
    /// which must be one of them.
    pub helper: String,
    /// Longest text in a result, in characters (Dify: `CODE_MAX_STRING_LENGTH`).
    pub string_chars_max: usize,
    /// Largest number in a result (Dify: `CODE_MAX_NUMBER`).
    pub number_max: i64,
    /// Smallest number in a result (Dify: `CODE_MIN_NUMBER`).
    pub number_min: i64,
    /// Most decimal places of a number in a result (Dify: `CODE_MAX_PRECISION`).
    pub precision_max: u32,
    /// Deepest nesting of a result (Dify: `CODE_MAX_DEPTH`).
    pub depth_max: u32,
    /// Longest declared list of texts (Dify: `CODE_MAX_STRING_ARRAY_LENGTH`).
    pub string_array_max: usize,
    /// Longest declared list of objects (Dify: `CODE_MAX_OBJECT_ARRAY_LENGTH`).
    pub object_array_max: usize,
    /// Longest declared list of numbers (Dify: `CODE_MAX_NUMBER_ARRAY_LENGTH`).
    pub number_array_max: usize,
}

impl Default for CodeConfig {
    fn default() -> Self {
        Self {
            endpoint: HiddenUrl::default(),
            api_key: "dify-sandbox".into(),
            connect_timeout_s: 10,
            read_timeout_s: 60,
            write_timeout_s: 10,
            ssl_verify: true,
            python: PythonConfig::default(),
            network: false,
            network_connections_max: 16,
            network_bytes_max: 64 << 20,
            concurrency: 0,
            // The limit of the sandbox in Dify's compose file.
            timeout_ms: 15_000,
            memory_bytes_max: 256 << 20,
            scratch_folder: String::new(),
            scratch_bytes_max: 64 << 20,
            // Thirty texts of the greatest length would be 72 MB when escaped; real results are much smaller.
            output_bytes_max: 32 << 20,
            // `nobody` and its group, on every Linux.
            sandbox_uid: 65_534,
            sandbox_gid: 65_534,
            allow_weaker_sandbox: false,
            helper: String::new(),
            string_chars_max: 400_000,
            number_max: i64::MAX,
            // Dify's bound: -2^63 itself is out of range.
            number_min: -i64::MAX,
            precision_max: 20,
            depth_max: 5,
            string_array_max: 30,
            object_array_max: 30,
            number_array_max: 1_000,
        }
    }
}

/// Limits on the size of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeLimits {
    /// Characters of a text.
    pub string_chars: usize,
    pub number_max: i64,
    pub number_min: i64,
    pub precision: u32,
    /// Levels of nesting; the result itself is the first.
    pub depth: u32,
    /// Items of a declared list of texts.
    pub string_array: usize,
    /// Items of a declared list of objects.
    pub object_array: usize,
    /// Items of a declared list of numbers.
    pub number_array: usize,
}

impl From<&CodeConfig> for CodeLimits {
    fn from(config: &CodeConfig) -> Self {
        Self {
            string_chars: config.string_chars_max,
            number_max: config.number_max,
            number_min: config.number_min,
            precision: config.precision_max,
            depth: config.depth_max,
            string_array: config.string_array_max,
            object_array: config.object_array_max,
            number_array: config.number_array_max,
        }
    }
}

impl Default for CodeLimits {
    fn default() -> Self {
        Self::from(&CodeConfig::default())
    }
}
