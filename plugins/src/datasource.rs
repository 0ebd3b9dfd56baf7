//! Reads from datasources: a page of an online document, and a file of an online drive. Crawled pages need no plugin at run time:
//! the client has them before.

use serde_json::{Value as Json, json};

use crate::tool::{Call, Results, ToolError};

impl Call<'_> {
    /// Reads a page of an online document.
    ///
    /// # Errors
    /// [`ToolError`].
    pub async fn page(&self, datasource: &str, page: &Json) -> Result<Results, ToolError> {
        let wanted = json!({
            "workspace_id": page["workspace_id"].as_str().unwrap_or_default(),
            "page_id": page["page_id"].as_str().unwrap_or_default(),
            "type": page["type"].as_str().unwrap_or_default(),
        });
        let action = "invoke_online_document_datasource_get_page_content";
        self.read(action, datasource, ("page", wanted)).await
    }

    /// Loads a file of an online drive.
    ///
    /// # Errors
    /// [`ToolError`].
    pub async fn download(&self, datasource: &str, file: &Json) -> Result<Results, ToolError> {
        let wanted =
            json!({"id": file["id"].as_str().unwrap_or_default(), "bucket": file["bucket"].as_str()});
        self.read("invoke_online_drive_download_file", datasource, ("request", wanted)).await
    }

    async fn read(
        &self,
        action: &str,
        datasource: &str,
        (key, wanted): (&str, Json),
    ) -> Result<Results, ToolError> {
        let mut request = json!({
            "type": "datasource", "action": action, "user_id": self.user, "provider": self.provider.name,
            "datasource": datasource, "credentials": self.credentials,
        });
        request[key] = wanted;
        let session = self.open(request).await?;
        Ok(Results::new(session, self.plugins))
    }
}
