//! Agent strategies of installed plugins. The plugin works as one call, recorded once in the journal: it asks this worker for
//! models and tools while it works.

mod given;
mod outcome;

use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::agent::{AgentData, Strategy, parameters};
use tidemill_common::value::{JsonMap, Segment, Variables};

use super::rounds::Unready;
use super::{Means, failed, not_ready};
use crate::attempt::executor::ThoughtSink;
use crate::attempt::journal::{EntryReport, EntryStart};
use crate::outside::plugins::{Asker, FoundStrategy, StrategyName};
use outcome::{Outcome, Telling};

/// The journal key of the invocation.
const CALL: &str = "call";

/// What runs a strategy.
pub(super) enum Chosen {
    Own(Strategy),
    Plugin(Box<FoundStrategy>),
}

/// Decides whether a plugin runs the strategy: if we do not have it, or if plugins are preferred and one has it.
///
/// # Errors
/// Neither we nor an installed plugin has it, or the plugin is not ready here.
pub(super) async fn choose(data: &AgentData, means: Means<'_>) -> Result<Chosen, Unready> {
    let plugins = means.tools.plugins();
    let is_preferred = plugins.is_some_and(|plugins| plugins.is_preferred);
    if let Some(strategy) = data.strategy.filter(|_| !is_preferred || means.auto_approved.is_some()) {
        return Ok(Chosen::Own(strategy));
    }
    let name = StrategyName {
        provider_id: &data.provider_name,
        plugin: data.plugin.as_deref(),
        strategy: &data.named,
    };
    let found = match plugins {
        Some(plugins) => plugins.strategy(name).await,
        None => Ok(None),
    };
    match (found, data.strategy) {
        (Ok(Some(found)), _) => Ok(Chosen::Plugin(Box::new(found))),
        // Another worker has it ready.
        (Err(error), Some(_)) if error.lacks.is_some() => Err(error.into()),
        // A version that lacks it is no reason to fail: ours has it.
        (Ok(None) | Err(_), Some(strategy)) => Ok(Chosen::Own(strategy)),
        (Ok(None), None) => Err(Unready::lasting(unknown(data))),
        (Err(error), None) => Err(error.into()),
    }
}

/// The reason for a strategy that nothing here has, with the command that installs its plugin.
fn unknown(data: &AgentData) -> String {
    let named = data.plugin.as_deref().unwrap_or(&data.provider_name);
    let named = named.split('@').next().unwrap_or_default();
    let plugin = named.split('/').take(2).collect::<Vec<_>>().join("/");
    let file = plugin.replace('/', "-").replace(':', "_");
    format!(
        "the agent strategy {} belongs to the plugin {plugin}, which is not installed: `tidemill plugins add {file}.difypkg`",
        data.named
    )
}

/// Runs the node.
pub(super) async fn run(
    found: &FoundStrategy,
    data: &AgentData,
    node: &Node,
    variables: &(dyn Variables + Send + Sync),
    means: Means<'_>,
    on_thought: ThoughtSink<'_>,
) -> NodeResult {
    let values = match parameters::values(data, variables) {
        Ok(values) => values,
        Err(failure) => return NodeResult::failed(failure),
    };
    let inputs = parameters::shown(&values).into_iter();
    let inputs = inputs.map(|(name, value)| (name, Segment::infer(value)));
    let result = NodeResult { inputs: inputs.collect(), ..NodeResult::default() };
    let journal = means.journal;
    let the_try = match journal.begin(CALL).await {
        EntryStart::Known(known) => match Outcome::read(&known) {
            Some(outcome) => {
                outcome.stream(means.on_piece);
                return outcome.result(result);
            }
            None => {
                let why = "the journal has a result that cannot be read; a newer version may have written it";
                return failed(result, "Failed to invoke agent", why);
            }
        },
        EntryStart::Try(the_try) => the_try,
    };
    let given = match given::parameters(found, data, &values, variables, means).await {
        Ok(given) => given,
        Err(given::Ungiven::Unready(unready)) => return not_ready(result, unready),
        Err(given::Ungiven::Failed(failure)) => return NodeResult { failure: Some(failure), ..result },
    };
    let Some(plugins) = means.tools.plugins() else {
        return failed(result, "Failed to invoke agent", "this worker runs no plugins");
    };
    tracing::debug!(node = %node.id, plugin = found.plugin(), strategy = data.named, "running an agent of a plugin");
    let mut telling = Telling::new(data, node, means, on_thought);
    let Means { run, http, files, .. } = means;
    let asker = Asker { run, http, files, journal: Some(journal), nested: 0 };
    let invoked = plugins.invoke_strategy(found, given, asker, &mut |message| telling.take(message)).await;
    let spent = match invoked {
        Ok(spent) => spent,
        Err(error) => {
            let metadata = telling.metadata(found);
            let result = NodeResult { metadata, ..result };
            let failed = failed(result, "Failed to invoke agent", &error.message);
            let failure = failed.failure.map(|failure| NodeFailure {
                retryable: error.retryable,
                retry_after_ms: error.retry_after_ms,
                lacks: error.lacks,
                ..failure
            });
            return NodeResult { failure, ..failed };
        }
    };
    match telling.end(found, spent).await {
        Ok(outcome) => {
            journal.record_large(CALL, the_try.number, outcome.to_json(), EntryReport::default()).await;
            outcome.result(result)
        }
        Err(failure) => NodeResult { failure: Some(failure), ..result },
    }
}

/// The metadata of the strategy.
fn info(data: &AgentData, plugin: &str) -> Json {
    json!({"icon": null, "agent_strategy": data.strategy_name(), "plugin": plugin})
}

/// An object, or an empty one.
fn map(value: &Json) -> JsonMap {
    value.as_object().cloned().unwrap_or_default()
}
