//! `[code]` of the settings: where code runs, within what bounds, and how large a result may be. Bounds that Dify names by
//! environment variables are read under those names too.

use serde::{Deserialize, Serialize};

use crate::hidden::{Hidden, HiddenUrl};

/// `[code]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CodeConfig {
    /// A dify-sandbox that runs the code, such as `http://sandbox:8194`; empty: the worker's own sandbox.
    pub endpoint: HiddenUrl,
    /// The key of that service.
    pub api_key: Hidden,
    /// Longest wait for a connection to it, in seconds.
    pub connect_timeout_s: u64,
    /// Longest wait for its answer, in seconds.
    pub read_timeout_s: u64,
    /// Longest time to send it a program, in seconds.
    pub write_timeout_s: u64,
    /// Whether its certificate is checked.
    pub ssl_verify: bool,
    /// The Python of the worker's own sandbox: a path, or a name that is looked for in `PATH`. 3.9 or newer.
    pub python: String,
    /// Executions that a worker runs at once; 0: as many as it has processors.
    pub concurrency: usize,
    /// Longest time of one execution, in milliseconds.
    pub timeout_ms: u64,
    /// Most memory of one execution, in bytes.
    pub memory_bytes_max: u64,
    /// The folder in which the worker's own sandbox makes a scratch folder for each interpreter; empty: the system's for such
    /// (`TMPDIR`, else `/tmp`).
    pub scratch_folder: String,
    /// Most bytes in the scratch folder of one execution.
    pub scratch_bytes_max: u64,
    /// Most bytes that one execution may print, its result included.
    pub output_bytes_max: u64,
    /// The user that code runs as when the worker is root.
    pub sandbox_uid: u32,
    /// The group that code runs as when the worker is root.
    pub sandbox_gid: u32,
    /// Whether code runs also where the kernel cannot confine it fully.
    pub allow_weaker_sandbox: bool,
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
            python: "python3".into(),
            concurrency: 0,
            // What Dify's compose file gives its sandbox.
            timeout_ms: 15_000,
            memory_bytes_max: 256 << 20,
            scratch_folder: String::new(),
            scratch_bytes_max: 64 << 20,
            // Thirty texts of the greatest length, escaped, are 72 MB; nobody's result comes near.
            output_bytes_max: 32 << 20,
            // `nobody` and its group, on every Linux.
            sandbox_uid: 65_534,
            sandbox_gid: 65_534,
            allow_weaker_sandbox: false,
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

/// How large a result may be.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeLimits {
    /// Characters of a text.
    pub string_chars: usize,
    /// Largest number.
    pub number_max: i64,
    /// Smallest number.
    pub number_min: i64,
    /// Decimal places.
    pub precision: u32,
    /// Nesting; the result itself is the first level.
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
