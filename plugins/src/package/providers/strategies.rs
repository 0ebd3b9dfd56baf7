//! The agent strategies of a package.

use serde_json::Value as Json;

use crate::package::parameter::{self, Parameter};
use crate::package::spot::{Reader, Spot};

/// A provider of agent strategies.
#[derive(Debug, Clone)]
pub struct StrategyProvider {
    pub file: String,
    pub name: String,
    pub label: String,
    pub strategies: Vec<Strategy>,
}

/// An agent strategy.
#[derive(Debug, Clone)]
pub struct Strategy {
    pub file: String,
    pub name: String,
    pub label: String,
    pub description: String,
    pub parameters: Vec<Parameter>,
    /// What it can take besides its parameters, such as [`HISTORY`].
    pub features: Vec<String>,
    /// The JSON schema of its variables.
    pub output_schema: Option<Json>,
}

/// The feature of a strategy that takes the conversation so far with its model.
pub const HISTORY: &str = "history-messages";

pub(super) fn provider(reader: &Reader<'_>, file: &str) -> Option<StrategyProvider> {
    let yaml = reader.read(file)?;
    let root = reader.root(&yaml);
    let identity = root.need("identity")?;
    need_source(&root, "provider");
    let listed = reader.named(&root.list("strategies"));
    let mut strategies: Vec<Strategy> = Vec::new();
    for strategy in listed.iter().filter_map(|file| strategy(reader, file)) {
        if strategies.iter().any(|known| known.name == strategy.name) {
            root.error(format!("the agent strategy {:?} occurs twice", strategy.name));
        } else {
            strategies.push(strategy);
        }
    }
    Some(StrategyProvider {
        file: file.to_owned(),
        name: identity.need_text("name"),
        label: identity.label("label"),
        strategies,
    })
}

fn strategy(reader: &Reader<'_>, file: &str) -> Option<Strategy> {
    let yaml = reader.read(file)?;
    let root = reader.root(&yaml);
    let identity = root.need("identity")?;
    need_source(&root, "strategy");
    Some(Strategy {
        file: file.to_owned(),
        name: identity.need_text("name"),
        label: identity.label("label"),
        description: root.label("description"),
        parameters: parameter::list(&root),
        features: root.texts("features"),
        output_schema: root.get("output_schema").map(|spot| spot.value.clone()),
    })
}

fn need_source(root: &Spot<'_>, of: &str) {
    if root.python_source().is_none() {
        root.error(format!("extra.python.source is missing: the Python file of the {of}"));
    }
}
