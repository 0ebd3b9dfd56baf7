//! `[documents]` of the settings: limits on reading a document, and an external service for formats that we do not
//! read.

use serde::{Deserialize, Serialize};

use tidemill_base::hidden::{Hidden, HiddenUrl};

/// `[documents]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DocumentsConfig {
    /// Largest file, in bytes.
    pub file_bytes_max: u64,
    /// Longest text of one file, in bytes.
    pub text_bytes_max: u64,
    /// Longest time to read one file, in milliseconds.
    pub timeout_ms: u64,
    /// Most memory to read one file, in bytes.
    pub memory_bytes_max: u64,
    /// Files that a worker reads at once; 0: one per processor.
    pub concurrency: usize,
    /// URL of an Unstructured service, such as `http://unstructured:8000` (Dify: `UNSTRUCTURED_API_URL`). Empty: no
    /// service.
    pub unstructured_url: HiddenUrl,
    /// The API key of that service (Dify: `UNSTRUCTURED_API_KEY`).
    pub unstructured_key: Hidden,
    /// Longest wait for the service's answer, in seconds.
    pub unstructured_seconds: u64,
}

impl Default for DocumentsConfig {
    fn default() -> Self {
        Self {
            // Dify's limit for an upload.
            file_bytes_max: 15 << 20,
            // The largest value in a run.
            text_bytes_max: 10 << 20,
            timeout_ms: 60_000,
            // Enough for a document of the largest size, unpacked and as a tree.
            memory_bytes_max: 512 << 20,
            concurrency: 0,
            unstructured_url: HiddenUrl::default(),
            unstructured_key: Hidden::default(),
            unstructured_seconds: 300,
        }
    }
}
