//! Dify plugins on this worker. [`host`] knows which are installed for all workers and which of them are ready here;
//! [`keeper`] prepares them in the background; [`cleaner`] removes what none of them uses any more; [`ready`] waits for the one that a tool needs; [`run`] finds and calls their tools, with [`credentials`],
//! [`questions`] asks about them, [`models`] finds and calls their models, and [`strategy`] their agent strategies; [`files`] hands
//! files of a run to a plugin, and [`answers`] answers what it asks back.
//!
//! Plugins run only on Linux, because only there they are confined. Elsewhere this worker has none ([`elsewhere`]).

#[cfg(target_os = "linux")]
mod answers;
#[cfg(target_os = "linux")]
mod cleaner;
#[cfg(target_os = "linux")]
mod credentials;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod models;
#[cfg(target_os = "linux")]
mod questions;
#[cfg(target_os = "linux")]
mod ready;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod strategy;

use std::sync::Arc;

use serde_json::Value as Json;
use tidemill_common::ids::RunId;
use tidemill_common::nodes::tool::{Declaration, Message, ProviderKind};
use tidemill_plugins::package::{Facts, ModelKind};

use crate::outside::providers::ModelProvider;

#[cfg(target_os = "linux")]
pub(crate) use answers::Asker;
#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{Asker, FoundStrategy, PluginHost};
#[cfg(target_os = "linux")]
pub(crate) use host::PluginHost;
#[cfg(target_os = "linux")]
pub(crate) use models::{CallFailure, ServedModels};
#[cfg(target_os = "linux")]
pub(crate) use strategy::FoundStrategy;

/// A tool of a plugin that is ready on this worker.
#[derive(Debug)]
pub(crate) struct FoundTool {
    /// The plugin: `author/name:version`.
    pub(crate) plugin: String,
    pub(crate) declaration: Declaration,
}

/// A model that a node needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WantedModel<'a> {
    /// Its provider's name in the workflow.
    pub(crate) provider: &'a str,
    pub(crate) model: &'a str,
    pub(crate) kind: ModelKind,
    /// The run, whose app may have its own credentials.
    pub(crate) run: Option<RunId>,
    /// Also a plugin that was installed just now.
    pub(crate) newest: bool,
    /// Another provider serves the model as long as no plugin can.
    pub(crate) has_own: bool,
}

/// A model of a plugin that is ready on this worker.
#[derive(Debug)]
pub(crate) struct FoundModel {
    pub(crate) client: Arc<dyn ModelProvider>,
    /// What limits and pauses are counted for.
    pub(crate) account: String,
    /// `None`: nothing is known.
    pub(crate) facts: Option<Facts>,
}

/// A tool that was given to an agent's strategy, as the strategy names it when it calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GivenTool {
    pub(crate) kind: ProviderKind,
    pub(crate) provider: String,
    pub(crate) tool: String,
    /// The plugin whose parameters the strategy knows: `author/name:version`.
    pub(crate) plugin: Option<String>,
}

/// Tests whether a name is that of a question to a plugin. Such a name is no tool for models and for other plugins.
pub(crate) fn is_question(tool: &str) -> bool {
    tool.starts_with("tidemill:")
}

/// An agent strategy's name in a workflow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StrategyName<'a> {
    pub(crate) provider_id: &'a str,
    /// The plugin that the workflow names: `author/name:version`, with or without version and hash.
    pub(crate) plugin: Option<&'a str>,
    pub(crate) strategy: &'a str,
}

/// A message of an agent strategy.
#[derive(Debug)]
pub(crate) enum StrategyMessage {
    /// A message as tools have them.
    Tool(Message),
    /// A line of the agent's log.
    Log(Json),
    /// Passages with their sources.
    Resources(Json),
}
