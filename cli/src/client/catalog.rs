//! API calls for the providers and profiles that a scheduler stores. `kind` is `providers` or `profiles`.

use serde_json::Value as Json;

use super::{Client, ClientError, segment};

impl Client {
    /// Lists all entries of a kind: `{"data": […]}`.
    pub(crate) async fn entries(&self, kind: &str) -> Result<Json, ClientError> {
        self.json(self.get(&format!("/api/v1/{kind}"))).await
    }

    /// Returns one entry.
    pub(crate) async fn entry(&self, kind: &str, id: &str) -> Result<Json, ClientError> {
        self.json(self.get(&format!("/api/v1/{kind}/{}", segment(id)))).await
    }

    /// Creates an entry, or replaces it when `replace` is set.
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

    /// Removes an entry. With `force` also when others still use it.
    pub(crate) async fn forget(&self, kind: &str, id: &str, force: bool) -> Result<(), ClientError> {
        let query = if force { "?force=true" } else { "" };
        let request = self.http.delete(format!("{}/api/v1/{kind}/{}{query}", self.base, segment(id)));
        self.send(request.bearer_auth(&self.key)).await?;
        Ok(())
    }
}
