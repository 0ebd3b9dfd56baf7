//! Runs the rounds of one execution: calls the model, runs its tool calls, and returns their results to the model if
//! the node wants that.

use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::messages::{self, Effects};
use tidemill_common::nodes::llm::message::{Message, ToolCall, ToolSpec};
use tidemill_common::nodes::llm::params::Params;
use tidemill_common::nodes::llm::profile::{ProfileData, TOOL_ERROR, TOOL_ROUNDS_EXCEEDED, text_calls};
use tidemill_common::nodes::llm::reasoning::{self, Filter, Piece};
use tidemill_common::nodes::llm::record::{self, Secrets};
use tidemill_common::nodes::llm::usage;
use tidemill_common::nodes::llm::{ModelMode, ReasoningFormat, Role};
use tidemill_common::nodes::{NodeResult, Usage, Wasted};
use tidemill_common::registry::{ProfileConfig, ToolMode};
use tidemill_common::value::{Segment, SegmentType};

use super::conversation;
use super::failed::Failed;
use super::reply::Reply;
use super::tool_result::ToolResult;
use super::tool_set::ToolSet;
use super::{Means, list, outcome};
use crate::attempt::journal::{ChargeSource, EntryReport, EntryStart, ToolEntryKeys};
use crate::nodes::llm::{bill, lost};
use crate::nodes::model_files::{FileStore, LinkedText, store_files};
use crate::outside::providers::{Model, ModelReply, Question};

/// The rounds of one execution.
pub(super) struct Rounds<'a> {
    data: &'a ProfileData,
    node: &'a Node,
    model: Box<Model>,
    /// The provider's name in the profile.
    provider: String,
    mode: ToolMode,
    secrets: Secrets,
    means: Means<'a>,
    params: Params,
    specs: Vec<ToolSpec>,
    /// The visible part of the message list.
    before: Vec<messages::Message>,
    /// The new messages, beginning with the prompt.
    said: Vec<Message>,
    /// The first request, for the record.
    prompts: Vec<Message>,
    calls: Vec<Json>,
    results: Vec<ToolResult>,
    /// The journal keys of calls so far.
    entry_keys: ToolEntryKeys,
    spent: Option<Usage>,
    /// The part of the cost that the provider counted.
    counted: Option<Usage>,
    duplicates: Vec<String>,
    /// The cost of an unusable reply that ended the rounds.
    wasted: Option<Usage>,
}

/// The result of the rounds.
pub(super) type Ended = Result<Reply, Failed>;

impl<'a> Rounds<'a> {
    /// Creates the rounds before the first request.
    pub(super) fn new(
        data: &'a ProfileData,
        node: &'a Node,
        (profile, model): (&ProfileConfig, Box<Model>),
        (params, secrets, before): (Params, Secrets, Vec<messages::Message>),
        means: Means<'a>,
    ) -> Self {
        Self {
            data,
            node,
            model,
            provider: profile.provider.clone(),
            mode: profile.tool_mode,
            secrets,
            means,
            params,
            before,
            said: Vec::new(),
            specs: Vec::new(),
            prompts: Vec::new(),
            calls: Vec::new(),
            results: Vec::new(),
            entry_keys: ToolEntryKeys::default(),
            spent: None,
            counted: None,
            duplicates: Vec::new(),
            wasted: None,
        }
    }

    /// Runs rounds until the model has answered.
    pub(super) async fn run(&mut self, prompt: &str) -> Ended {
        let tool_set = ToolSet::new(&self.data.tools, self.node, self.means.tool_access).await?;
        self.specs = tool_set.specs();
        let mut messages: Vec<Message> =
            messages::sendable(&self.before).iter().map(conversation::sent).collect();
        let known = messages.len();
        messages.push(Message::text(Role::User, prompt));
        self.prompts = self.sent(messages.clone());
        let ended = self.run_rounds(&tool_set, &mut messages).await;
        self.said = messages.split_off(known);
        ended
    }

    async fn run_rounds(&mut self, tool_set: &ToolSet<'_>, messages: &mut Vec<Message>) -> Ended {
        for round in 1.. {
            let reply = self.ask(round, messages).await?;
            if reply.tool_calls.is_empty() {
                messages.push(reply.message());
                return Ok(reply);
            }
            let rounds_max = u64::from(self.data.calling.rounds_max);
            if rounds_max > 0 && round > rounds_max {
                let message = format!(
                    "ToolRoundsExceeded: the model still calls tools after {rounds_max} rounds (max_tool_rounds)"
                );
                return Err(NodeFailure::new(TOOL_ROUNDS_EXCEEDED, message).into());
            }
            self.call_all(tool_set, round, &reply, messages).await?;
            if rounds_max == 0 {
                return Ok(reply);
            }
        }
        Err(Failed::validation("the model was never asked"))
    }

    /// Runs the calls of a reply and adds their results to the messages.
    async fn call_all(
        &mut self,
        tool_set: &ToolSet<'_>,
        round: u64,
        reply: &Reply,
        messages: &mut Vec<Message>,
    ) -> Result<(), Failed> {
        let (asked, calls_max) = (reply.tool_calls.len(), self.data.calling.calls_max as usize);
        if asked > calls_max {
            let message = format!(
                "LLM returned {asked} tool calls, exceeds limit of {calls_max}. Configure maxToolCallsPerRequest to \
                 adjust this limit."
            );
            return Err(Failed::of_reply(message, &self.provider, self.model.name()));
        }
        let named = |call: &ToolCall| (self.entry_keys.next(round, &call.id), call.clone());
        let calls: Vec<(String, ToolCall)> = reply.tool_calls.iter().map(named).collect();
        let (results, instructions) =
            tool_set.call_all(&format!("llm:{round}"), &calls, &self.data.calling).await;
        self.calls.extend(reply.calls());
        messages.push(reply.message());
        messages.extend(results.iter().map(ToolResult::message));
        messages.extend(instructions.into_iter().map(|text| Message::text(Role::User, text)));
        let doubled = results.iter().zip(&calls).filter(|(one, _)| one.possible_duplicate);
        self.duplicates.extend(doubled.map(|(_, (step, _))| step.clone()));
        let wrong = results.iter().find_map(|one| Some((one.name.clone(), one.error.clone()?.1)));
        self.results.extend(results);
        match wrong {
            Some((name, error)) if self.data.calling.fails => {
                Err(NodeFailure::new(TOOL_ERROR, format!("Tool {name} failed: {error}")).into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Prepares messages for sending. A model without native tool calls gets the tools as text.
    fn sent(&self, messages: Vec<Message>) -> Vec<Message> {
        if self.mode == ToolMode::FunctionCall || self.specs.is_empty() {
            return messages;
        }
        let tools = Message::text(Role::System, text_calls::instructions(&self.specs, self.mode));
        [tools].into_iter().chain(text_calls::as_text(messages, self.mode)).collect()
    }

    /// Returns true if text is streamed as it arrives; false if the text may not be part of the answer.
    fn is_live(&self) -> bool {
        let may_go_on = self.data.calling.rounds_max > 0 || self.mode != ToolMode::FunctionCall;
        self.data.stream && (self.specs.is_empty() || !may_go_on)
    }

    /// Asks the model, or takes the recorded reply.
    async fn ask(&mut self, round: u64, messages: &[Message]) -> Ended {
        let step = format!("llm:{round}");
        let journal = self.means.tool_access.journal;
        let the_try = match journal.begin(&step).await {
            EntryStart::Known(known) => {
                let reply = Reply::read(&known).ok_or_else(|| unreadable(&step))?;
                self.stream_unsent(&reply, true);
                self.take(&step, &reply);
                return Ok(reply);
            }
            EntryStart::Try(the_try) => the_try,
        };
        let question = Question {
            messages: self.sent(messages.to_vec()),
            params: self.params.clone(),
            tools: if self.mode == ToolMode::FunctionCall { self.specs.clone() } else { Vec::new() },
            mode: ModelMode::Chat,
            stream: self.data.stream,
        };
        let (reply, linked) = self.answer(&step, question).await?;
        let ModelReply { tool_calls, finish_reason, verbatim, .. } = &reply;
        let usage = bill(&self.model, &reply);
        let (text, tool_calls) = match self.mode {
            ToolMode::FunctionCall => (linked.text.clone(), tool_calls.clone()),
            ToolMode::Xml | ToolMode::Json if self.specs.is_empty() => {
                (linked.text.clone(), tool_calls.clone())
            }
            ToolMode::Xml | ToolMode::Json => text_calls::read(&linked.text, round),
        };
        let reply = Reply {
            text,
            tool_calls,
            files: linked.files.clone(),
            verbatim: verbatim.clone(),
            finish_reason: finish_reason.clone(),
            usage,
            possible_duplicate: the_try.possible_duplicate,
        };
        let by = ChargeSource::Model(self.provider.clone(), self.model.name().to_owned());
        let report = EntryReport { events: Vec::new(), charge: Some((reply.usage.clone(), by)) };
        journal.record(&step, the_try.number, &reply.to_json(), report).await;
        self.stream_unsent(&reply, false);
        self.take(&step, &reply);
        Ok(reply)
    }

    /// Sends a request, and streams the reply if the node does so.
    async fn answer(&mut self, step: &str, question: Question) -> Result<(ModelReply, LinkedText), Failed> {
        let (is_live, is_split) = (self.is_live(), self.data.reasoning == ReasoningFormat::Separated);
        let Means { on_delta, on_thought, tool_access, .. } = &mut self.means;
        let mut filter = Filter::default();
        let mut has_piece = false;
        let mut push = |text: &str| {
            has_piece = true;
            match (is_live, is_split) {
                (false, _) => {}
                (true, false) => on_delta(text),
                (true, true) => filter.push(text, &mut |piece: Piece<'_>| match piece {
                    Piece::Said(text) => on_delta(text),
                    Piece::Thought { text, last } => on_thought(text, last),
                }),
            }
        };
        let streams = question.stream;
        match self.model.for_job(tool_access.journal, step).ask(question, &mut push).await {
            Ok(mut reply) => {
                let file_store =
                    FileStore { run: tool_access.run, http: tool_access.http, files: tool_access.files };
                let linked = match store_files(&mut reply, file_store).await {
                    Ok(linked) => linked,
                    Err(failure) => {
                        self.wasted = Some(bill(&self.model, &reply));
                        return Err(failure.into());
                    }
                };
                if !linked.rest().is_empty() {
                    push(linked.rest());
                }
                if is_live && is_split {
                    filter.finish(&mut |piece: Piece<'_>| match piece {
                        Piece::Said(text) => on_delta(text),
                        Piece::Thought { text, last } => on_thought(text, last),
                    });
                }
                Ok((reply, linked))
            }
            Err(error) => {
                self.wasted = lost(&self.model, &error);
                let mut failed = Failed::of_call(error, &self.provider, self.model.name());
                failed.failure.message = self.secrets.masked(&failed.failure.message);
                if streams && has_piece {
                    let report = json!({"node_id": self.node.id.as_str(), "error": failed.failure.message});
                    let report = report.as_object().cloned().unwrap_or_default();
                    tool_access.journal.emit(vec![(StepEvent::LlmStreamError, report)]);
                }
                Err(failed)
            }
        }
    }

    /// Sends the text of a reply that was not streamed, if it is the answer.
    fn stream_unsent(&mut self, reply: &Reply, is_known: bool) {
        let is_answer = reply.tool_calls.is_empty() || self.data.calling.rounds_max == 0;
        if !self.data.stream || !is_answer || self.is_live() && !is_known {
            return;
        }
        let said = self.split(&reply.text).0;
        if !said.is_empty() {
            (self.means.on_delta)(&said);
        }
    }

    /// Splits text and reasoning, if the node wants them separately.
    fn split(&self, text: &str) -> (String, String) {
        match self.data.reasoning {
            ReasoningFormat::Tagged => (text.to_owned(), String::new()),
            ReasoningFormat::Separated => {
                let split = reasoning::split(text);
                (split.text, split.thoughts)
            }
        }
    }

    /// Adds the cost of a reply.
    fn take(&mut self, step: &str, reply: &Reply) {
        let sum = |all: &mut Option<Usage>| {
            *all =
                Some(all.as_ref().map_or_else(|| reply.usage.clone(), |all| usage::sum(all, &reply.usage)));
        };
        sum(&mut self.spent);
        if reply.is_counted() {
            sum(&mut self.counted);
        }
        if reply.possible_duplicate {
            self.duplicates.push(step.to_owned());
        }
    }

    /// Builds the node's result: outputs, and additions to the message list and the history.
    pub(super) fn into_result(mut self, result: NodeResult, prompt: &str, ended: Ended) -> NodeResult {
        // The calls have been made; the rest is only shown to people.
        let shown = self.means.tool_access.journal.secrets();
        self.calls = self.calls.into_iter().map(|call| shown.hidden(call)).collect();
        let asked = outcome::Question {
            profile_id: result.process_data.get("profile_id").cloned().unwrap_or_default(),
            prompt: self.secrets.masked(prompt),
            usage: self.counted.as_ref().map(|usage| Json::Object(usage.record.clone())),
            calls: &self.calls,
        };
        let history = outcome::history(&asked, &ended);
        let said = conversation::said(&self.said, &self.secrets, self.data.conversation.as_ref());
        let context = ((self.data.emits_context || self.node.gives_context) && ended.is_ok())
            .then(|| messages::context_of(self.before.iter().chain(&said)));
        let mut effects = match &self.data.conversation {
            Some(conversation) if ended.is_ok() => Effects::appending(conversation.id.clone(), said),
            Some(_) | None => Effects::default(),
        };
        effects.history.push(history);
        let mut result = self.into_outputs(result, ended);
        result.outputs.extend(context.map(|context| ("context".into(), Segment::infer(context))));
        result.effects = Some(Box::new(effects));
        result
    }

    fn into_outputs(self, mut result: NodeResult, ended: Ended) -> NodeResult {
        let prompts = record::prompts(&self.prompts, ModelMode::Chat, &self.secrets);
        let usage = self.counted.as_ref().map_or(Json::Null, |usage| Json::Object(usage.record.clone()));
        let mut put = |key: &str, value: Json| result.process_data.insert(key.into(), value);
        put("model_mode", json!(ModelMode::Chat.name()));
        put("model_provider", json!(self.provider));
        put("model_name", json!(self.model.name()));
        put("prompts", prompts);
        put("usage", usage.clone());
        if !self.duplicates.is_empty() {
            put("possible_duplicates", json!(self.duplicates));
        }
        result.metadata = self.spent.as_ref().map(usage::metadata).unwrap_or_default();
        result.usage = self.spent.clone();
        let by = || (self.provider.clone(), self.model.name().to_owned());
        result.wasted = self.wasted.clone().map(|usage| {
            let (provider, model) = by();
            Box::new(Wasted { provider, model, usage })
        });
        let reply = match ended {
            Ok(reply) => reply,
            Err(failed) => return super::failed(result, &failed),
        };
        let finish_reason = reply.finish_reason.clone().map_or(Json::Null, Json::String);
        result.process_data.insert("finish_reason".into(), finish_reason.clone());
        let (text, thoughts) = self.split(&reply.text);
        let usage = match self.counted {
            Some(_) => Segment::new(SegmentType::Object, usage),
            None => Segment::none(),
        };
        let shown = self.means.tool_access.journal.secrets();
        let results = self.results.iter().map(|results| shown.hidden(results.output())).collect();
        result.outputs = vec![
            ("content".into(), Segment::string(text.clone())),
            ("text".into(), Segment::string(text)),
            ("tool_calls".into(), list(self.calls)),
            ("tool_results".into(), list(results)),
            ("usage".into(), usage),
            ("finish_reason".into(), Segment::infer(finish_reason)),
            ("reasoning_content".into(), Segment::string(thoughts)),
        ];
        if !reply.files.is_empty() {
            result
                .outputs
                .push(("files".into(), Segment::new(SegmentType::ArrayFile, Json::Array(reply.files))));
        }
        result
    }
}

fn unreadable(step: &str) -> Failed {
    Failed::validation(format!(
        "the journal has a result of {step} that cannot be read; a newer version may have written it"
    ))
}
