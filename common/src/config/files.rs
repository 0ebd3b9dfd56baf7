//! Where files lie.

use serde::{Deserialize, Serialize};
use toml::Table;

use super::mask;

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
