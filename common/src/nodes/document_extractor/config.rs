//! `[documents]` of the settings: how much reading a document may cost, and the service that reads what nothing here does.

use serde::{Deserialize, Serialize};

use crate::hidden::{Hidden, HiddenUrl};

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
    /// Files that a worker reads at once; 0: as many as it has processors.
    pub concurrency: usize,
    /// An Unstructured service, such as `http://unstructured:8000`; empty: none (Dify: `UNSTRUCTURED_API_URL`).
    pub unstructured_url: HiddenUrl,
    /// The key of that service (Dify: `UNSTRUCTURED_API_KEY`).
    pub unstructured_key: Hidden,
    /// Longest wait for its answer, in seconds.
    pub unstructured_seconds: u64,
}

impl Default for DocumentsConfig {
    fn default() -> Self {
        Self {
            // Dify's bound of an upload.
            file_bytes_max: 15 << 20,
            // What a run takes as one value.
            text_bytes_max: 10 << 20,
            timeout_ms: 60_000,
            // A document of the largest size, unpacked and in the form of a tree.
            memory_bytes_max: 512 << 20,
            concurrency: 0,
            unstructured_url: HiddenUrl::default(),
            unstructured_key: Hidden::default(),
            unstructured_seconds: 300,
        }
    }
}
