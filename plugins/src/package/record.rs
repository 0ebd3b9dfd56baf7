//! A package as the record that all workers read.

use tidemill_common::registry::plugin_strategies::StrategyGroup;
use tidemill_common::registry::plugins::{CredentialField, InstalledPlugin, PluginProvider};

use super::{Package, Parameter, Signature, StrategyProvider, ToolProvider};

impl Package {
    /// The record of this package, which has this many bytes as an archive.
    pub fn record(&self, bytes: u64) -> InstalledPlugin {
        let others = [
            ("models", &self.providers.models),
            ("datasources", &self.providers.datasources),
            ("triggers", &self.providers.triggers),
            ("endpoints", &self.providers.endpoints),
        ];
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
    }
}
