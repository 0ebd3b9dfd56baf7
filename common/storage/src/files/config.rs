//! The settings of file storage.

use serde::{Deserialize, Serialize};

use tidemill_base::hidden::{Hidden, HiddenUrl};

/// `[files]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FilesConfig {
    /// The storage of files: a folder, `file:///folder` or `s3://bucket/prefix`. Shared by all processes:
    /// workers write and read, schedulers delete.
    pub url: HiddenUrl,
    /// The endpoint of an `s3://` service, as `http[s]://host[:port]`; empty: AWS, or `AWS_ENDPOINT_URL`.
    pub endpoint: HiddenUrl,
    /// The region; empty: `AWS_REGION`, else `us-east-1`.
    pub region: String,
    /// The access key; empty, with `secret_access_key`: `AWS_ACCESS_KEY_ID` and the other sources of AWS
    /// tools.
    pub access_key_id: Hidden,
    /// The secret of the access key. Better set as `TIDEMILL_FILES_SECRET_ACCESS_KEY`.
    pub secret_access_key: Hidden,
    /// Whether the bucket is in the path instead of the host name.
    pub path_style: bool,
}

impl Default for FilesConfig {
    fn default() -> Self {
        Self {
            url: "tidemill-files".into(),
            endpoint: HiddenUrl::default(),
            region: String::new(),
            access_key_id: Hidden::default(),
            secret_access_key: Hidden::default(),
            path_style: true,
        }
    }
}
