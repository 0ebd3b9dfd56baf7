//! The tools of one execution: their descriptions for the model, and their calls, each with a journal entry. A failing
//! call is a result; another module decides whether it fails the node.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::files::Files;
use tidemill_common::graph::Node;
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::nodes::agent::parameters::AgentTool;
use tidemill_common::nodes::agent::prompt;
use tidemill_common::nodes::llm::message::{ToolCall, ToolSpec};
use tidemill_common::nodes::llm::profile::{Calling, TOOL_ERROR};
use tidemill_common::nodes::tool::outputs::Collected;
use tidemill_common::nodes::tool::{KnownParameters, ProviderKind};
use tidemill_common::value::JsonMap;

use super::failed::Failed;
use super::tool_result::ToolResult;
use crate::attempt::journal::{ChargeSource, EntryReport, EntryStart, Journal, Try};
use crate::nodes::approval::{Approval, ApprovalRules};
use crate::nodes::tool::files;
use crate::outside::http::Http;
use crate::outside::tools::{Tool, ToolCall as Call, ToolError, ToolName, Tools};

/// The environment of tools.
#[derive(Clone, Copy)]
pub struct ToolAccess<'a> {
    pub tools: &'a Tools,
    /// The guarded client.
    pub http: &'a Http,
    pub files: &'a dyn Files,
    /// The run that owns the files.
    pub run: &'a RunId,
    /// The job's journal.
    pub journal: &'a Journal,
    /// Tools that need no approval; `None` if no tool needs one.
    pub auto_approved: Option<&'a [Arc<str>]>,
}

/// A tool that the model may call.
struct ReadyTool<'a> {
    given: &'a AgentTool,
    tool: Tool<'a>,
    spec: ToolSpec,
}

/// The tools of one execution.
pub(super) struct ToolSet<'a> {
    node: &'a Node,
    tool_access: ToolAccess<'a>,
    tools: Vec<ReadyTool<'a>>,
}

impl<'a> ToolSet<'a> {
    /// Finds the tools.
    pub(super) async fn new(
        given: &'a [AgentTool],
        node: &'a Node,
        tool_access: ToolAccess<'a>,
    ) -> Result<Self, Failed> {
        let mut found = Vec::with_capacity(given.len());
        for one in given {
            let name = ToolName {
                kind: one.kind,
                provider_id: &one.provider,
                provider_name: &one.provider,
                tool: &one.name,
                plugin: one.plugin.as_deref(),
            };
            let tool = tool_access.tools.find_for_model(name).await;
            let tool = tool.map_err(|error| {
                let message = format!("Tool with id '{}' not found: {error}", id_of(one));
                let ToolError { retryable, retry_after_ms, lacks, .. } = error;
                let failure = NodeFailure::new(TOOL_ERROR, message);
                Failed::from(NodeFailure { retryable, retry_after_ms, lacks, ..failure })
            })?;
            found.push(tool);
        }
        let warnings = tool_access.tools.at_run_time(&mut found, tool_access.run).await;
        warnings.into_iter().for_each(|warning| tool_access.journal.warn(warning));
        let ready = given.iter().zip(found).map(|(one, tool)| {
            let spec = prompt::spec(one, tool.declaration.as_ref());
            ReadyTool { given: one, tool, spec }
        });
        Ok(Self { node, tool_access, tools: ready.collect() })
    }

    /// The tool descriptions for the model.
    pub(super) fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|tool| tool.spec.clone()).collect()
    }

    /// Runs the calls of a reply, each with the journal key in its pair. The results are in the order of the calls. If
    /// failures fail the node, no call runs after a failed one.
    pub(super) async fn call_all(
        &self,
        batch: &str,
        calls: &[(String, ToolCall)],
        how: &Calling,
    ) -> (Vec<ToolResult>, Vec<String>) {
        // Asking for approval parks the job, so ask for all calls before the first one runs.
        let (mut approvals, mut instructions) = (Vec::with_capacity(calls.len()), Vec::new());
        for (step, call) in calls {
            let approval = self.approval(step, call).await;
            instructions.extend(approval.instruction.clone());
            approvals.push(approval);
        }
        let calls: Vec<_> = calls.iter().zip(&approvals).collect();
        // Calling a workflow parks the job, which would interrupt parallel calls.
        let waits = |call: &ToolCall| {
            self.find(&call.name).is_some_and(|tool| tool.given.kind == ProviderKind::Workflow)
        };
        if how.is_parallel && !calls.iter().any(|((_, call), _)| waits(call)) {
            let all = calls.iter().map(|((step, call), approval)| self.call(batch, step, call, approval));
            return (join_all(all).await, instructions);
        }
        let mut results = Vec::with_capacity(calls.len());
        for ((step, call), approval) in calls {
            results.push(self.call(batch, step, call, approval).await);
            if how.fails && results.last().is_some_and(|one| one.error.is_some()) {
                break;
            }
        }
        (results, instructions)
    }

    /// Asks for approval of a call, if the run requires it.
    async fn approval(&self, step: &str, call: &ToolCall) -> Approval {
        let Some(tool) = self.find(&call.name) else { return Approval::default() };
        let id = id_of(tool.given);
        let rules = ApprovalRules {
            journal: self.tool_access.journal,
            auto_approved: self.tool_access.auto_approved,
            node: self.node,
        };
        rules.approval(step, (&id, &tool.spec), call).await
    }

    fn find(&self, name: &str) -> Option<&ReadyTool<'a>> {
        self.tools.iter().find(|tool| tool.spec.name == name)
    }

    /// Makes a call, or takes its recorded result.
    async fn call(&self, batch: &str, step: &str, call: &ToolCall, approval: &Approval) -> ToolResult {
        let edited =
            approval.edited.as_ref().map(|edited| ToolCall { arguments: edited.to_string(), ..call.clone() });
        let call = edited.as_ref().unwrap_or(call);
        let the_try = match self.tool_access.journal.begin(step).await {
            EntryStart::Known(known) => return ToolResult::read(&known, call),
            EntryStart::Try(the_try) => the_try,
        };
        let clock = Instant::now();
        let tool = self.find(&call.name);
        let arguments = arguments(tool, call);
        // No worker held the job while the workflow ran, and its start was already reported.
        let is_workflow = tool.is_some_and(|tool| tool.given.kind == ProviderKind::Workflow);
        let is_told = is_workflow && self.tool_access.journal.has_called(step, the_try.number).await;
        let shown = arguments.as_ref().map_or_else(|_| call.arguments.as_str().into(), |map| json!(map));
        let about = self.about(batch, call, tool, &shown);
        if !is_told && approval.refused.is_none() {
            self.tool_access.journal.emit(vec![(StepEvent::ToolCallStarted, about.clone())]);
        }
        let (mut result, spent) = match (tool, arguments) {
            _ if approval.refused.is_some() => {
                (ToolResult::refused(approval.refused.as_deref().unwrap_or_default()), None)
            }
            (Some(tool), Ok(arguments)) => self.invoke(tool, &arguments, step, &the_try).await,
            (None, _) => {
                (ToolResult::failed("ToolNotFound", format!("Tool with id '{}' not found", call.name)), None)
            }
            (Some(_), Err(message)) => (ToolResult::failed("PARSE_ERROR", message), None),
        };
        result.id = call.id.clone();
        result.name = call.name.clone();
        result.arguments = shown;
        result.seconds = (clock.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
        result.possible_duplicate = the_try.possible_duplicate;
        let events = vec![result.event(about)];
        let report = EntryReport { events, charge: spent };
        self.tool_access.journal.record_large(step, the_try.number, result.to_json(), report).await;
        result
    }

    fn about(&self, batch: &str, call: &ToolCall, tool: Option<&ReadyTool<'_>>, arguments: &Json) -> JsonMap {
        let report = json!({
            "node_id": self.node.id.as_str(),
            "tool_id": tool.map_or_else(|| call.name.clone(), |tool| id_of(tool.given)),
            "tool_name": call.name,
            "tool_call_id": call.id,
            "task_id": self.tool_access.run,
            "batch_id": batch,
            "arguments": arguments,
        });
        report.as_object().cloned().unwrap_or_default()
    }

    async fn invoke(
        &self,
        tool: &ReadyTool<'_>,
        arguments: &JsonMap,
        step: &str,
        the_try: &Try,
    ) -> (ToolResult, Option<(tidemill_common::nodes::Usage, ChargeSource)>) {
        let (mut words, mut collected) = (String::new(), Collected::default());
        let mut wrong = None;
        let mut sink = |message| {
            if let Some(said) = prompt::words(&message) {
                words.push_str(&said);
            }
            if let Err(failure) = collected.take(message) {
                wrong.get_or_insert(failure.message);
            }
        };
        let ToolAccess { run, http, files: place, journal, auto_approved, .. } = self.tool_access;
        let call = Call {
            arguments,
            run,
            http,
            files: place,
            idempotency_key: &the_try.idempotency_key,
            sends_key: self.node.settings.idempotency_key,
            step: Some((journal, step, the_try.number)),
            known: tool.tool.known().unwrap_or(KnownParameters::NOTHING),
            nested: 0,
            auto_approved,
        };
        let invoked = tool.tool.invoke(call, &mut sink).await;
        let spent = collected.spent.take().filter(|(usage, _)| usage.is_any());
        let charge = spent.map(|(usage, by)| (usage, ChargeSource::of_tool(by)));
        if let Some(error) = invoked.err().map(|error| error.to_string()).or(wrong) {
            return (ToolResult::failed("ToolError", error), charge);
        }
        let pending = std::mem::take(&mut collected.files);
        let result = match files::kept(pending, run, http, place).await {
            Ok(files) => ToolResult { files, ..ToolResult::succeeded(words) },
            Err(failure) => ToolResult::failed("ToolError", failure.message),
        };
        (result, charge)
    }
}

/// The tool's id, `provider/tool`.
fn id_of(tool: &AgentTool) -> String {
    format!("{}/{}", tool.provider, tool.name)
}

/// The arguments converted to the tool's types, or the reason they are invalid.
fn arguments(tool: Option<&ReadyTool<'_>>, call: &ToolCall) -> Result<JsonMap, String> {
    let Some(tool) = tool else { return Ok(JsonMap::new()) };
    prompt::arguments(tool.given, &call.arguments).and_then(|arguments| tool.tool.cast(arguments))
}
