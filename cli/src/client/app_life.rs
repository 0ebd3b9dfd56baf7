//! API calls for the life of an app after it was published: its state, its removal, and that of its users.

use serde_json::{Value as Json, json};

use super::{Client, ClientError, segment};

impl Client {
    /// Returns an app.
    pub(crate) async fn app(&self, app: &str) -> Result<Json, ClientError> {
        self.json(self.get(&format!("/api/v1/apps/{}", segment(app)))).await
    }

    /// Switches an app off or on: `disable` or `enable`.
    pub(crate) async fn switch_app(&self, app: &str, verb: &str) -> Result<Json, ClientError> {
        self.json(self.post(&format!("/api/v1/apps/{}/{verb}", segment(app)))).await
    }

    /// Makes an earlier version of an app the current one.
    pub(crate) async fn roll_back(&self, app: &str, version: &str) -> Result<Json, ClientError> {
        let request = self.post(&format!("/api/v1/apps/{}/rollback", segment(app)));
        self.json(request.json(&json!({"version": version}))).await
    }

    /// Begins to remove an app; `runs` says what becomes of its runs.
    pub(crate) async fn remove_app(&self, app: &str, runs: Option<&str>) -> Result<Json, ClientError> {
        let runs = runs.map(|runs| format!("?runs={runs}")).unwrap_or_default();
        let request = self.http.delete(format!("{}/api/v1/apps/{}{runs}", self.base, segment(app)));
        self.json(request.bearer_auth(&self.key)).await
    }

    /// Begins to remove a user of an app.
    pub(crate) async fn remove_user(&self, app: &str, user: &str) -> Result<Json, ClientError> {
        let path = format!("/api/v1/apps/{}/users/{}", segment(app), segment(user));
        self.json(self.http.delete(format!("{}{path}", self.base)).bearer_auth(&self.key)).await
    }

    /// Lists the removals that are under way: `{"data": […]}`.
    pub(crate) async fn removals(&self) -> Result<Json, ClientError> {
        self.json(self.get("/api/v1/removals")).await
    }
}
