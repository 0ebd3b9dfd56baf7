//! Where files lie.

use serde::{Deserialize, Serialize};

use crate::hidden::{Hidden, HiddenUrl};

/// `[files]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FilesConfig {
    /// Where files lie: a folder, `file:///folder` or `s3://bucket/prefix`. Every process of the fleet must reach the same
    /// one: workers write and read, schedulers remove.
    pub url: HiddenUrl,
    /// The service of an `s3://`, as `http[s]://host[:port]`; empty: AWS, or `AWS_ENDPOINT_URL`.
    pub endpoint: HiddenUrl,
    /// Its region; empty: `AWS_REGION`, else `us-east-1`.
    pub region: String,
    /// The key to it; empty, with `secret_access_key`: `AWS_ACCESS_KEY_ID` and all else that AWS tools look for.
    pub access_key_id: Hidden,
    /// The secret of that key. Better given as `TIDEMILL_FILES_SECRET_ACCESS_KEY`.
    pub secret_access_key: Hidden,
    /// Whether the bucket stands in the path rather than in the host's name.
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
