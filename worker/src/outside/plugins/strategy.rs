//! Finds and invokes agent strategies of plugins.

use std::sync::Arc;

use tidemill_common::nodes::Usage;
use tidemill_common::registry::plugin_strategies::choose_strategy;
use tidemill_common::registry::plugins::{InstalledPlugin, PluginName};
use tidemill_common::value::JsonMap;
use tidemill_plugins::agent::AgentCall;
use tidemill_plugins::install::Installed;
use tidemill_plugins::package::{Strategy, StrategyProvider};
use tidemill_plugins::tool;
use tidemill_plugins::tool::message::Message as Said;
use tokio::time::Instant;

use super::answers::{Answering, Asker};
use super::host::PluginHost;
use super::run::{failure, message, origin, pause};
use super::{StrategyMessage, StrategyName, files};
use crate::outside::tools::{Stage, ToolError};

/// An agent strategy of a plugin that is ready on this worker.
pub(crate) struct FoundStrategy {
    installed: Arc<Installed>,
    provider: String,
    pub(crate) strategy: Strategy,
}

impl FoundStrategy {
    /// The plugin: `author/name:version`.
    pub(crate) fn plugin(&self) -> String {
        self.installed.package.id()
    }
}

impl PluginHost {
    /// Finds an agent strategy of an installed plugin, and waits until the plugin is ready; `None` if the name is that of no
    /// installed plugin. `looks_again` reads the catalog now if no plugin is known to have it.
    ///
    /// # Errors
    /// The plugin is not ready on this worker, or has no such strategy.
    pub(crate) async fn strategy(
        &self,
        name: StrategyName<'_>,
        looks_again: bool,
    ) -> Result<Option<FoundStrategy>, ToolError> {
        let Some(named) = PluginName::of(name.plugin, name.provider_id) else { return Ok(None) };
        let Some(plugin) = self.chosen_strategy(&named, name.strategy, looks_again).await? else {
            return Ok(None);
        };
        let Some(installed) = self.prepared(&plugin, false).await? else { return Ok(None) };
        let found = find(&installed.package.providers.agent_strategies, named.provider, name.strategy);
        let Some((provider, strategy)) = found else {
            let message = format!("the plugin {} has no agent strategy {}", plugin.id(), name.strategy);
            return Err(ToolError::unavailable(message));
        };
        Ok(Some(FoundStrategy { provider, strategy, installed }))
    }

    async fn chosen_strategy(
        &self,
        named: &PluginName<'_>,
        strategy: &str,
        looks_again: bool,
    ) -> Result<Option<InstalledPlugin>, ToolError> {
        // The second look is for one that was installed just now.
        let mut chosen = Ok(None);
        for newest in [false, true].into_iter().take(1 + usize::from(looks_again)) {
            let listed = self.listed(newest).await.unwrap_or_default();
            chosen = choose_strategy(&listed.plugins, named, strategy).map(Option::<&_>::cloned);
            if let Ok(Some(found)) = chosen {
                return Ok(Some(found));
            }
        }
        chosen.map_err(ToolError::unavailable)
    }

    /// Invokes a strategy. Messages go to `say` as they come. `spent` gets the cost of what it has asked for, which is charged
    /// already, also if it fails. Dropping the future ends the invocation.
    ///
    /// # Errors
    /// The failure and its stage.
    pub(crate) async fn invoke_strategy(
        &self,
        found: &FoundStrategy,
        parameters: JsonMap,
        asker: Asker<'_>,
        say: &mut (dyn FnMut(StrategyMessage) + Send),
        spent: &mut Option<Usage>,
    ) -> Result<(), ToolError> {
        let processes = self.processes.as_ref().map_err(|reason| ToolError::unavailable(*reason))?;
        let owner = self.owner_of(*asker.run).await?;
        let (answering, questions) = Answering::new(self, &found.installed, asker);
        let (parameters, offered) = files::offered(parameters, asker).await?;
        let invocation = AgentCall {
            plugins: processes,
            installed: &found.installed,
            provider: &found.provider,
            strategy: &found.strategy.name,
            user: owner.user.clone(),
            owner: format!("{} ", owner.app.as_deref().unwrap_or_default()),
            answers: answering.answers(),
            offered: answering.offering(offered),
            origin: origin(asker),
        };
        let failed = |error| failure(processes, error);
        let work = async {
            let until = Instant::now() + processes.limits().session_timeout;
            let mut results = loop {
                let begun = invocation.invoke(&parameters).await.map_err(tool::ToolError::from);
                match pause(begun, until).map_err(failed)? {
                    Ok(results) => break results,
                    Err(wait) => tokio::time::sleep(wait).await,
                }
            };
            while let Some(said) = results.next().await.map_err(failed)? {
                say(match said {
                    Said::Log(log) => StrategyMessage::Log(log),
                    Said::RetrieverResources(resources) => StrategyMessage::Resources(resources),
                    other => {
                        let message = message(other);
                        StrategyMessage::Tool(
                            message.map_err(|reason| ToolError::new(Stage::Message, reason))?,
                        )
                    }
                });
            }
            Ok(())
        };
        let ended = answering.during(questions, work).await;
        *spent = answering.spent();
        ended
    }
}

/// The strategy in a package, with the name of its provider.
fn find(
    providers: &[StrategyProvider],
    provider: Option<&str>,
    strategy: &str,
) -> Option<(String, Strategy)> {
    let fitting = providers.iter().filter(|it| provider.is_none_or(|name| name == it.name));
    let mut all =
        fitting.flat_map(|it| it.strategies.iter().map(move |strategy| (it.name.clone(), strategy)));
    let (provider, strategy) = all.find(|(_, it)| it.name == strategy)?;
    Some((provider, strategy.clone()))
}
