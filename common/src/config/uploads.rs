//! The settings of files that clients upload: sizes by kind, refused extensions, quotas, and URLs.
//!
//! `scheduler.upload_bytes_max` and `scheduler.upload_days` are older and stay where they are.

use serde::{Deserialize, Serialize};

use tidemill_base::hidden::HiddenUrl;
use tidemill_base::limits;

/// `[uploads]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UploadsConfig {
    /// Largest picture, in bytes (Dify: `UPLOAD_IMAGE_FILE_SIZE_LIMIT`, in MB).
    pub image_bytes_max: u64,
    /// Largest video, in bytes (Dify: `UPLOAD_VIDEO_FILE_SIZE_LIMIT`, in MB).
    pub video_bytes_max: u64,
    /// Largest audio file, in bytes (Dify: `UPLOAD_AUDIO_FILE_SIZE_LIMIT`, in MB).
    pub audio_bytes_max: u64,
    /// The number of files that front ends offer for a list of files; only told to them (Dify:
    /// `WORKFLOW_FILE_UPLOAD_LIMIT`).
    pub workflow_files_max: u64,
    /// Most uploads that one request may name, and most runs whose files it may name.
    pub request_files_max: usize,
    /// Extensions that are refused (Dify: `UPLOAD_FILE_EXTENSION_BLACKLIST`).
    pub refused_extensions: Vec<String>,
    /// Most bytes of the uploads of one app that are kept; 0: no limit.
    pub app_bytes_max: u64,
    /// Most bytes of the uploads of one user of an app that are kept; 0: no limit.
    pub user_bytes_max: u64,
    /// The beginning of URLs of files, such as `https://api.example.org`; empty: they begin with `/files` (Dify: `FILES_URL`).
    pub url: HiddenUrl,
    /// Seconds for which such a URL opens its file (Dify: `FILES_ACCESS_TIMEOUT`).
    pub url_seconds: u64,
}

impl Default for UploadsConfig {
    fn default() -> Self {
        Self {
            image_bytes_max: limits::UPLOAD_IMAGE_BYTES_MAX,
            video_bytes_max: limits::UPLOAD_VIDEO_BYTES_MAX,
            audio_bytes_max: limits::UPLOAD_AUDIO_BYTES_MAX,
            workflow_files_max: limits::WORKFLOW_FILES_MAX,
            request_files_max: limits::REQUEST_FILES_MAX,
            refused_extensions: Vec::new(),
            app_bytes_max: limits::UPLOADS_OF_APP_BYTES_MAX,
            user_bytes_max: limits::UPLOADS_OF_USER_BYTES_MAX,
            url: HiddenUrl::default(),
            url_seconds: limits::FILE_URL_SECONDS,
        }
    }
}
