//! Providers and profiles, as a scheduler keeps them. `kind` is `providers` or `profiles`.

use serde_json::Value as Json;

use super::{Client, ClientError, segment};

impl Client {
    /// All of a kind: `{"data": […]}`.
    pub(crate) async fn entries(&self, kind: &str) -> Result<Json, ClientError> {
        self.json(self.get(&format!("/api/v1/{kind}"))).await
    }

    /// One of them.
    pub(crate) async fn entry(&self, kind: &str, id: &str) -> Result<Json, ClientError> {
        self.json(self.get(&format!("/api/v1/{kind}/{}", segment(id)))).await
    }

    /// Keeps a new one, or takes the place of whatever there is.
    pub(crate) async fn keep(
        &self,
        kind: &str,
        id: &str,
        body: &Json,
        replace: bool,
    ) -> Result<Json, ClientError> {
        let request = if replace {
            self.http.put(format!("{}/api/v1/{kind}/{}", self.base, segment(id))).bearer_auth(&self.key)
        } else {
            self.post(&format!("/api/v1/{kind}"))
        };
        self.json(request.json(body)).await
    }

    /// Forgets one; `force` although others use it.
    pub(crate) async fn forget(&self, kind: &str, id: &str, force: bool) -> Result<(), ClientError> {
        let query = if force { "?force=true" } else { "" };
        let request = self.http.delete(format!("{}/api/v1/{kind}/{}{query}", self.base, segment(id)));
        self.send(request.bearer_auth(&self.key)).await?;
        Ok(())
    }
}
