//! Invokes agent strategies. They answer with messages as tools do, and ask back for models and tools.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::value::JsonMap;

use crate::install::Installed;
use crate::package::{Kind, Parameter};
use crate::process::pool::{Invocation, Origin, Plugins};
use crate::process::{Answers, Offered, ProcessError};
use crate::tool::{Results, is_secret};

/// An invocation of an agent strategy.
pub struct AgentCall<'a> {
    pub plugins: &'a Plugins,
    pub installed: &'a Arc<Installed>,
    pub provider: &'a str,
    pub strategy: &'a str,
    /// The person for whom it is invoked.
    pub user: String,
    /// The app.
    pub owner: String,
    pub answers: Arc<dyn Answers>,
    pub offered: Offered,
    pub origin: Origin,
}

impl AgentCall<'_> {
    /// Begins the invocation.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub async fn invoke(&self, parameters: &JsonMap) -> Result<Results, ProcessError> {
        let request = json!({
            "type": "agent_strategy", "action": "invoke_agent_strategy", "user_id": self.user,
            "agent_strategy_provider": self.provider, "agent_strategy": self.strategy,
            "agent_strategy_params": parameters,
        });
        let invocation = Invocation {
            request,
            owner: self.owner.clone(),
            secrets: secrets(self.declared(), parameters),
            answers: self.answers.clone(),
            offered: self.offered.clone(),
            origin: self.origin.clone(),
        };
        let session = self.plugins.open(self.installed, invocation).await?;
        Ok(Results::new(session, self.plugins))
    }

    /// The parameters that the package declares.
    fn declared(&self) -> &[Parameter] {
        let providers = self.installed.package.providers.agent_strategies.iter();
        let mut all =
            providers.filter(|known| known.name == self.provider).flat_map(|known| &known.strategies);
        all.find(|known| known.name == self.strategy)
            .map(|known| known.parameters.as_slice())
            .unwrap_or_default()
    }
}

/// The secret texts among the parameters. A strategy has no credentials, since its tools and models are called by the host; but it
/// gets what the author has set for its tools and for servers.
fn secrets(declared: &[Parameter], parameters: &JsonMap) -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in parameters {
        if declared.iter().any(|parameter| parameter.name == *name && parameter.kind == Kind::Secret) {
            add(value, &mut found);
        }
        collect(value, &mut found);
    }
    found
}

/// Adds the secret inputs of tools and the headers of servers, which may be in a text of JSON.
fn collect(value: &Json, found: &mut Vec<String>) {
    match value {
        Json::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Json::Object(map) => {
            for (name, inner) in map {
                if name.eq_ignore_ascii_case("headers") {
                    inner.as_object().into_iter().flatten().for_each(|(_, value)| add(value, found));
                }
                collect(inner, found);
            }
            for parameter in map.get("parameters").and_then(Json::as_array).into_iter().flatten() {
                if parameter["type"] == "secret-input"
                    && let Some(name) = parameter["name"].as_str()
                {
                    add(&value["runtime_parameters"][name], found);
                }
            }
        }
        Json::String(text) if text.trim_start().starts_with(['{', '[']) => {
            if let Ok(inner) = serde_json::from_str::<Json>(text)
                && !inner.is_string()
            {
                collect(&inner, found);
            }
        }
        Json::String(_) | Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// Adds a text, and what comes after a word such as `Bearer`.
fn add(value: &Json, found: &mut Vec<String>) {
    let Some(text) = value.as_str() else { return };
    let after = text.split_once(' ').map(|(_, after)| after.trim());
    found.extend([Some(text), after].into_iter().flatten().filter(|text| is_secret(text)).map(String::from));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_inputs_of_tools_and_headers_of_servers_are_secrets() {
        let servers = r#"{"maps": {"url": "https://a", "headers": {"Authorization": "Bearer the-token"}}}"#;
        let tool = json!({
            "parameters": [{"name": "key", "type": "secret-input"}, {"name": "city", "type": "string"}],
            "runtime_parameters": {"key": "the-key", "city": "Berlin"},
        });
        let Json::Object(parameters) = json!({"query": "hello", "tools": [tool], "mcp_servers": servers})
        else {
            panic!("it is an object");
        };
        assert_eq!(secrets(&[], &parameters), ["the-key", "Bearer the-token", "the-token"]);
    }
}
