//! Dify plugins on this worker. [`host`] knows which are installed for all workers and which of them are ready here;
//! [`keeper`] prepares them in the background; [`cleaner`] removes what none of them uses any more; [`ready`] waits for the one that a tool needs; [`run`] finds and calls their tools, with [`credentials`], and [`questions`] asks about them; [`files`] hands
//! files of a run to a plugin; [`models`] finds and calls their models.
//!
//! Plugins run only on Linux, because only there they are confined. Elsewhere this worker has none ([`elsewhere`]).

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

use std::sync::Arc;

use tidemill_common::nodes::tool::Declaration;
use tidemill_plugins::package::Facts;

use crate::outside::providers::ModelProvider;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::PluginHost;
#[cfg(target_os = "linux")]
pub(crate) use host::PluginHost;
#[cfg(target_os = "linux")]
pub(crate) use models::{CallFailure, ServedModels};

/// A tool of a plugin that is ready on this worker.
#[derive(Debug)]
pub(crate) struct FoundTool {
    /// The plugin: `author/name:version`.
    pub(crate) plugin: String,
    pub(crate) declaration: Declaration,
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
