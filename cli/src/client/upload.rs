//! Sends files to the scheduler, before the run that uses them is submitted.

use std::time::Duration;

use serde_json::Value as Json;

use super::{Client, ClientError, http, segment};

/// Longest time without any byte: the scheduler answers after the last byte of the file.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(600);

impl Client {
    /// Installs the package of a plugin, and returns its entry.
    pub(crate) async fn install(&self, package: Vec<u8>) -> Result<Json, ClientError> {
        let request = http(&self.base, UPLOAD_TIMEOUT)?.post(format!("{}/api/v1/plugins", self.base));
        self.json(request.bearer_auth(&self.key).body(package)).await
    }

    /// Uploads a file for runs of this user, and returns its id.
    pub(crate) async fn upload(
        &self,
        file: tokio::fs::File,
        name: &str,
        user: &str,
    ) -> Result<String, ClientError> {
        let path = format!("/api/v1/files?name={}&user={}", segment(name), segment(user));
        let request = http(&self.base, UPLOAD_TIMEOUT)?.post(format!("{}{path}", self.base));
        let answer = self.json(request.bearer_auth(&self.key).body(file)).await?;
        self.id_in(&answer, "an upload")
    }
}
