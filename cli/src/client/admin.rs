//! API calls for admin keys and the audit log.

use serde_json::Value as Json;

use super::{Client, ClientError, segment};

impl Client {
    /// Lists all admin keys: `{"data": […]}`.
    pub(crate) async fn admin_keys(&self) -> Result<Json, ClientError> {
        self.json(self.get("/api/v1/admin-keys")).await
    }

    /// Creates an admin key; it is in the response, and never shown again.
    pub(crate) async fn add_admin_key(&self, body: &Json) -> Result<Json, ClientError> {
        self.json(self.post("/api/v1/admin-keys").json(body)).await
    }

    /// Replaces an admin key; the new one is in the response, and never shown again.
    pub(crate) async fn rotate_admin_key(&self, id: &str, body: &Json) -> Result<Json, ClientError> {
        self.json(self.post(&format!("/api/v1/admin-keys/{}/rotate", segment(id))).json(body)).await
    }

    /// Revokes an admin key by its id.
    pub(crate) async fn revoke_admin_key(&self, id: &str) -> Result<(), ClientError> {
        let request = self.http.delete(format!("{}/api/v1/admin-keys/{}", self.base, segment(id)));
        self.send(request.bearer_auth(&self.key)).await?;
        Ok(())
    }

    /// Lists entries of the audit log, the newest first: `{"data": […], "next"}`.
    pub(crate) async fn audit(&self, query: &[(&str, String)]) -> Result<Json, ClientError> {
        let query: Vec<String> =
            query.iter().map(|(name, value)| format!("{name}={}", segment(value))).collect();
        self.json(self.get(&format!("/api/v1/audit?{}", query.join("&")))).await
    }
}
