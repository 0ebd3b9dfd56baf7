//! A host without plugins, for systems where they cannot be confined.

use std::future::pending;
use std::sync::Arc;

use tidemill_common::config::Config;
use tidemill_common::dsl::SealingKey;
use tidemill_common::files::Files;
use tidemill_common::ids::RunId;
use tidemill_common::nodes::Usage;
use tidemill_common::nodes::tool::Declaration;
use tidemill_common::store::Jobs;
use tidemill_common::value::JsonMap;
use tidemill_common::wire::worker::PluginAbility;
use tidemill_plugins::package::Strategy;
use tokio::sync::watch;

use super::{FoundModel, FoundTool, GivenTool, StrategyMessage, StrategyName, WantedModel};
use crate::attempt::journal::Journal;
use crate::jobs::shared::Core;
use crate::outside::http::Http;
use crate::outside::providers::ModelError;
use crate::outside::tools::{MessageSink, ToolCall, ToolError, ToolName, ToolRuntime};

/// See the module.
pub(crate) struct PluginHost {
    changes: watch::Sender<u64>,
    pub(crate) is_preferred: bool,
}

/// The run and the node that an invocation works for.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) run: &'a RunId,
    pub(crate) http: &'a Http,
    pub(crate) files: &'a dyn Files,
    pub(crate) journal: Option<&'a Journal>,
    pub(crate) nested: u32,
    pub(crate) auto_approved: Option<&'a [Arc<str>]>,
    pub(crate) given: &'a [GivenTool],
}

/// There is none.
pub(crate) struct FoundStrategy {
    pub(crate) strategy: Strategy,
}

impl FoundStrategy {
    pub(crate) fn plugin(&self) -> String {
        String::new()
    }
}

impl PluginHost {
    pub(crate) fn new(_: &Config, _: Arc<dyn Jobs>, _: Arc<Http>, _: Option<SealingKey>, _: &str) -> Self {
        Self { changes: watch::Sender::new(0), is_preferred: false }
    }

    pub(crate) fn connect(&self, _: &Arc<Core>) {}

    pub(crate) async fn strategy(
        &self,
        _: StrategyName<'_>,
        _: bool,
    ) -> Result<Option<FoundStrategy>, ToolError> {
        Ok(None)
    }

    pub(crate) async fn invoke_strategy(
        &self,
        _: &FoundStrategy,
        _: JsonMap,
        _: Asker<'_>,
        _: &mut (dyn FnMut(StrategyMessage) + Send),
        _: &mut Option<Usage>,
    ) -> Result<(), ToolError> {
        Err(ToolError::unavailable("plugins run only on Linux"))
    }

    pub(crate) fn abilities(&self) -> Vec<PluginAbility> {
        Vec::new()
    }

    pub(crate) async fn find(&self, _: &ToolName<'_>, _: bool) -> Result<Option<FoundTool>, ToolError> {
        Ok(None)
    }

    pub(crate) async fn at_run_time(
        &self,
        _: &ToolName<'_>,
        _: &RunId,
    ) -> Result<Option<Declaration>, ToolError> {
        Ok(None)
    }

    pub(crate) async fn find_model(
        self: &Arc<Self>,
        _: WantedModel<'_>,
    ) -> Result<Option<FoundModel>, ModelError> {
        Ok(None)
    }

    pub(crate) async fn keep(&self) {
        pending::<()>().await;
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) async fn stop(&self) {}
}

#[async_trait::async_trait]
impl ToolRuntime for PluginHost {
    async fn parameters(&self, _: &ToolName<'_>) -> Result<Option<Declaration>, ToolError> {
        Ok(None)
    }

    async fn list(&self, _: &str) -> Result<Vec<Declaration>, ToolError> {
        Ok(Vec::new())
    }

    async fn invoke(&self, _: &ToolName<'_>, _: ToolCall<'_>, _: MessageSink<'_>) -> Result<(), ToolError> {
        Err(ToolError::unavailable("plugins run only on Linux"))
    }
}
