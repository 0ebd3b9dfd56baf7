//! The `tool` node: finds the tool, builds its arguments, calls it once, and reads its messages. `tidemill-common`
//! builds arguments and outputs; [`crate::outside::tools`] finds and calls tools.
//!
//! The call has a journal entry, so a job that is delivered again does not repeat it.

pub(in crate::nodes) mod files;
mod record;

use tidemill_common::failure::NodeFailure;
use tidemill_common::files::Files;
use tidemill_common::graph::Node;
use tidemill_common::ids::RunId;
use tidemill_common::nodes::llm::usage;
use tidemill_common::nodes::step::Secrets;
use tidemill_common::nodes::tool::outputs::Collected;
use tidemill_common::nodes::tool::{KnownParameters, Message, ProviderKind, ToolData, parameters};
use tidemill_common::nodes::{NodeResult, Usage};
use tidemill_common::value::{JsonMap, Lookup, Segment, Variables};

use crate::attempt::executor::PieceSink;
use crate::attempt::journal::{ChargeSource, EntryReport, EntryStart, Journal, Try};
use crate::outside::calls::run::{INPUT, STEP_NODE};
use crate::outside::http::Http;
use crate::outside::tools::{Stage, Tool, ToolCall, ToolError, ToolName, Tools};
use record::Recorded;

/// The journal key of the call.
const CALL: &str = "call";

/// The node's access to the worker.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    pub tools: &'a Tools,
    /// The guarded client.
    pub http: &'a Http,
    pub files: &'a dyn Files,
    /// The run that owns the files.
    pub run: &'a RunId,
    /// The job's journal; `None` if nothing is recorded.
    pub journal: Option<&'a Journal>,
    /// Receives pieces of outputs as they arrive.
    pub on_piece: PieceSink<'a>,
}

/// Runs the node. A failure is part of the result, with the arguments if they were built. All variables the node
/// mentions must be loaded. Dropping the future stops the call.
pub async fn run(
    data: &ToolData,
    node: &Node,
    variables: &(dyn Variables + Send + Sync),
    means: Means<'_>,
) -> NodeResult {
    let result = NodeResult { metadata: data.metadata(), ..NodeResult::default() };
    let failed =
        |result, error: ToolError| NodeResult { failure: Some(error.failure(&data.provider_name)), ..result };
    let name = ToolName {
        kind: data.provider_type,
        provider_id: &data.provider_id,
        provider_name: &data.provider_name,
        tool: &data.tool_name,
        plugin: data.plugin_unique_identifier.as_deref(),
    };
    let tool = match means.tools.find(name).await {
        Ok(tool) => tool,
        Err(error) => match known(means).await {
            // The call has ended before, so nothing has to be found again.
            Some(recorded) => {
                let metadata = metadata(data, name, recorded.plugin.as_deref());
                let noted = data.declared.as_deref().map_or(KnownParameters::NOTHING, KnownParameters::just);
                let filled = parameters::filled(data, noted, variables);
                let inputs = filled.map(|filled| filled.shown).unwrap_or_default();
                let result = charged(NodeResult { inputs, metadata, ..result }, recorded.usage);
                return NodeResult { outputs: recorded.outputs, ..result };
            }
            None => return failed(result, error),
        },
    };
    // The record names the provider that was found.
    let result = NodeResult { metadata: metadata(data, tool.name, tool.plugin.as_deref()), ..result };
    let noted = data.declared.as_deref().map(KnownParameters::just);
    let declared = match tool.name.kind {
        // The called workflow's start form checks the values itself.
        ProviderKind::Workflow => noted,
        _ => tool.known().or(noted),
    };
    let declared = declared.unwrap_or(KnownParameters::NOTHING);
    let configured = match parameters::configured(data, declared, variables) {
        Ok(configured) => configured,
        Err(message) => return failed(result, ToolError::unavailable(message)),
    };
    let found = node.work.is_some().then(|| looked_for(data, variables)).flatten();
    let filled = match found.map_or_else(|| parameters::filled(data, declared, variables), Ok) {
        Ok(filled) => filled,
        // A failure that escapes a node in Dify has no record.
        Err(failure) => return NodeResult::failed(failure),
    };
    let result = NodeResult { inputs: filled.shown, ..result };
    let arguments = match parameters::arguments(filled.values, configured, declared) {
        Ok(arguments) => arguments,
        Err(message) => return failed(result, ToolError::new(Stage::Invoke, message)),
    };
    tracing::debug!(node = %node.id, provider = %data.provider_id, tool = %data.tool_name, "calling a tool");
    match call(&tool, &arguments, declared, node, means).await {
        (Ok(recorded), _) => {
            // A recorded call may have had another version.
            let result = match &recorded.plugin {
                Some(plugin) => NodeResult { metadata: metadata(data, tool.name, Some(plugin)), ..result },
                None => result,
            };
            let result = charged(result, recorded.usage);
            NodeResult { outputs: recorded.outputs, ..result }
        }
        (Err(Broken::Tool(error)), usage) => failed(charged_in_vain(result, usage), error),
        (Err(Broken::Node(failure)), usage) => {
            NodeResult { failure: Some(failure), ..charged_in_vain(result, usage) }
        }
    }
}

/// The metadata with the provider, and the plugin in the version that ran, which may be another than the file's.
fn metadata(data: &ToolData, name: ToolName<'_>, plugin: Option<&str>) -> JsonMap {
    let mut metadata = data.metadata_of(name.kind, name.provider_id);
    if let (Some(plugin), Some(info)) = (plugin, metadata.get_mut("tool_info")) {
        info["plugin"] = plugin.into();
    }
    metadata
}

/// The recorded result of the call, if it has ended before.
async fn known(means: Means<'_>) -> Option<Recorded> {
    let journal = means.journal.filter(|journal| journal.may_have_entries())?;
    let EntryStart::Known(result) = journal.begin(CALL).await else { return None };
    let recorded = Recorded::from_json(&result)?;
    recorded.stream(means.on_piece);
    Some(recorded)
}

/// The parameters with the missing ones filled by an earlier stage, if that ran.
fn looked_for(data: &ToolData, variables: &dyn Variables) -> Option<parameters::Filled> {
    let found = variables.found(&[STEP_NODE.to_owned(), INPUT.to_owned()])?;
    let values = found.value.as_object()?.clone();
    let (mut mentioned, mut secrets) = (Vec::new(), Secrets::default());
    data.mentions(&mut mentioned);
    for (node, name) in &mentioned {
        if let Lookup::Found(segment) = variables.variable(node, name) {
            secrets.note(&segment);
        }
    }
    let shown =
        values.iter().map(|(name, value)| (name.clone(), Segment::infer(secrets.masked_value(value))));
    Some(parameters::Filled { shown: shown.collect(), values })
}

/// Calls something else than a tool of a tool node, and returns its outputs; a recorded result is taken.
pub(in crate::nodes) async fn called(
    tool: &Tool<'_>,
    arguments: &JsonMap,
    node: &Node,
    means: Means<'_>,
) -> Result<Vec<(String, Segment)>, NodeFailure> {
    let declared = tool.known().unwrap_or(KnownParameters::NOTHING);
    match call(tool, arguments, declared, node, means).await.0 {
        Ok(recorded) => Ok(recorded.outputs),
        Err(Broken::Tool(error)) => Err(super::datasource::failure(error)),
        Err(Broken::Node(failure)) => Err(failure),
    }
}

/// The outputs of a call that has ended before.
pub(in crate::nodes) async fn recalled(means: Means<'_>) -> Option<Vec<(String, Segment)>> {
    known(means).await.map(|recorded| recorded.outputs)
}

/// Adds the cost to the result. A call without tokens is not reported, as in Dify.
fn charged(mut result: NodeResult, usage: Option<Usage>) -> NodeResult {
    if let Some(usage) = usage.filter(|usage| usage.total_tokens > 0) {
        result.metadata.extend(usage::metadata(&usage));
        result.usage = Some(usage);
    }
    result
}

/// As [`charged`], for a failed call, which is not recorded: also reports tokens that a sub-workflow run wasted.
fn charged_in_vain(result: NodeResult, usage: Option<Usage>) -> NodeResult {
    let reported = usage.clone().filter(Usage::is_any);
    let result = charged(result, usage);
    NodeResult { usage: result.usage.or(reported), ..result }
}

/// Reasons for a call without outputs.
enum Broken {
    Tool(ToolError),
    Node(NodeFailure),
}

/// Calls the tool, or takes the recorded result. Also returns the cost of a failed call.
async fn call(
    tool: &Tool<'_>,
    arguments: &JsonMap,
    declared: KnownParameters<'_>,
    node: &Node,
    means: Means<'_>,
) -> (Result<Recorded, Broken>, Option<Usage>) {
    let mut spent = None;
    let called = call_or_recall(tool, arguments, declared, node, means, &mut spent).await;
    (called, spent.map(|(usage, _)| usage))
}

/// The cost of a call, and the run that spent it.
type Spent = Option<(Usage, Option<RunId>)>;

async fn call_or_recall(
    tool: &Tool<'_>,
    arguments: &JsonMap,
    declared: KnownParameters<'_>,
    node: &Node,
    means: Means<'_>,
    spent: &mut Spent,
) -> Result<Recorded, Broken> {
    let Some(journal) = means.journal else {
        let alone = Try::alone(CALL);
        return call_once(tool, arguments, declared, node, means, &alone, spent).await;
    };
    let the_try = match journal.begin(CALL).await {
        EntryStart::Known(known) => match Recorded::from_json(&known) {
            Some(recorded) => {
                recorded.stream(means.on_piece);
                return Ok(recorded);
            }
            None => match journal.retry(CALL).await {
                EntryStart::Try(the_try) => the_try,
                EntryStart::Known(_) => {
                    let message = "the journal has a result of this call that cannot be read; a newer version may have written it";
                    return Err(Broken::Tool(ToolError::new(Stage::Read, message)));
                }
            },
        },
        EntryStart::Try(the_try) => the_try,
    };
    let recorded = call_once(tool, arguments, declared, node, means, &the_try, spent).await?;
    let charge = spent.clone().map(|(usage, run)| (usage, ChargeSource::of_tool(run)));
    let charge = charge.filter(|(usage, _)| usage.is_any());
    let reported = EntryReport { charge, ..EntryReport::default() };
    journal.record_large(CALL, the_try.number, recorded.to_json(), reported).await;
    Ok(recorded)
}

async fn call_once(
    tool: &Tool<'_>,
    arguments: &JsonMap,
    declared: KnownParameters<'_>,
    node: &Node,
    means: Means<'_>,
    the_try: &Try,
    spent: &mut Spent,
) -> Result<Recorded, Broken> {
    let call = ToolCall {
        arguments,
        run: means.run,
        http: means.http,
        files: means.files,
        idempotency_key: &the_try.idempotency_key,
        sends_key: node.settings.idempotency_key,
        step: means.journal.map(|journal| (journal, CALL, the_try.number)),
        known: declared,
        nested: 0,
        // The author has placed the call.
        auto_approved: None,
    };
    let (mut collected, mut streamed, mut failure) = (Collected::default(), Vec::new(), None);
    let mut sink = |message: Message| {
        if failure.is_some() {
            return;
        }
        match collected.take(message) {
            Ok(None) => {}
            Ok(Some((output, piece))) => {
                (means.on_piece)(&output, &piece);
                if !streamed.contains(&output) {
                    streamed.push(output);
                }
            }
            Err(wrong) => failure = Some(wrong),
        }
    };
    let invoked = tool.invoke(call, &mut sink).await;
    spent.clone_from(&collected.spent);
    let charged = collected.charged.take();
    if let Some(failure) = failure {
        return Err(Broken::Node(failure));
    }
    invoked.map_err(Broken::Tool)?;
    collected.end().map_err(Broken::Node)?;
    let files = files::kept(std::mem::take(&mut collected.files), means.run, means.http, means.files)
        .await
        .map_err(Broken::Node)?;
    // As in Dify, readers of a tool's variable receive its end, even if it was not streamed.
    for name in collected.variable_names() {
        (means.on_piece)(name, "");
    }
    let usage = both(spent.as_ref().map(|(usage, _)| usage.clone()), charged);
    let plugin = tool.plugin.clone();
    Ok(Recorded { outputs: collected.outputs(files), streamed, usage, plugin })
}

/// The cost of a call with that of the calls within it.
fn both(spent: Option<Usage>, charged: Option<Usage>) -> Option<Usage> {
    match (spent, charged) {
        (Some(spent), Some(charged)) => Some(usage::sum(&spent, &charged)),
        (spent, charged) => spent.or(charged),
    }
}

#[cfg(test)]
mod tests;
