//! The record that a worker with given settings would write, as far as the settings alone show it. No variable of the
//! environment is read and no server is asked.

use tidemill_common::config::{Config, HiddenTables};
use tidemill_common::need::Need;
use tidemill_common::nodes::NodeKind;
use tidemill_common::nodes::code::CodeLanguage;
use tidemill_common::wire::worker::{AboutWorker, ProfileAbility, ProviderAbility, ServedName};

use crate::outside::tools;
use crate::setup::decide;

/// Returns the record. Each provider and profile counts as usable, because its key may be in a variable of the worker's
/// environment.
pub fn of_settings(config: &Config) -> AboutWorker {
    AboutWorker {
        queues: config.worker.queues.clone(),
        providers: providers(&config.providers),
        profiles: config.profiles.keys().map(|id| ProfileAbility { id: id.clone(), usable: true }).collect(),
        default_profile: Some(config.worker.default_profile.clone()).filter(|id| !id.is_empty()),
        tools: tools::sources_set(&config.tools),
        code: CodeLanguage::ALL.map(|language| language.name().to_owned()).to_vec(),
        documents: true,
        ..AboutWorker::default()
    }
}

/// Returns true if a worker with this record can meet the need, or if its program executes such nodes itself.
pub fn meets(about: &AboutWorker, need: &Need) -> bool {
    let has = |names: &[String], name: &str| names.iter().any(|known| known == name);
    let is_hosted = match need {
        Need::Tool { provider, also, .. } => [provider, also].iter().any(|it| has(&about.hosted.tools, it)),
        Need::Provider { .. } | Need::Profile { .. } => has(&about.hosted.types, NodeKind::Llm.wire()),
        Need::Code { .. } => has(&about.hosted.types, NodeKind::Code.wire()),
        Need::Plugin { .. }
        | Need::Call { .. }
        | Need::Variable { .. }
        | Need::SecretKey { .. }
        | Need::Documents => false,
    };
    is_hosted || decide::can(about, need, None)
}

fn providers(tables: &HiddenTables) -> Vec<ProviderAbility> {
    let tables = tables.iter().map(|(name, table)| {
        let served = table.get("serves").and_then(|served| served.as_array()).into_iter().flatten();
        let served = served.filter_map(|one| one.clone().try_into::<ServedName>().ok());
        ProviderAbility { name: name.clone(), serves: served.collect(), usable: true }
    });
    tables.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_compared_like_the_record_of_a_worker() {
        let config: Config = serde_json::from_value(serde_json::json!({
            "providers": {"openai": {"serves": [{"provider": "a/azure/azure", "model": "m"}]}},
            "profiles": {"fast": {"provider": "openai"}},
            "tools": {"mcp": {"search": {"url": "http://h/mcp"}}},
        }))
        .expect("these are settings");
        let about = of_settings(&config);
        let model =
            |provider: &str, model: &str| Need::Provider { provider: provider.into(), model: model.into() };
        let tool = |kind: &str, provider: &str| Need::Tool {
            kind: kind.into(),
            provider: provider.into(),
            also: String::new(),
        };
        for (need, expected) in [
            (model("langgenius/openai/openai", "x"), true),
            (model("a/azure/azure", "m"), true),
            (model("a/azure/azure", "n"), false),
            (Need::Profile { id: "fast".into() }, true),
            (tool("mcp", "search"), true),
            (tool("builtin", "langgenius/time/time"), true),
            (tool("workflow", "w"), true),
            (tool("api", "pets"), false),
            (tool("builtin", "jina"), false),
        ] {
            assert_eq!(meets(&about, &need), expected, "{need}");
        }
    }
}
