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

use super::rounds::{FIRST_CALL, Unready};
use super::{Means, failed, not_ready};
use crate::attempt::executor::ThoughtSink;
use crate::attempt::journal::{EntryReport, EntryStart, Journal, Try};
use crate::outside::plugins::{Asker, FoundStrategy, StrategyName};
use outcome::{Outcome, Telling};

/// The journal key of the invocation.
const CALL: &str = "call";
/// The journal key of the choice between our strategy and a plugin's: the first entry, which a later worker follows.
const CHOICE: &str = "strategy";
/// The choice of ours. Any other names the plugin.
const OWN: &str = "own";

/// What runs a strategy.
pub(super) enum Chosen {
    Own(Strategy),
    Plugin(Box<FoundStrategy>),
    /// An earlier worker has recorded the end of the plugin's invocation.
    Ended(Json),
}

/// Decides whether a plugin runs the strategy: if we do not have it, or if plugins are preferred and one has it. Once a worker
/// has begun, its choice stays.
///
/// # Errors
/// Neither we nor an installed plugin has it, or the plugin is not ready here.
pub(super) async fn choose(data: &AgentData, means: Means<'_>) -> Result<Chosen, Unready> {
    let (journal, plugins) = (means.journal, means.tools.plugins());
    let is_preferred = plugins.is_some_and(|plugins| plugins.is_preferred);
    let is_continued = journal.may_have_entries();
    let Some(own) = data.strategy else {
        if let Some(known) = ended(journal, is_continued).await {
            return Ok(Chosen::Ended(known));
        }
        return match find(data, means, true).await {
            Ok(Some(found)) => Ok(Chosen::Plugin(Box::new(found))),
            Ok(None) => Err(Unready::lasting(unknown(data))),
            Err(unready) => Err(unready),
        };
    };
    if means.auto_approved.is_some() || !is_preferred && !is_continued {
        return Ok(Chosen::Own(own));
    }
    let begun = match journal.begin(CHOICE).await {
        EntryStart::Known(by) if by == OWN => return Ok(Chosen::Own(own)),
        EntryStart::Known(_) => {
            if let Some(known) = ended(journal, is_continued).await {
                return Ok(Chosen::Ended(known));
            }
            None
        }
        EntryStart::Try(the_try) => Some(the_try),
    };
    let is_own = match &begun {
        None => false,
        Some(_) if !is_preferred => true,
        // An earlier worker that prefers its own strategy has not recorded that.
        Some(the_try) => is_continued && is_new(the_try) && has_rounds(journal).await,
    };
    let found = if is_own { Ok(None) } else { find(data, means, false).await };
    let chosen = match found {
        Ok(Some(found)) => Chosen::Plugin(Box::new(found)),
        // Another worker has it ready.
        Err(unready) if unready.lacks.is_some() => return Err(unready),
        // A version that lacks it is no reason to fail: ours has it.
        Ok(None) | Err(_) => Chosen::Own(own),
    };
    if let Some(the_try) = begun {
        let by = match &chosen {
            Chosen::Plugin(found) => json!(found.plugin()),
            Chosen::Own(_) | Chosen::Ended(_) => json!(OWN),
        };
        journal.record(CHOICE, the_try.number, &by, EntryReport::default()).await;
    }
    Ok(chosen)
}

fn is_new(the_try: &Try) -> bool {
    !the_try.was_begun && the_try.number == 1
}

/// Tests whether an earlier worker has begun our strategy.
async fn has_rounds(journal: &Journal) -> bool {
    match journal.begin(FIRST_CALL).await {
        EntryStart::Known(_) => true,
        EntryStart::Try(the_try) if is_new(&the_try) => {
            journal.set_aside().await;
            false
        }
        EntryStart::Try(_) => true,
    }
}

/// The recorded end of an invocation.
async fn ended(journal: &Journal, is_continued: bool) -> Option<Json> {
    if !is_continued {
        return None;
    }
    match journal.begin(CALL).await {
        EntryStart::Known(known) => Some(known),
        EntryStart::Try(_) => {
            journal.set_aside().await;
            None
        }
    }
}

async fn find(
    data: &AgentData,
    means: Means<'_>,
    looks_again: bool,
) -> Result<Option<FoundStrategy>, Unready> {
    let Some(plugins) = means.tools.plugins() else { return Ok(None) };
    let name = StrategyName {
        provider_id: &data.provider_name,
        plugin: data.plugin.as_deref(),
        strategy: &data.named,
    };
    Ok(plugins.strategy(name, looks_again).await?)
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

/// Returns the recorded end of an invocation as the node's result.
pub(super) fn recalled(
    known: &Json,
    data: &AgentData,
    variables: &(dyn Variables + Send + Sync),
    means: Means<'_>,
) -> NodeResult {
    // The invocation has ended, so what cannot be shown is no failure.
    let values = parameters::values(data, variables).unwrap_or_default();
    outcome_of(known, with_inputs(&values), means)
}

fn with_inputs(values: &JsonMap) -> NodeResult {
    let inputs = parameters::shown(values).into_iter();
    let inputs = inputs.map(|(name, value)| (name, Segment::infer(value)));
    NodeResult { inputs: inputs.collect(), ..NodeResult::default() }
}

fn outcome_of(known: &Json, result: NodeResult, means: Means<'_>) -> NodeResult {
    let Some(outcome) = Outcome::read(known) else {
        let why = "the journal has a result that cannot be read; a newer version may have written it";
        return failed(result, "Failed to invoke agent", why);
    };
    outcome.stream(means.on_piece);
    outcome.result(result)
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
    let result = with_inputs(&values);
    let journal = means.journal;
    // Before the invocation begins: another worker may have what this one lacks.
    let (given, tools) = match given::parameters(found, data, &values, variables, means).await {
        Ok(given) => given,
        Err(given::Ungiven::Unready(unready)) => return not_ready(result, unready),
        Err(given::Ungiven::Failed(failure)) => return NodeResult { failure: Some(failure), ..result },
    };
    let the_try = match journal.begin(CALL).await {
        EntryStart::Known(known) => return outcome_of(&known, result, means),
        EntryStart::Try(the_try) => the_try,
    };
    let Some(plugins) = means.tools.plugins() else {
        return failed(result, "Failed to invoke agent", "this worker runs no plugins");
    };
    tracing::debug!(node = %node.id, plugin = found.plugin(), strategy = data.named, "running an agent of a plugin");
    let mut telling = Telling::new(data, node, means, on_thought);
    let Means { run, http, files, auto_approved, .. } = means;
    let asker = Asker { run, http, files, journal: Some(journal), nested: 0, auto_approved, given: &tools };
    let (mut say, mut spent) = (|message| telling.take(message), None);
    if let Err(error) = plugins.invoke_strategy(found, given, asker, &mut say, &mut spent).await {
        let metadata = telling.metadata(found);
        let result = NodeResult { metadata, usage: spent, ..result };
        let failed = failed(result, "Failed to invoke agent", &error.message);
        let failure = failed.failure.map(|failure| NodeFailure {
            retryable: error.retryable,
            retry_after_ms: error.retry_after_ms,
            lacks: error.lacks,
            ..failure
        });
        return NodeResult { failure, ..failed };
    }
    match telling.end(found, spent.clone()).await {
        Ok(outcome) => {
            journal.record_large(CALL, the_try.number, outcome.to_json(), EntryReport::default()).await;
            outcome.result(result)
        }
        Err(failure) => NodeResult { failure: Some(failure), usage: spent, ..result },
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
