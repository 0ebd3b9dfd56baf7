//! API calls for admin keys, the audit log, and limits and webhooks of apps.

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

    /// Sets the limits of an app or a key; `kind` is `apps` or `keys`.
    pub(crate) async fn set_limits(&self, kind: &str, id: &str, body: &Json) -> Result<Json, ClientError> {
        let request = self.http.put(format!("{}/api/v1/{kind}/{}/limits", self.base, segment(id)));
        self.json(request.bearer_auth(&self.key).json(body)).await
    }

    /// Removes the limits of an app or a key.
    pub(crate) async fn remove_limits(&self, kind: &str, id: &str) -> Result<(), ClientError> {
        let request = self.http.delete(format!("{}/api/v1/{kind}/{}/limits", self.base, segment(id)));
        self.send(request.bearer_auth(&self.key)).await?;
        Ok(())
    }

    /// Sets the webhook of an app. A new secret is in the response, and never shown again.
    pub(crate) async fn set_webhook(&self, app: &str, body: &Json) -> Result<Json, ClientError> {
        let request = self.http.put(format!("{}{}", self.base, webhook_path(app)));
        self.json(request.bearer_auth(&self.key).json(body)).await
    }

    /// Returns the webhook of an app without its secret.
    pub(crate) async fn webhook(&self, app: &str) -> Result<Json, ClientError> {
        self.json(self.get(&webhook_path(app))).await
    }

    /// Sends a test to the webhook of an app.
    pub(crate) async fn test_webhook(&self, app: &str) -> Result<Json, ClientError> {
        self.json(self.post(&format!("{}/test", webhook_path(app)))).await
    }

    /// Returns the notices of an app that wait or were given up.
    pub(crate) async fn webhook_deliveries(&self, app: &str) -> Result<Json, ClientError> {
        self.json(self.get(&format!("{}/deliveries", webhook_path(app)))).await
    }

    /// Removes the webhook of an app.
    pub(crate) async fn remove_webhook(&self, app: &str) -> Result<(), ClientError> {
        let request = self.http.delete(format!("{}{}", self.base, webhook_path(app)));
        self.send(request.bearer_auth(&self.key)).await?;
        Ok(())
    }
}

fn webhook_path(app: &str) -> String {
    format!("/api/v1/apps/{}/webhook", segment(app))
}
