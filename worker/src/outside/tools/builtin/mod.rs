//! Built-in tools, one file per provider.

mod maths;
mod time;
mod webscraper;

use serde_json::Value as Json;
use tidemill_common::nodes::tool::{Declaration, Message};
use tidemill_common::value::JsonMap;
use tidemill_common::value::pyrepr::str_of;

use crate::outside::tools::{MessageSink, Stage, ToolCall, ToolError, ToolName, ToolRuntime};

/// The built-in tools; see the module.
pub struct Builtin;

/// A provider: its name, its tools, and the function that runs them.
struct Provider {
    name: &'static str,
    tools: fn() -> Vec<Declaration>,
    run: Run,
}

/// The way a tool runs. An error is the tool's message.
enum Run {
    /// Computes from its arguments only.
    Here(fn(&str, &JsonMap) -> Result<String, String>),
    /// Calls the web through the guard.
    Web,
}

const PROVIDERS: &[Provider] = &[
    Provider { name: "time", tools: time::tools, run: Run::Here(time::run) },
    Provider { name: "maths", tools: maths::tools, run: Run::Here(maths::run) },
    Provider { name: "webscraper", tools: webscraper::tools, run: Run::Web },
];

impl Builtin {
    /// Returns true for a built-in provider, by its name or its marketplace id (`langgenius/time/time`).
    pub(super) fn has(&self, provider_id: &str) -> bool {
        provider(provider_id).is_some()
    }
}

/// The names of all built-in providers.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    PROVIDERS.iter().map(|one| one.name)
}

/// The name of a built-in provider by any of its ids; another id stays.
pub(super) fn short_name(id: &str) -> &str {
    provider(id).map_or(id, |one| one.name)
}

fn provider(id: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|one| {
        let long = id.strip_prefix("langgenius/").and_then(|rest| rest.split_once('/'));
        id == one.name || long == Some((one.name, one.name))
    })
}

/// A text argument. A missing or empty one is the default.
fn text(arguments: &JsonMap, name: &str, default: &str) -> String {
    match arguments.get(name) {
        None | Some(Json::Null) => default.to_owned(),
        Some(Json::String(text)) if text.is_empty() => default.to_owned(),
        Some(value) => str_of(value).into_owned(),
    }
}

#[async_trait::async_trait]
impl ToolRuntime for Builtin {
    async fn parameters(&self, tool: &ToolName<'_>) -> Result<Option<Declaration>, ToolError> {
        let tools = self.list(tool.provider_id).await?;
        let found = tools.into_iter().find(|one| one.name == tool.tool);
        let missing =
            || ToolError::unavailable(format!("provider {} has no tool {}", tool.provider_id, tool.tool));
        found.map(Some).ok_or_else(missing)
    }

    async fn list(&self, provider_id: &str) -> Result<Vec<Declaration>, ToolError> {
        Ok(provider(provider_id).map(|one| (one.tools)()).unwrap_or_default())
    }

    async fn invoke(
        &self,
        tool: &ToolName<'_>,
        call: ToolCall<'_>,
        sink: MessageSink<'_>,
    ) -> Result<(), ToolError> {
        let Some(provider) = provider(tool.provider_id) else {
            return Err(ToolError::unavailable(format!("there is no provider {}", tool.provider_id)));
        };
        let said = match provider.run {
            Run::Here(run) => run(tool.tool, call.arguments),
            Run::Web => webscraper::run(call.arguments, call.http).await,
        };
        sink(Message::Text(said.map_err(|message| ToolError::new(Stage::Tool, message))?));
        Ok(())
    }
}
