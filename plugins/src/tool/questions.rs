//! What a plugin says about its tools when it is asked: the options of a parameter, and the parameters that a tool has at run
//! time.

use serde_json::{Value as Json, json};

use super::{Call, ToolError};

/// Most options, and most parameters, that are taken.
const ITEMS_MAX: usize = 10_000;

impl Call<'_> {
    /// The options of a parameter of the kind `dynamic-select`: each has `value` and `label`, and may have `icon`.
    ///
    /// # Errors
    /// [`ToolError`]: the plugin has no such parameter, for example.
    pub async fn options(&self, tool: &str, parameter: &str) -> Result<Vec<Json>, ToolError> {
        let kind = if self.credentials.is_empty() { "unauthorized" } else { "api-key" };
        let request = json!({
            "type": "dynamic_parameter", "action": "fetch_parameter_options", "user_id": self.user,
            "provider": self.provider.name, "provider_action": tool, "parameter": parameter,
            "credentials": self.credentials, "credential_type": kind,
        });
        let options = self.ask(request, "options").await?;
        options.ok_or_else(|| ToolError::unusable("the plugin has answered with no list of options".into()))
    }

    /// The parameters that a tool has now besides those that it declares, in Dify's form. SDKs that cannot answer this question
    /// answer nothing.
    ///
    /// # Errors
    /// [`ToolError`].
    pub async fn runtime_parameters(&self, tool: &str) -> Result<Vec<Json>, ToolError> {
        let request = json!({
            "type": "tool", "action": "get_tool_runtime_parameters", "user_id": self.user,
            "provider": self.provider.name, "tool": tool, "credentials": self.credentials,
        });
        Ok(self.ask(request, "parameters").await?.unwrap_or_default())
    }

    /// Asks for the list under a key of the answer; `None` for no answer.
    async fn ask(&self, request: Json, key: &'static str) -> Result<Option<Vec<Json>>, ToolError> {
        let mut session = self.open(request).await?;
        let mut found = None;
        while let Some(mut part) = session.next().await? {
            if let Some(Json::Array(items)) = part.get_mut(key).map(Json::take) {
                found.get_or_insert(items);
            }
        }
        Ok(found.map(|mut items: Vec<Json>| {
            if items.len() > ITEMS_MAX {
                let (plugin, listed) = (self.installed.package.id(), items.len());
                tracing::warn!(
                    plugin,
                    listed,
                    taken = ITEMS_MAX,
                    key,
                    "a plugin lists too many; the first are taken"
                );
            }
            items.truncate(ITEMS_MAX);
            items
        }))
    }
}
