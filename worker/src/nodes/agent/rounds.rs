//! The parts shared by both strategies: the model, the tools, the log, and the two kinds of journal entries of a round
//! (model calls and tool calls).

use std::time::Instant;

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::need::Need;
use tidemill_common::nodes::agent::log::{AgentLog, Logs, TextBudget};
use tidemill_common::nodes::agent::parameters::{AgentParameters, AgentTool};
use tidemill_common::nodes::agent::prompt;
use tidemill_common::nodes::llm::ReasoningFormat;
use tidemill_common::nodes::llm::message::{Message, ModelFacts, ToolCall, ToolSpec};
use tidemill_common::nodes::llm::params::{self, Params};
use tidemill_common::nodes::llm::tokens;
use tidemill_common::nodes::llm::usage::{self, Timing, Tokens};
use tidemill_common::nodes::tool::outputs::Collected;
use tidemill_common::nodes::tool::{KnownParameters, ProviderKind};
use tidemill_common::nodes::{Usage, Wasted};
use tidemill_common::value::{JsonMap, Segment, SegmentType, Variables};

use super::Means;
use super::reply::RoundReply;
use super::servers::Offering;
use super::text_stream::TextStream;
use crate::attempt::executor::ThoughtSink;
use crate::attempt::journal::{
    ChargeSource, EntryReport, EntryStart, POSSIBLE_DUPLICATE, ToolEntryKeys, Try,
};
use crate::jobs::shared::now;
use crate::nodes::approval::{Approval, ApprovalRules};
use crate::nodes::llm::{bill, lost};
use crate::nodes::model_files::{FileStore, LinkedText, store_files};
use crate::nodes::tool::files;
use crate::outside::providers::profile::ModelKind;
use crate::outside::providers::{Model, ModelError, ModelReply, Question};
use crate::outside::tools::workflow::unknown_app;
use crate::outside::tools::{Tool, ToolCall as Call, ToolError, ToolName};

/// The journal key of the first call of the model.
pub(super) const FIRST_CALL: &str = "llm:1";

/// A tool that the model may call.
struct ReadyTool<'a> {
    /// The tool as configured by the author.
    given: AgentTool,
    tool: Tool<'a>,
    spec: ToolSpec,
}

/// The rounds of one execution.
pub(super) struct Rounds<'a> {
    node: &'a Node,
    means: Means<'a>,
    model: Model,
    provider: String,
    params: Params,
    tools: Vec<ReadyTool<'a>>,
    pub(super) logs: Logs,
    /// The total cost of the model calls.
    spent: Option<Usage>,
    /// The cost of an unusable reply that ended the rounds.
    wasted: Option<Usage>,
    /// The node's text so far.
    text_stream: TextStream<'a>,
    /// Files and variables from tools.
    collected: Collected,
    /// The journal keys of tool calls.
    entry_keys: ToolEntryKeys,
    /// Instructions to the model from people who approved tool calls.
    instructions: Vec<String>,
    /// True if the model was called in this round, false if the reply came from the journal.
    is_new: bool,
}

/// The model or a tool is not there.
#[derive(Debug)]
pub(super) struct Unready {
    pub(super) message: String,
    pub(super) retryable: bool,
    pub(super) retry_after_ms: Option<u64>,
    pub(super) lacks: Option<Box<Need>>,
}

impl Unready {
    /// Another attempt does not help.
    pub(super) fn lasting(message: impl Into<String>) -> Self {
        Self { message: message.into(), retryable: false, retry_after_ms: None, lacks: None }
    }
}

impl From<ToolError> for Unready {
    fn from(error: ToolError) -> Self {
        let ToolError { message, retryable, retry_after_ms, lacks, .. } = error;
        Self { message, retryable, retry_after_ms, lacks }
    }
}

impl From<ModelError> for Unready {
    fn from(error: ModelError) -> Self {
        let ModelError { message, retryable, retry_after_ms, lacks, .. } = error;
        Self { message, retryable, retry_after_ms, lacks }
    }
}

impl<'a> Rounds<'a> {
    /// Finds the model and the tools. A tool of a server is not offered under a name that another tool has.
    pub(super) async fn new(
        given: &'a AgentParameters,
        offered: &'a [Offering<'a>],
        node: &'a Node,
        means: Means<'a>,
        (format, on_thought): (ReasoningFormat, ThoughtSink<'a>),
    ) -> Result<Self, Unready> {
        let model = means.providers.resolve_for(&given.model, ModelKind::Llm, Some(*means.run)).await?;
        let mut found = Vec::with_capacity(given.tools.len());
        for one in &given.tools {
            let name = ToolName {
                kind: one.kind,
                provider_id: &one.provider,
                provider_name: &one.provider,
                tool: &one.name,
                plugin: one.plugin.as_deref(),
            };
            let tool = means.tools.find_for_model(name).await;
            found.push(tool.map_err(Unready::from)?);
        }
        let warnings = means.tools.at_run_time(&mut found, means.run).await;
        warnings.into_iter().for_each(|warning| means.journal.warn(warning));
        let ready = given.tools.iter().zip(found).map(|(one, tool)| {
            let spec = prompt::spec(one, tool.declaration.as_ref());
            ReadyTool { given: one.clone(), tool, spec }
        });
        let mut tools: Vec<ReadyTool<'_>> = ready.collect();
        for (one, tool) in offered.iter().flat_map(Offering::tools) {
            let spec = prompt::spec(one, tool.declaration.as_ref());
            if tools.iter().all(|known: &ReadyTool<'_>| known.spec.name != spec.name) {
                tools.push(ReadyTool { given: one.clone(), tool, spec });
            }
        }
        Ok(Self {
            node,
            means,
            model,
            provider: given.model.provider.clone(),
            params: params::resolve(&given.model.completion_params, &Nothing),
            tools,
            logs: Logs::default(),
            spent: None,
            wasted: None,
            text_stream: TextStream::new(format, means.on_piece, on_thought),
            collected: Collected::default(),
            entry_keys: ToolEntryKeys::default(),
            instructions: Vec::new(),
            is_new: true,
        })
    }

    /// The facts about the model.
    pub(super) fn facts(&self) -> ModelFacts {
        self.model.facts()
    }

    /// The tool descriptions for the model.
    pub(super) fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|tool| tool.spec.clone()).collect()
    }

    /// The names of a tool's parameters for the model.
    pub(super) fn parameters_of(&self, tool: &str) -> Vec<String> {
        let tool = self.tools.iter().find(|known| known.spec.name == tool);
        let properties = tool.and_then(|tool| tool.spec.parameters.get("properties")?.as_object());
        properties.map(|map| map.keys().cloned().collect()).unwrap_or_default()
    }

    /// The stop sequences.
    pub(super) fn stop(&mut self) -> &mut Vec<String> {
        &mut self.params.stop
    }

    /// Adds text to the answer.
    pub(super) fn add_text(&mut self, text: &str) {
        self.text_stream.push(text);
    }

    /// Takes the instructions from people since the last call.
    pub(super) fn instructions(&mut self) -> Vec<String> {
        std::mem::take(&mut self.instructions)
    }

    /// Begins a line of the log. The caller sends it only for new work: a result from the journal was already reported,
    /// and would appear to run again.
    pub(super) fn line(&mut self, place: &str, label: String, parent: Option<&AgentLog>) -> AgentLog {
        let log = AgentLog::begun(&self.means.execution, place, label);
        let log = parent.map_or_else(|| log.clone(), |parent| log.clone().below(parent));
        self.note(log.clone());
        log
    }

    /// Sends a line of the log.
    pub(super) fn emit(&mut self, log: AgentLog) {
        let event = self.event(&log);
        self.note(log);
        self.send(vec![event]);
    }

    /// Sends events after the text so far.
    fn send(&self, events: Vec<(StepEvent, JsonMap)>) {
        (self.means.flush)();
        self.means.journal.emit(events);
    }

    fn note(&mut self, log: AgentLog) {
        let log = self.hidden(log);
        self.logs.note(log);
    }

    fn event(&self, log: &AgentLog) -> (StepEvent, JsonMap) {
        let log = self.hidden(log.clone());
        (StepEvent::AgentLog, log.event(&self.means.execution, self.node.id.as_str()))
    }

    /// Masks secrets in a line. Mask before cutting: half a secret would not be found.
    fn hidden(&self, log: AgentLog) -> AgentLog {
        let secrets = self.means.journal.secrets();
        AgentLog {
            data: secrets.hidden_in(log.data),
            error: log.error.map(|error| secrets.masked(error)),
            ..log
        }
    }

    /// A text for an event, masked and bounded.
    fn shown(&self, text: &str) -> String {
        TextBudget::of_a_line().text(&self.means.journal.secrets().masked(text.to_owned()))
    }

    /// Asks the model, or takes the recorded reply. `to_streamed` converts pieces of the reply's text to the text that is
    /// streamed. A recorded reply is streamed again, because the reader does not know what an earlier worker has sent.
    pub(super) async fn ask(
        &mut self,
        round: u64,
        messages: Vec<Message>,
        tools: Vec<ToolSpec>,
        to_streamed: &mut (dyn FnMut(&str) -> String + Send),
        parent: &AgentLog,
    ) -> Result<RoundReply, String> {
        let step = format!("llm:{round}");
        let place = format!("{step}/thought");
        let label = format!("{} Thought", self.model.name());
        let log = self.line(&place, label, Some(parent));
        let begun = self.means.journal.begin(&step).await;
        self.is_new = matches!(begun, EntryStart::Try(_));
        let the_try = match begun {
            EntryStart::Known(known) => return self.take_recorded(&known, &step, log, to_streamed),
            EntryStart::Try(the_try) => the_try,
        };
        self.send(vec![self.event(parent), self.event(&log)]);
        let (began, clock) = (now(), Instant::now());
        let question = self.question(messages, tools);
        let (reply, linked) = match self.ask_model(question, &step, to_streamed).await {
            Ok(answer) => answer,
            Err(message) => {
                let log = log.failed(message.clone(), self.times(began, clock));
                self.emit(log);
                return Err(message);
            }
        };
        let usage = bill(&self.model, &reply);
        let LinkedText { text, files, .. } = linked;
        let round_reply = RoundReply { text, tool_calls: reply.tool_calls, files, verbatim: reply.verbatim };
        let metadata = self.doubled(&step, self.cost(Some((began, clock)), &usage));
        let log = log.done(thought(&round_reply), metadata);
        let event = self.event(&log);
        let charge =
            (usage.clone(), ChargeSource::Model(self.provider.clone(), self.model.name().to_owned()));
        let result = round_reply.to_json(&usage);
        let report = EntryReport { events: vec![event], charge: Some(charge) };
        (self.means.flush)();
        self.means.journal.record(&step, the_try.number, &result, report).await;
        self.note(log);
        self.spend(usage);
        round_reply.files.iter().for_each(|file| self.collected.keep(file.clone()));
        Ok(round_reply)
    }

    /// Takes the recorded reply of a model call: its text, its files and its cost.
    fn take_recorded(
        &mut self,
        known: &Json,
        step: &str,
        log: AgentLog,
        to_streamed: &mut (dyn FnMut(&str) -> String + Send),
    ) -> Result<RoundReply, String> {
        let (round_reply, usage) = RoundReply::read(known).ok_or_else(|| unreadable(step))?;
        self.add_text(&to_streamed(&round_reply.text));
        (self.means.flush)();
        round_reply.files.iter().for_each(|file| self.collected.keep(file.clone()));
        let metadata = self.doubled(step, self.cost(None, &usage));
        let log = log.done(thought(&round_reply), metadata);
        self.note(log);
        self.spend(usage);
        Ok(round_reply)
    }

    /// The request for the next reply. The reply gets no more tokens than the messages leave.
    fn question(&self, messages: Vec<Message>, tools: Vec<ToolSpec>) -> Question {
        let mut params = self.params.clone();
        tokens::lower_reply(&self.model.facts(), &mut params, tokens::estimate(&messages));
        Question {
            messages,
            params,
            stream: tools.is_empty() || self.model.facts().has("stream-tool-call"),
            tools,
            mode: tidemill_common::nodes::llm::ModelMode::Chat,
        }
    }

    /// Calls the model, streams the text of its reply, and stores its files. The cost of a reply that cannot be used is
    /// kept as wasted.
    async fn ask_model(
        &mut self,
        question: Question,
        step: &str,
        to_streamed: &mut (dyn FnMut(&str) -> String + Send),
    ) -> Result<(ModelReply, LinkedText), String> {
        let mut has_piece = false;
        let text_stream = &mut self.text_stream;
        let mut on_delta = |text: &str| {
            has_piece = true;
            text_stream.push(&to_streamed(text));
        };
        let mut reply = match self.model.for_job(self.means.journal, step).ask(question, &mut on_delta).await
        {
            Ok(reply) => reply,
            Err(error) => {
                self.wasted = lost(&self.model, &error);
                return Err(error.message);
            }
        };
        let file_store = FileStore { run: self.means.run, http: self.means.http, files: self.means.files };
        let linked = match store_files(&mut reply, file_store).await {
            Ok(linked) => linked,
            Err(failure) => {
                self.wasted = Some(bill(&self.model, &reply));
                return Err(failure.message);
            }
        };
        self.add_text(&to_streamed(if has_piece { linked.rest() } else { &linked.text }));
        Ok((reply, linked))
    }

    /// Refuses a call after the last round, and tells the model.
    pub(super) fn too_late(&mut self, round: u64, call: &ToolCall, parent: &AgentLog) -> String {
        let step = self.entry_keys.next(round, &call.id);
        let line = self.line(&step, format!("CALL {}", call.name), Some(parent));
        self.told_without(line, call, prompt::limit_reached(round, &call.name))
    }

    /// Calls a tool, or takes the recorded answer. Returns the text for the model; failures are also texts for the
    /// model.
    pub(super) async fn call(&mut self, round: u64, call: &ToolCall, parent: &AgentLog) -> String {
        let step = self.entry_keys.next(round, &call.id);
        let log = self.line(&step, format!("CALL {}", call.name), Some(parent));
        let Some(at) = self.tools.iter().position(|tool| tool.spec.name == call.name) else {
            return self.told_without(log, call, prompt::unknown_tool(&call.name));
        };
        let approval = self.approval(at, &step, call).await;
        self.instructions.extend(approval.instruction);
        if let Some(why) = approval.refused {
            return self.told_without(log, call, why);
        }
        let edited = approval.edited.map(|edited| ToolCall { arguments: edited.to_string(), ..call.clone() });
        let call = edited.as_ref().unwrap_or(call);
        let arguments = prompt::arguments(&self.tools[at].given, &call.arguments);
        let arguments = arguments.and_then(|arguments| self.tools[at].tool.cast(arguments));
        let arguments = match arguments {
            Ok(arguments) => arguments,
            Err(error) => return self.told_without(log, call, prompt::failed_tool(&error)),
        };
        let the_try = match self.means.journal.begin(&step).await {
            EntryStart::Known(known) => {
                let answered = Answered::read(&known);
                self.warn_of(at, &answered);
                let metadata = self.doubled(&step, JsonMap::new());
                let log = match &answered.error {
                    None => log.done(answered.data(call), metadata),
                    Some(error) => log.with(answered.data(call)).failed(error.clone(), metadata),
                };
                self.note(log);
                answered.files.iter().for_each(|file| self.collected.keep(file.clone()));
                answered.spent.into_iter().for_each(|(usage, _)| self.spend(usage));
                return answered.words;
            }
            EntryStart::Try(the_try) => the_try,
        };
        let (began, clock) = (now(), Instant::now());
        // No worker held the job while the workflow ran, and its start was already reported.
        let is_workflow = self.tools[at].given.kind == ProviderKind::Workflow;
        let is_told = is_workflow && self.means.journal.has_called(&step, the_try.number).await;
        if !is_told {
            let started = (StepEvent::ToolCallStarted, self.told_call(call, &arguments));
            self.send(vec![self.event(&log), started]);
        }
        let answered = self.invoke(at, &arguments, &step, &the_try).await;
        self.warn_of(at, &answered);
        let metadata = self.doubled(&step, self.times(began, clock));
        let (event, log) = match &answered.error {
            None => {
                let mut report = self.told_call(call, &arguments);
                report.insert("result".into(), json!(self.shown(&answered.words)));
                report.insert("execution_time".into(), json!(seconds(clock)));
                let log = log.done(answered.data(call), metadata);
                ((StepEvent::ToolCallCompleted, report), log)
            }
            Some(error) => {
                let mut report = self.told_call(call, &arguments);
                report.insert("error".into(), json!(self.shown(error)));
                let log = log.with(answered.data(call)).failed(error.clone(), metadata);
                ((StepEvent::ToolCallFailed, report), log)
            }
        };
        let events = vec![event, self.event(&log)];
        let charge = answered.spent.clone().map(|(usage, run)| (usage, ChargeSource::of_tool(run)));
        let report = EntryReport { events, charge };
        (self.means.flush)();
        self.means.journal.record_large(&step, the_try.number, answered.to_json(), report).await;
        self.note(log);
        answered.files.iter().for_each(|file| self.collected.keep(file.clone()));
        answered.spent.into_iter().for_each(|(usage, _)| self.spend(usage));
        answered.charged.into_iter().for_each(|usage| self.spend(usage));
        answered.words
    }

    /// Warns about a tool that is a workflow without an app: only the model hears of the failure. Recorded answers count
    /// too, because an attempt that is parked for another workflow loses its warnings.
    fn warn_of(&self, at: usize, answered: &Answered) {
        let tool = &self.tools[at].given;
        if let (ProviderKind::Workflow, Some(error)) = (tool.kind, &answered.error)
            && let Some(warning) = unknown_app(&tool.provider, error)
        {
            self.means.journal.warn(warning);
        }
    }

    /// Asks for approval of a tool call, if the run requires it.
    async fn approval(&self, at: usize, step: &str, call: &ToolCall) -> Approval {
        let Means { journal, auto_approved, .. } = self.means;
        let tool = &self.tools[at];
        let id = format!("{}/{}", tool.given.provider, tool.given.name);
        let rules = ApprovalRules { journal, auto_approved, node: self.node };
        rules.approval(step, (&id, &tool.spec), call).await
    }

    async fn invoke(&self, at: usize, arguments: &JsonMap, step: &str, the_try: &Try) -> Answered {
        let (mut words, mut collected) = (String::new(), Collected::default());
        let mut wrong = None;
        let mut sink = |message| {
            if let Some(text) = prompt::words(&message) {
                words.push_str(&text);
            }
            if let Err(failure) = collected.take(message) {
                wrong.get_or_insert(failure.message);
            }
        };
        let call = Call {
            arguments,
            run: self.means.run,
            http: self.means.http,
            files: self.means.files,
            idempotency_key: &the_try.idempotency_key,
            sends_key: self.node.settings.idempotency_key,
            step: Some((self.means.journal, step, the_try.number)),
            known: self.tools[at].tool.known().unwrap_or(KnownParameters::NOTHING),
            nested: 0,
            auto_approved: self.means.auto_approved,
        };
        let invoked = self.tools[at].tool.invoke(call, &mut sink).await;
        let error = invoked.err().map(|error| error.to_string()).or(wrong);
        let spent = collected.spent.take().filter(|(usage, _)| usage.is_any());
        let charged = collected.charged.take();
        let kept = match error {
            Some(error) => Err(error),
            None => {
                let pending = std::mem::take(&mut collected.files);
                files::kept(pending, self.means.run, self.means.http, self.means.files)
                    .await
                    .map_err(|failure| failure.message)
            }
        };
        match kept {
            Ok(files) => Answered { words, files, error: None, spent, charged },
            Err(error) => {
                let words = prompt::failed_tool(&error);
                Answered { words, files: Vec::new(), error: Some(error), spent, charged }
            }
        }
    }

    /// Records a call that was not made, and tells the model why.
    fn told_without(&mut self, log: AgentLog, call: &ToolCall, words: String) -> String {
        if self.is_new {
            self.emit(log.clone());
        }
        let answered = Answered { words: words.clone(), error: Some(words.clone()), ..Answered::default() };
        self.emit(log.with(answered.data(call)).failed(words.clone(), JsonMap::new()));
        words
    }

    fn told_call(&self, call: &ToolCall, arguments: &JsonMap) -> JsonMap {
        let arguments = self.means.journal.secrets().hidden_in(arguments.clone());
        let report = json!({
            "node_id": self.node.id.as_str(),
            "tool_id": call.name,
            "tool_name": call.name,
            "tool_call_id": call.id,
            "arguments": TextBudget::of_a_line().map(&arguments),
        });
        report.as_object().cloned().unwrap_or_default()
    }

    fn spend(&mut self, usage: Usage) {
        self.spent = Some(match self.spent.take() {
            None => usage,
            Some(spent) => usage::sum(&spent, &usage),
        });
    }

    /// The total cost.
    pub(super) fn usage(&self) -> Usage {
        self.spent.clone().unwrap_or_else(|| usage::bill(Tokens::default(), None, Timing::default()))
    }

    /// The cost of an unusable reply.
    pub(super) fn wasted(&mut self) -> Option<Box<Wasted>> {
        let (provider, model) = (self.provider.clone(), self.model.name().to_owned());
        self.wasted.take().map(|usage| Box::new(Wasted { provider, model, usage }))
    }

    /// Marks the metadata of a call that may have been made twice.
    fn doubled(&self, step: &str, mut metadata: JsonMap) -> JsonMap {
        if self.means.journal.is_possible_duplicate(step) {
            metadata.insert(POSSIBLE_DUPLICATE.into(), true.into());
        }
        metadata
    }

    /// Metadata of a line: times and cost.
    fn cost(&self, began: Option<(Timestamp, Instant)>, usage: &Usage) -> JsonMap {
        let mut metadata = began.map(|(at, clock)| self.times(at, clock)).unwrap_or_default();
        metadata.insert("provider".into(), json!(self.provider));
        metadata.extend(usage::metadata(usage));
        metadata
    }

    /// Metadata of a line: times.
    pub(super) fn times(&self, began: Timestamp, clock: Instant) -> JsonMap {
        let elapsed = seconds(clock);
        JsonMap::from_iter([
            ("started_at".to_owned(), json!(began.seconds_f64())),
            ("finished_at".to_owned(), json!(began.seconds_f64() + elapsed)),
            ("elapsed_time".to_owned(), json!(elapsed)),
        ])
    }

    /// The node's outputs.
    pub(super) async fn outputs(mut self) -> Result<Vec<(String, Segment)>, NodeFailure> {
        let usage = self.usage();
        let (text, thoughts) = self.text_stream.end();
        let pending = std::mem::take(&mut self.collected.files);
        let files = files::kept(pending, self.means.run, self.means.http, self.means.files).await?;
        let mut json = self.logs.outputs(self.node.id.as_str());
        json.push(json!({"data": []}));
        Ok(vec![
            ("text".to_owned(), Segment::string(text)),
            ("reasoning_content".to_owned(), Segment::string(thoughts)),
            ("usage".to_owned(), Segment::new(SegmentType::Object, Json::Object(usage.record))),
            ("files".to_owned(), Segment::new(SegmentType::ArrayFile, Json::Array(files))),
            ("json".to_owned(), Segment::new(SegmentType::ArrayObject, Json::Array(json))),
        ])
    }
}

/// The result of a call.
#[derive(Default)]
struct Answered {
    /// The text for the model.
    words: String,
    /// File objects; the files are stored.
    files: Vec<Json>,
    error: Option<String>,
    /// The cost, and the run that spent it.
    spent: Option<(Usage, Option<RunId>)>,
    /// The cost that is charged already. A recorded result has it in `spent`.
    charged: Option<Usage>,
}

impl Answered {
    fn data(&self, call: &ToolCall) -> Json {
        json!({
            "output": {
                "tool_call_id": call.id,
                "tool_call_name": call.name,
                "tool_call_input": call.arguments,
                "tool_response": self.words,
            }
        })
    }

    fn to_json(&self) -> Json {
        let mut value = json!({"words": self.words, "files": self.files, "error": self.error});
        let spent = self.spent.as_ref().map(|(usage, _)| usage);
        let cost = match (spent, &self.charged) {
            (Some(spent), Some(charged)) => Some(usage::sum(spent, charged)),
            (spent, charged) => spent.or(charged.as_ref()).cloned(),
        };
        if let Some(usage) = cost {
            value["usage"] = Json::Object(usage.record);
        }
        value
    }

    fn read(known: &Json) -> Self {
        let files = known.get("files").and_then(Json::as_array).cloned().unwrap_or_default();
        let text = |key: &str| known.get(key).and_then(Json::as_str).map(str::to_owned);
        let usage = known.get("usage").and_then(Json::as_object).cloned().map(Usage::from_record);
        let spent = usage.map(|usage| (usage, None));
        let words = text("words").unwrap_or_default();
        Self { words, files, error: text("error"), spent, charged: None }
    }
}

/// The parameters of an agent's model use no variables of the graph.
struct Nothing;

impl Variables for Nothing {
    fn variable(&self, _: &str, _: &str) -> tidemill_common::value::Lookup<'_> {
        tidemill_common::value::Lookup::Missing
    }
    fn names(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

fn seconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1000.0).round() / 1000.0
}

fn thought(round_reply: &RoundReply) -> Json {
    let calls: Vec<Json> = round_reply
        .tool_calls
        .iter()
        .map(|call| json!({"name": call.name, "args": call.arguments}))
        .collect();
    json!({"output": {"llm_response": round_reply.text, "tool_calls": calls}})
}

fn unreadable(step: &str) -> String {
    format!("the journal has a result of {step} that cannot be read; a newer version may have written it")
}
