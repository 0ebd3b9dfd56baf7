//! Tools that are part of this program, one file a provider.

mod maths;
mod time;
mod webscraper;

use serde_json::Value as Json;
use tidemill_common::nodes::tool::{Declaration, Message};
use tidemill_common::value::JsonMap;
use tidemill_common::value::pyrepr::str_of;

use super::{MessageSink, Stage, ToolCall, ToolError, ToolName, ToolRuntime};

/// See the module.
pub struct Builtin;

/// A provider: its name, its tools, and what runs one of them.
struct Provider {
    name: &'static str,
    tools: fn() -> Vec<Declaration>,
    run: Run,
}

/// What runs a tool. An error is what the tool says.
enum Run {
    /// Out of its arguments alone.
    Here(fn(&str, &JsonMap) -> Result<String, String>),
    /// Over the guarded way out.
    Web,
}

const PROVIDERS: &[Provider] = &[
    Provider { name: "time", tools: time::tools, run: Run::Here(time::run) },
    Provider { name: "maths", tools: maths::tools, run: Run::Here(maths::run) },
    Provider { name: "webscraper", tools: webscraper::tools, run: Run::Web },
];

impl Builtin {
    /// Whether a provider is here: by its name, or as Dify's marketplace has it (`langgenius/time/time`).
    pub(super) fn has(&self, provider_id: &str) -> bool {
        provider(provider_id).is_some()
    }
}

fn provider(id: &str) -> Option<&'static Provider> {
    PROVIDERS.iter().find(|one| {
        let long = id.strip_prefix("langgenius/").and_then(|rest| rest.split_once('/'));
        id == one.name || long == Some((one.name, one.name))
    })
}

/// A text argument: what is missing or empty is the default.
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
