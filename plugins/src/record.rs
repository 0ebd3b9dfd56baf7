//! A package as the record that all workers read.

use std::collections::BTreeMap;

use tidemill_common::registry::plugin_strategies::StrategyGroup;
use tidemill_common::registry::plugins::{
    CredentialField, InstalledPlugin, PluginModels, PluginProvider, ShowOn,
};

use crate::package::{
    ModelProvider, Package, Parameter, Provider, Signature, StrategyProvider, ToolProvider,
};

impl Package {
    /// The record of this package, which has this many bytes as an archive.
    pub fn record(&self, bytes: u64) -> InstalledPlugin {
        let others = [("triggers", &self.providers.triggers), ("endpoints", &self.providers.endpoints)];
        let others = others.iter().filter(|(_, providers)| !providers.is_empty());
        let signature = match self.signature {
            Signature::Right => "checked",
            Signature::Unchecked | Signature::Missing | Signature::Wrong => self.signature.in_words(),
        };
        InstalledPlugin {
            author: self.manifest.author.clone(),
            name: self.manifest.name.clone(),
            version: self.manifest.version.clone(),
            sha256: self.hash.clone(),
            bytes,
            in_files: false,
            signature: signature.into(),
            permissions: self.manifest.permissions.in_words(),
            providers: self.providers.tools.iter().map(provider).collect(),
            datasources: self.providers.datasources.iter().map(of_items).collect(),
            models: self.providers.models.iter().map(models).collect(),
            strategies: self.providers.agent_strategies.iter().map(strategies).collect(),
            others: others.map(|(kind, _)| (*kind).to_owned()).collect(),
        }
    }
}

fn provider(provider: &ToolProvider) -> PluginProvider {
    PluginProvider {
        name: provider.name.clone(),
        tools: provider.tools.iter().map(|tool| tool.name.clone()).collect(),
        credentials: provider.credentials.iter().map(field).collect(),
    }
}

fn of_items(provider: &Provider) -> PluginProvider {
    PluginProvider {
        name: provider.name.clone(),
        tools: provider.items.iter().map(|item| item.name.clone()).collect(),
        credentials: provider.credentials.iter().map(field).collect(),
    }
}

fn models(provider: &ModelProvider) -> PluginModels {
    let mut described: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for model in &provider.models {
        described.entry(model.kind.word().to_owned()).or_default().push(model.name.clone());
    }
    PluginModels {
        name: provider.name.clone(),
        kinds: provider.kinds.iter().map(|kind| kind.word().to_owned()).collect(),
        described,
        is_customizable: provider.is_customizable,
        credentials: provider.credentials.iter().map(field).collect(),
        model_credentials: provider.model_credentials.iter().map(field).collect(),
    }
}

fn strategies(provider: &StrategyProvider) -> StrategyGroup {
    StrategyGroup {
        name: provider.name.clone(),
        strategies: provider.strategies.iter().map(|strategy| strategy.name.clone()).collect(),
    }
}

fn field(field: &Parameter) -> CredentialField {
    CredentialField {
        name: field.name.clone(),
        label: field.label.clone(),
        kind: field.kind.word().into(),
        required: field.required,
        default: field.default.clone(),
        options: field.options.clone(),
        help: field.help.clone(),
        show_on: field
            .show_on
            .iter()
            .map(|(variable, value)| ShowOn { variable: variable.clone(), value: value.clone() })
            .collect(),
    }
}
